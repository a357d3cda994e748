import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { root } from './run-program.ts';

const dist = join(root, 'dist');
const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  exports: Record<string, { default: string }>;
};
const entries = Object.values(exports).map(({ default: path }) => join(root, path));
const browserEntries = ['remote.js', 'codecs.js'].map((name) => join(dist, name));

/** Runs a module of the repository that imports the package by its name. */
async function run(code: string, ...flags: string[]): Promise<string> {
  const args = [...flags, '--input-type=module', '--eval', code];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  return stdout.trim();
}

/** The specifiers of the static imports of a built file. */
function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8');
  return [...text.matchAll(/^(?:import|export)\b[^;]*?"([^"]+)";$/gm)].map(
    ([, name]) => name ?? '',
  );
}

/** The built files that a file loads, and the other modules that they import. */
function reached(file: string, seen = new Set<string>()): ReadonlySet<string> {
  for (const name of importsOf(file)) {
    const path = name.startsWith('.') ? join(dirname(file), name) : name;
    if (seen.has(path)) continue;
    seen.add(path);
    if (name.startsWith('.')) reached(path, seen);
  }
  return seen;
}

describe('build', () => {
  it('has one class for all entry points', async () => {
    const code = `
const [{ PerdureError, ProviderError, Perdure }, ...others] = await Promise.all(
  ['perdure', 'perdure/remote', 'perdure/provider'].map((name) => import(name)));
const { openSqlite } = await import('perdure/sqlite');
const { serve } = await import('perdure/server');
const error = await openSqlite({ path: '' }).catch((reason) => reason);
const perdure = await Perdure.open(await openSqlite({ path: ':memory:' }));
const refused = await serve(perdure, { port: -1 }).catch((reason) => reason);
await perdure.close();
console.log(
  others.every((other) => other.PerdureError === PerdureError && other.ProviderError === ProviderError),
  error instanceof PerdureError, refused instanceof PerdureError);`;
    expect(await run(code)).toBe('true true true');
  });

  it.each(browserEntries)('loads no package and no module of Node.js: %s', (entry) => {
    expect([...reached(entry)].filter((name) => !name.startsWith(dist))).toEqual([]);
  });

  it.each(entries.filter((entry) => !browserEntries.includes(entry)))(
    'checks the version of Node.js first: %s',
    (entry) => {
      expect(importsOf(entry)[0]).toBe('./require-node.js');
    },
  );

  it('has only ASCII characters, so that V8 keeps each file with one byte per character', () => {
    const files = entries.flatMap((entry) => [entry, ...reached(entry)]);
    const built = [...new Set(files)].filter((name) => name.startsWith(dist));
    expect(built.length).toBeGreaterThan(15);
    expect(built.filter((file) => /[\u0080-\uffff]/.test(readFileSync(file, 'utf8')))).toEqual([]);
  });

  it('loads at most 10 files with the package, and no driver', () => {
    const names = [...reached(join(dist, 'index.js'))];
    expect(names.filter((name) => name.startsWith(dist)).length).toBeLessThanOrEqual(10);
    const packages = names.filter((name) => !name.startsWith(dist) && !name.startsWith('node:'));
    expect(packages).toEqual(['croner']);
  });

  it.each(['activities/activity-thread.js', 'watchdog/watchdog-thread.js'])(
    'loads no more than two chunks in a thread: %s',
    (name) => {
      const chunks = [...reached(join(dist, 'runtime', name))].filter((path) =>
        /chunks/.test(path),
      );
      const large = chunks.filter((path) => readFileSync(path).byteLength > 1_000);
      expect(large.length).toBeLessThanOrEqual(2);
    },
  );

  it('names the sources in stacks with --enable-source-maps', async () => {
    const code = `
const { Perdure } = await import('perdure');
console.log(await Perdure.open('').catch(({ stack }) => stack));`;
    expect(await run(code, '--enable-source-maps')).toMatch(/src\/[a-z-/]+\.ts:\d+/);
  });

  it.each([[], ['--enable-source-maps']])(
    'names the place of a call in the code of the application, with flags %j',
    async (...flags) => {
      const code = `
const { orchestration, Perdure } = await import('perdure');
const log = (...parts) => console.log(JSON.stringify(parts));
const logger = { debug: log, info: log, warn: log, error: log };
const careless = orchestration('careless', async function careless(ctx) { ctx.sleep(1); });
const perdure = await Perdure.open(':memory:', { logger });
await perdure.startWorker({ orchestrations: [careless], onUnawaited: 'warn' });
const handle = await perdure.client.start(careless);
await handle.result().catch(() => undefined);
await perdure.close();`;
      expect(await run(code, ...flags)).toMatch(/careless.*\[eval1?\]:5:/);
    },
  );
});
