import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { createCancellationStore } from '../../src/providers/sqlite/stopping/cancellation.ts';
import { createManagementStore } from '../../src/providers/sqlite/reading/management.ts';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';
import { Store } from '../../src/providers/sqlite/store.ts';
import { createTaskStore } from '../../src/providers/sqlite/tasks/task-runs.ts';
import { createWorkQueue } from '../../src/providers/sqlite/queues/work-queue.ts';
import type { WorkOutcome } from '../../src/providers/contract/work-queue.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { newTask, outcomes } from '../../src/testing/conformance/task-helpers.ts';

const fetch = { max: 1_000, lockMs: 60_000, waitMs: 0 };

/** An in-memory store that counts the statements sent to the driver. */
function openCounted() {
  let statements = 0;
  const db = new Database(':memory:', { verbose: () => void (statements += 1) });
  migrate(db, 0);
  const clock = new FakeClock();
  const store = new Store({ db, clock, pollMs: 5, busyTimeoutMs: 100 });
  onTestFinished(() => store.close());
  const provider = {
    ...createTaskStore(store),
    ...createWorkQueue(store),
    ...createCancellationStore(store),
    ...createManagementStore(store),
  };
  const count = async <Result>(call: Promise<Result>) => {
    const before = statements;
    return { result: await call, statements: statements - before };
  };
  const countRows = (table: string) => db.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
  const ack = async (lockToken: string, outcome: WorkOutcome = { kind: 'skipped' }) => {
    const [result] = await provider.ackWorkItems([{ lockToken, outcome }]);
    expect(result?.ok).toBe(true);
  };
  return { provider, clock, count, countRows, ack };
}

it('a task run takes two statements to create, three to claim, four to end', async () => {
  const { provider, count } = openCounted();
  const tasks = Array.from({ length: 1_000 }, (_, index) => newTask(`run ${index}`));
  const created = await count(provider.createTasks(tasks));
  expect(created.statements).toBeLessThan(2 * tasks.length + 20);
  const claimed = await count(provider.fetchWorkItems(fetch));
  expect(claimed.result).toHaveLength(tasks.length);
  expect(claimed.statements).toBeLessThan(3 * tasks.length + 20);
  const outcome = { kind: 'completed', payload: null } as const;
  const acks = claimed.result.map(({ lockToken }) => ({ lockToken, outcome }));
  const ended = await count(provider.ackWorkItems(acks));
  expect(ended.result.every(({ ok }) => ok)).toBe(true);
  expect(ended.statements).toBeLessThan(4 * tasks.length + 20);
});

it('every end of a task run deletes its work item and its dedupe key', async () => {
  const { provider, clock, countRows, ack } = openCounted();
  const stop = { reason: 'x', actor: null, cleanupMs: 1, tree: false };
  const create = async (instanceId: string, parts = {}) => {
    await provider.createTasks([newTask(instanceId, { dedupeKey: instanceId, ...parts })]);
  };
  const start = async (instanceId: string, parts = {}) => {
    await create(instanceId, parts);
    const [item] = await provider.fetchWorkItems(fetch);
    return item?.lockToken ?? '';
  };
  for (const [index, outcome] of outcomes.entries()) await ack(await start(`${index}`), outcome);
  await create('canceled');
  await provider.requestCancel([{ instanceId: 'canceled', ...stop }]);
  const canceling = await start('canceling');
  await provider.requestCancel([{ instanceId: 'canceling', ...stop }]);
  await ack(canceling);
  await create('terminated');
  await provider.terminate([{ instanceId: 'terminated', ...stop }]);
  const held = await start('held');
  await provider.terminate([{ instanceId: 'held', ...stop }]);
  await ack(held);
  await start('deleted');
  await provider.deleteInstancesAtomic([{ instanceIds: ['deleted'], force: true }]);
  await create('expired', { expiresAt: clock.now() + 1 });
  expect([countRows('worker_queue'), countRows('dedupe_keys')]).toEqual([1, 1]);
  await clock.advance(1);
  await provider.fetchWorkItems(fetch);
  expect([countRows('worker_queue'), countRows('dedupe_keys')]).toEqual([0, 0]);
});
