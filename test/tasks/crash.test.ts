import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Perdure } from '../../src/index.ts';
import type { StoreKind } from '../engine/engine-store.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import type { TaskProgramOptions, TaskReport } from './task-program.ts';

const leaseMs = 1_000;

/** A worker process and its reports. */
class TaskProcess {
  readonly #reports: TaskReport[] = [];
  readonly #process;

  constructor(options: Omit<TaskProgramOptions, 'leaseMs'>) {
    const program = join(import.meta.dirname, 'task-program.ts');
    this.#process = fork(program, [JSON.stringify({ ...options, leaseMs })], {
      execArgv: [],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    this.#process.on('message', (report: TaskReport) => this.#reports.push(report));
    onTestFinished(() => this.kill());
  }

  async waitFor(report: TaskReport): Promise<void> {
    while (!this.#reports.includes(report)) {
      const [exit] = await Promise.race([
        once(this.#process, 'message').then(() => []),
        once(this.#process, 'exit').then(() => [true]),
      ]);
      if (exit === true) throw new Error(`A worker exited before it was ${report}.`);
    }
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await exited;
  }
}

async function openStore(kind: StoreKind) {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-tasks-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const database = kind === 'PostgreSQL' ? await createDatabase() : undefined;
  onTestFinished(() => database?.drop());
  const store = database?.url ?? join(folder, 'tasks.db');
  const perdure = await Perdure.open(store);
  onTestFinished(() => perdure.close());
  const ledger = join(folder, 'ledger.txt');
  const lines = (): readonly string[] =>
    existsSync(ledger) ? readFileSync(ledger, 'utf8').split('\n').slice(0, -1) : [];
  return { files: { store, ledger }, lines, client: perdure.client };
}

describe.each(['SQLite', 'PostgreSQL'] as const)('task runs of killed workers (%s)', (kind) => {
  const open = () => openStore(kind);

  test('another worker ends the canceling run of a killed worker within lease plus 2 s', async () => {
    const { files, client, lines } = await open();
    const victim = new TaskProcess({ ...files, how: 'hold' });
    await victim.waitFor('ready');
    const handle = await client.runTask('work', undefined, { dedupeKey: 'k' });
    await victim.waitFor('running');
    await new TaskProcess({ ...files, how: 'work', withoutTasks: true }).waitFor('ready');
    expect(await handle.cancel({ reason: 'enough' })).toMatchObject({ status: 'canceling' });
    const [held] = (await handle.status()).running ?? [];
    expect(held).toMatchObject({ name: 'work', cancel: { reason: 'enough' } });
    // The dedupe key stays taken while the worker holds its lease.
    expect(await client.runTask('work', undefined, { dedupeKey: 'k' })).toMatchObject({
      id: handle.id,
    });
    await victim.kill();
    const killedAt = Date.now();
    const { status, endedAt = 0, leaked } = await client.wait(handle.id, { timeout: '20s' });
    expect([status, leaked]).toEqual(['canceled', undefined]);
    expect(endedAt - killedAt).toBeLessThanOrEqual(leaseMs + 2_000);
    expect(await client.runTask('work', undefined, { dedupeKey: 'k' })).toMatchObject({
      created: true,
    });
    expect(lines()).toEqual([]);
  }, 60_000);

  test('onFail of a killed worker runs on another, and the run stays failed', async () => {
    const { files, client, lines } = await open();
    const victim = new TaskProcess({ ...files, how: 'hold' });
    await victim.waitFor('ready');
    const handle = await client.runTask('fails');
    await victim.waitFor('onFail');
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect(await handle.status()).toMatchObject({ status: 'failed', task: { onFail: 'running' } });
    await victim.kill();
    await new TaskProcess({ ...files, how: 'work' }).waitFor('onFail');
    await expect
      .poll(async () => (await handle.status()).task?.onFail, { timeout: 5_000 })
      .toBe('completed');
    expect(await handle.status()).toMatchObject({ status: 'failed' });
    expect(lines()).toEqual([`${handle.id} told`]);
  }, 60_000);

  test('after three kills no run is lost, and only held runs are repeated', async () => {
    const { files, client, lines } = await open();
    const [runs, kills, concurrency] = [300, 3, 10];
    await client.runTasks(
      Array.from({ length: runs }, (_, n) => ({ task: 'work', options: { id: `run-${n}` } })),
    );
    for (let kill = 0; kill < kills; kill += 1) {
      const victim = new TaskProcess({ ...files, how: 'work' });
      const done = lines().length;
      await expect
        .poll(() => lines().length, { timeout: 20_000, interval: 5 })
        .toBeGreaterThan(done + 20);
      await victim.kill();
    }
    await new TaskProcess({ ...files, how: 'work' }).waitFor('ready');
    for (let n = 0; n < runs; n += 1) {
      expect(await client.wait(`run-${n}`, { timeout: '20s' })).toMatchObject({
        status: 'completed',
      });
    }
    const done = lines();
    expect(new Set(done).size).toBe(runs);
    expect(done.length - runs).toBeLessThanOrEqual(kills * concurrency);
  }, 60_000);
});
