import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, existsSync, mkdtempSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { openCliStore, waiting, type CliStore } from './helpers/cli-store.ts';

const main = join(import.meta.dirname, '../../src/cli/main.ts');
let opened: CliStore;

beforeAll(async () => {
  opened = await openCliStore();
  const { client } = opened.perdure;
  await Promise.all(
    Array.from({ length: 400 }, (_, index) =>
      client.start(waiting, undefined, { id: `waiting-${index}`, tags: { a: 'b'.repeat(200) } }),
    ),
  );
});

afterAll(() => opened[Symbol.asyncDispose]());

function start(
  argv: readonly string[],
  env: NodeJS.ProcessEnv = {},
  stdout: 'pipe' | number = 'pipe',
): ChildProcess {
  return spawn(process.execPath, [main, ...argv], {
    cwd: opened.directory,
    env: { PATH: process.env['PATH'], PERDURE_STORE: opened.store, ...env },
    stdio: ['ignore', stdout, 'pipe'],
  });
}

async function finish(child: ChildProcess) {
  let [stdout, stderr] = ['', ''];
  child.stdout?.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, stdout, stderr };
}

describe('the program perdure', () => {
  it('writes data without ANSI to a pipe, also with a terminal type', async () => {
    const { code, stdout } = await finish(start(['list'], { TERM: 'xterm-256color' }));
    expect(code).toBe(0);
    expect(stdout).toContain('waiting-');
    expect(stdout).not.toContain('\u001B');
  });

  it('works without a home directory', async () => {
    const { code } = await finish(start(['list', '--count'], { HOME: '' }));
    expect(code).toBe(0);
  });

  it.runIf(process.platform !== 'win32')(
    'a deleted working directory ends with 2, and help works in it',
    async () => {
      // The shell deletes its directory, then runs the program in it.
      const run = (...argv: readonly string[]) => {
        const cwd = mkdtempSync(join(opened.directory, 'deleted-'));
        const script = 'rmdir "$PWD" && exec "$@"';
        return finish(
          spawn('sh', ['-c', script, 'sh', process.execPath, main, ...argv], {
            cwd,
            env: { PATH: process.env['PATH'], PERDURE_STORE: opened.store },
            stdio: ['ignore', 'pipe', 'pipe'],
          }),
        );
      };
      const [text, json, help] = await Promise.all([
        run('list'),
        run('list', '--json'),
        run('--help'),
      ]);
      expect(text).toEqual({
        code: 2,
        stdout: '',
        stderr: 'error: The working directory does not exist.\nChange to another directory.\n',
      });
      expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: 'USAGE', exitCode: 2 } });
      expect(help.code).toBe(0);
    },
  );

  it('ends quietly when the reader of a pipe ends', async () => {
    const child = start(['list', '--limit', '400', '--json']);
    const ended = finish(child);
    child.stdout?.destroy();
    const { code, stderr } = await ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it.runIf(existsSync('/dev/full'))(
    'an output that cannot be written ends a read with 1',
    async () => {
      const run = async (...argv: readonly string[]) => {
        const full = openSync('/dev/full', 'w');
        const child = start(argv, {}, full);
        closeSync(full);
        return finish(child);
      };
      const stderr = expect.stringMatching(
        /^error: Cannot write to the standard output: ENOSPC.*\.$/m,
      );
      expect(await run('list', '--limit', '1')).toMatchObject({ code: 1, stderr });
      // A command that changes instances goes on.
      const ids = ['full-1', 'full-2'];
      const { client } = opened.perdure;
      for (const id of ids) await client.start(waiting, undefined, { id });
      expect(await run('terminate', ...ids, '--yes')).toMatchObject({ code: 0, stderr });
      for (const id of ids) expect((await client.get(id))?.status).toBe('terminated');
    },
  );

  it('a command that changes instances changes all of them when the reader of a pipe ends', async () => {
    const ids = ['pipe-1', 'pipe-2', 'pipe-3', 'pipe-4'];
    const { client } = opened.perdure;
    for (const id of ids) await client.start(waiting, undefined, { id });
    const child = start(['terminate', ...ids, '--yes']);
    const ended = finish(child);
    child.stdout?.destroy();
    expect(await ended).toMatchObject({ code: 0, stderr: '' });
    const statuses = await Promise.all(ids.map(async (id) => (await client.get(id))?.status));
    expect(statuses).toEqual(ids.map(() => 'terminated'));
  });

  it('Ctrl-C ends a wait with 130', async () => {
    const child = start(['watch', 'waiting-1']);
    const ended = finish(child);
    await once(child.stdout!, 'data');
    child.kill('SIGINT');
    expect(await ended).toMatchObject({ code: 130, stderr: 'Interrupted.\n' });
  });

  it.runIf(process.platform !== 'win32')(
    'the second Ctrl-C ends a command that reads a pipe without data',
    async () => {
      const pipe = join(opened.directory, 'pipe');
      spawnSync('mkfifo', [pipe]);
      const child = start(['start', 'waiting', `@${pipe}`]);
      let stderr = '';
      child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
      const ended = once(child, 'close');
      onTestFinished(() => void child.kill('SIGKILL'));
      // Opens only when the command has opened the other end, and keeps its read waiting.
      const flags = constants.O_WRONLY | constants.O_NONBLOCK;
      const writer = await vi.waitFor(() => openSync(pipe, flags), { timeout: 20_000 });
      child.kill('SIGINT');
      await vi.waitUntil(() => stderr === 'Interrupted.\n', { timeout: 20_000 });
      // The process handles signals for 500 ms.
      const isOver = () => child.exitCode !== null || child.signalCode !== null;
      await vi.waitUntil(() => isOver() || !child.kill('SIGINT'), {
        interval: 100,
        timeout: 5_000,
      });
      await ended;
      closeSync(writer);
    },
  );

  it('Ctrl-C in the middle of bulk work says how far it came and how to continue', async () => {
    const count = 2_000;
    const { client } = opened.perdure;
    // No worker has their code, so they start fast and stay.
    for (let index = 0; index < count; index += 200) {
      await Promise.all(
        Array.from({ length: 200 }, (_, n) =>
          client.start('unregistered', undefined, { id: `bulk-${index + n}` }),
        ),
      );
    }
    const db = new Database(opened.store, { timeout: 5_000 });
    const canceled = db.prepare(`SELECT count(*) FROM instances WHERE status = 'canceled'`).pluck();
    const argv = ['cancel', '--name', 'unregistered', '--yes'];
    const child = start(argv);
    const ended = finish(child);
    await vi.waitUntil(() => Number(canceled.get()) > 0, { interval: 1, timeout: 20_000 });
    // The command waits for the lock, so the signal arrives between two transactions of its work.
    db.exec('BEGIN IMMEDIATE');
    const done = Number(canceled.get());
    child.kill('SIGINT');
    await setTimeout(300);
    db.exec('COMMIT');
    const { code, stderr } = await ended;
    expect(code).toBe(130);
    expect(done).toBeLessThan(count);
    const [, visited, cursor] =
      /^Interrupted\. ([\d,]+) instances? visited so far: .*\nContinue with: perdure cancel --name unregistered --yes --cursor (\S+)\n/.exec(
        stderr,
      ) ?? [];
    expect(Number(visited?.replace(',', ''))).toBe(canceled.get());
    const rest = await finish(start([...argv, '--cursor', cursor ?? '', '--json']));
    expect(JSON.parse(rest.stdout)).toMatchObject({ matched: count, changed: count, done: true });
    expect(canceled.get()).toBe(count);
    db.close();
  });

  it('reads a configuration with a wrong field and ends with 2', async () => {
    writeFileSync(join(opened.directory, 'perdure.config.json'), '{"profiles": {"default": 7}}');
    const { code, stderr } = await finish(start(['list'], { PERDURE_STORE: '' }));
    expect(code).toBe(2);
    expect(stderr).toContain('use an object');
  });
});
