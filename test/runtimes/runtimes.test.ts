import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../postgres/helpers/server.ts';

const root = join(import.meta.dirname, '..', '..');
const program = join(import.meta.dirname, 'program.ts');
const binOf = (name: string): string => join(root, 'node_modules', '.bin', name);
const { PERDURE_TEST_NODE: chosenNode, npm_node_execpath: nodeOfNpm } = process.env;
const runtimes = [
  { name: 'Bun', path: binOf('bun'), args: ['run'] },
  { name: 'Deno', path: binOf('deno'), args: ['run', '--allow-all', '--no-check'] },
  // All other tests run on the Node.js of `devDependencies`, also if another version started npm.
  { name: 'Another Node.js', path: chosenNode ?? nodeOfNpm ?? process.execPath, args: [] },
] as const;

/** Returns the version of a runtime, or `undefined` if it cannot be run. */
function versionOf(path: string): string | undefined {
  try {
    return execFileSync(path, ['--version'], { encoding: 'utf8', stdio: 'pipe' }).split('\n')[0];
  } catch {
    return undefined;
  }
}

/** Returns why a runtime is not tested, if it is not. */
function skipReason(path: string, version: string | undefined): string | undefined {
  if (version === undefined) return `skipped: there is no binary ${path}`;
  const major = Number(/^v(\d+)/.exec(version)?.[1] ?? Number.POSITIVE_INFINITY);
  if (major < 22) return `skipped: ${version} is too old, use npm run test:node-versions`;
  return version === process.version
    ? `skipped: ${version} runs all other tests, use npm run test:node-versions`
    : undefined;
}

describe.each(runtimes)('$name', (runtime) => {
  const { path } = runtime;
  const version = versionOf(path);
  const reason = skipReason(path, version);

  it.skipIf(reason !== undefined).each(['SQLite', 'PostgreSQL'] as const)(
    `runs the main features on %s, also after a SIGKILL (${reason ?? version})`,
    { timeout: 60_000 },
    async (kind) => {
      const store = await newStore(kind);
      const run = (mode: string) =>
        promisify(execFile)(path, [...runtime.args, program, store, mode], { cwd: root });
      await expect(run('crash')).rejects.toMatchObject({ signal: 'SIGKILL' });
      const { stdout } = await run('finish');
      expect(JSON.parse(stdout)).toEqual({
        survived: '1:7, shipped order',
        remote: 'remote: 2',
        doubled: 42,
        flow: 2,
        canceled: 'canceled',
        cleanedUp: ['cleaned up'],
        talked: { talked: [true, 'note', 'answered', 5], sum: 5, chunks: ['from a step'] },
      });
    },
  );
});

async function newStore(kind: 'SQLite' | 'PostgreSQL'): Promise<string> {
  if (kind === 'PostgreSQL') {
    const database = await createDatabase();
    onTestFinished(() => database.drop());
    return database.url;
  }
  const folder = mkdtempSync(join(tmpdir(), 'perdure-runtimes-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}
