import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Benchmark, Figures } from './benchmark.ts';
import { runProgram } from './run-program.ts';

const folder = join(import.meta.dirname, 'peers');

/** Installs the peers from their lock file, unless they are installed. */
export function installPeers(): void {
  if (existsSync(join(folder, 'node_modules', '.package-lock.json'))) return;
  console.error('installing the peers');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'inherit' });
}

type Peer = 'dbos' | 'dbos-queues' | 'pg-boss' | 'graphile-worker';

/** The same work on another system, in a separate process. */
export function onPeer(peer: Peer, what: string, more: Readonly<Record<string, number>> = {}) {
  return (({ store, quick }) => {
    const setup = JSON.stringify({ store, quick, ...more });
    return runProgram(`${peer} ${what}`, [
      '--disable-warning=DeprecationWarning',
      join(folder, `${peer}.mjs`),
      what,
      setup,
    ]);
  }) satisfies Benchmark;
}

// Its default, and the size that its production checklist recommends. A single workflow uses one
// connection at a time, so a long one runs with the default only.
const dbosPoolSizes = [10, 20];
const longRun = 10_000;

/** DBOS with several pool sizes: the best of them, per figure. */
export function onDbos(
  what: 'hello' | 'latency' | 'steps' | 'stepRate',
  { better, count = 0 }: { readonly better: 'more' | 'less'; readonly count?: number },
): Benchmark {
  const best = better === 'more' ? Math.max : Math.min;
  return async (setup) => {
    const figures: Record<string, number> = {};
    for (const poolSize of count < longRun ? dbosPoolSizes : dbosPoolSizes.slice(0, 1)) {
      const found: Figures = await onPeer('dbos', what, { poolSize, count })(setup);
      for (const [name, value] of Object.entries(found)) {
        figures[name] = best(value, figures[name] ?? value);
      }
    }
    return figures;
  };
}
