import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Perdure } from 'perdure';
import { median, type BenchmarkSetup, type Figures } from '../benchmark.ts';
import { createPlainProgram } from '../plain-program.ts';
import { providerOf } from '../store-kind.ts';

const root = join(import.meta.dirname, '..', '..');

interface Printed {
  readonly ms: number;
  readonly cpuMs: number;
  readonly rssMB: number;
}

/**
 * Starts processes in alternating rounds: bare Node.js, an import of `perdure`, the first result, and `perdure --help`. Each
 * figure is a median. A new SQLite file per process; a migrated PostgreSQL schema.
 */
export async function coldStart({ store, quick }: BenchmarkSetup): Promise<Figures> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-cold-'));
  try {
    const program = createPlainProgram('cold-start-program', folder);
    await (await Perdure.open(store)).close();
    const figures: Record<string, number[]> = {};
    const add = (name: string, value: number): void => void (figures[name] ??= []).push(value);
    const cache = join(folder, 'compile-cache');
    const measure = (name: string, args: readonly string[], env = {}): void => {
      const { ms, cpuMs, rssMB } = runNode([program, ...args], env);
      add(`${name}Ms`, ms);
      add(`${name}CpuMs`, cpuMs);
      add(`${name}RssMB`, rssMB);
    };
    // Fills the compile cache, and the page cache of the system.
    runNode([program, 'result', join(folder, 'first.db')], { NODE_COMPILE_CACHE: cache });
    for (let round = 0; round < (quick ? 3 : 9); round += 1) {
      const target = providerOf(store) === 'sqlite' ? join(folder, `${round}.db`) : store;
      measure('bare', ['bare']);
      measure('import', ['import']);
      measure('result', ['result', target]);
      measure('cachedResult', ['result', `${target}${target === store ? '' : '2'}`], {
        NODE_COMPILE_CACHE: cache,
      });
      const begun = performance.now();
      execFileSync(process.execPath, [join(root, 'dist', 'cli', 'main.js'), '--help']);
      add('helpMs', performance.now() - begun);
    }
    return Object.fromEntries(
      Object.entries(figures).map(([name, values]) => [name, median(values)]),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runNode(args: readonly string[], env: Readonly<Record<string, string>>): Printed {
  const printed = execFileSync(process.execPath, args, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return JSON.parse(printed) as Printed;
}
