import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../postgres/helpers/server.ts';

const root = join(import.meta.dirname, '..', '..');
const program = join(import.meta.dirname, 'program.ts');
const runtimes = [
  { name: 'Bun', package: 'bun', args: ['run'] },
  { name: 'Deno', package: 'deno', args: ['run', '--allow-all', '--no-check'] },
] as const;

/** Returns the version of a runtime, or `undefined` if its package has no binary for this platform. */
function versionOf(path: string): string | undefined {
  try {
    return execFileSync(path, ['--version'], { encoding: 'utf8', stdio: 'pipe' }).split('\n')[0];
  } catch {
    return undefined;
  }
}

describe.each(runtimes)('$name', (runtime) => {
  const path = join(root, 'node_modules', '.bin', runtime.package);
  const version = versionOf(path);
  const reason = version ?? `skipped: the package \`${runtime.package}\` has no binary here`;

  it.skipIf(version === undefined).each(['SQLite', 'PostgreSQL'] as const)(
    `runs the main features on %s, also after a SIGKILL (${reason})`,
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
