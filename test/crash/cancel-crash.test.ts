import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Perdure } from '../../src/index.ts';
import { temporaryStore } from '../sqlite/helpers/temporary-store.ts';
import type { StubbornOptions, StubbornReport } from './programs/stubborn-program.ts';

const leaseMs = 1_000;

/** A real worker process and its reports so far. */
class StubbornWorker {
  readonly reports: StubbornReport[] = [];
  readonly #process;

  constructor(options: Omit<StubbornOptions, 'leaseMs'>) {
    const program = join(import.meta.dirname, 'programs', 'stubborn-program.ts');
    this.#process = fork(program, [JSON.stringify({ ...options, leaseMs })], {
      execArgv: [],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    this.#process.on('message', (report: StubbornReport) => this.reports.push(report));
    onTestFinished(() => this.kill());
  }

  async waitForReport(kind: StubbornReport['kind']): Promise<void> {
    const isReported = (): boolean => this.reports.some((report) => report.kind === kind);
    while (!isReported()) {
      const [exit] = await Promise.race([
        once(this.#process, 'message').then(() => []),
        once(this.#process, 'exit').then(() => [true]),
      ]);
      if (exit === true && !isReported()) throw new Error(`A worker exited before it was ${kind}.`);
    }
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const exited = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await exited;
  }
}

async function open() {
  const { path } = temporaryStore();
  const perdure = await Perdure.open(path);
  onTestFinished(() => perdure.close());
  return { path, client: perdure.client };
}

test('another worker cancels the instance of a killed worker within a lease plus 2 s', async () => {
  const { path, client } = await open();
  const victim = new StubbornWorker({ store: path, name: 'victim', how: 'ignore' });
  await victim.waitForReport('ready');
  const handle = await client.start('run');
  await victim.waitForReport('running');
  // It has no such activity, so it can only end the item.
  const other = new StubbornWorker({
    store: path,
    name: 'other',
    how: 'answer',
    withoutActivity: true,
  });
  await other.waitForReport('ready');
  expect(await handle.cancel({ reason: 'enough' })).toMatchObject({ status: 'canceling' });
  await expect
    .poll(async () => (await client.history(handle.id)).items.at(-1)?.event.kind)
    .toBe('executionCanceled');
  // Not `canceled` while the lease of the killed worker is valid.
  const { status: shown, running: [held] = [] } = (await client.get(handle.id)) ?? {};
  expect(shown).toBe('canceling');
  expect(held).toMatchObject({ name: 'stubborn', cancel: { reason: 'enough' } });
  await victim.kill();
  const killedAt = Date.now();
  const { status, endedAt = 0, leaked } = await client.wait(handle.id, { timeout: '20s' });
  expect(status).toBe('canceled');
  expect(leaked).toBeUndefined();
  expect(endedAt - killedAt).toBeLessThanOrEqual(leaseMs + 2_000);
  await other.waitForReport('acked');
  expect(other.reports).toContainEqual({ kind: 'acked', accepted: true });
}, 60_000);

test('an activity that blocks beyond its lease has one outcome; its late ack is rejected', async () => {
  const { path, client } = await open();
  const blocked = new StubbornWorker({
    store: path,
    name: 'blocked',
    how: 'block',
    blockMs: 3 * leaseMs,
  });
  await blocked.waitForReport('ready');
  const handle = await client.start('run');
  await blocked.waitForReport('running');
  const second = new StubbornWorker({ store: path, name: 'second', how: 'answer' });
  await second.waitForReport('ready');
  // The watchdog of the blocked worker fails the activity. If it is too late, the second worker takes over.
  const [result] = await Promise.allSettled([handle.result({ timeout: '20s' })]);
  if (result.status === 'fulfilled') expect(result.value).toBe('second');
  else expect(codesOf(result.reason)).toContain('EVENT_LOOP_BLOCKED');
  await second.kill();
  // The first worker returns to its event loop with its own result, and claims the next instance.
  await client.start('run');
  await expect
    .poll(() => blocked.reports.filter(({ kind }) => kind === 'running').length, {
      timeout: 30_000,
    })
    .toBe(2);
  expect(blocked.reports).not.toContainEqual({ kind: 'acked', accepted: true });
  const { items } = await client.history(handle.id);
  const outcomes = items.filter(({ event }) => /^activity(Completed|Failed)$/.test(event.kind));
  expect(outcomes).toHaveLength(1);
}, 60_000);

/** The codes of an error and its causes. */
function codesOf(error: unknown): readonly unknown[] {
  if (!(error instanceof Error)) return [];
  return [(error as Error & { readonly code?: unknown }).code, ...codesOf(error.cause)];
}
