import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { newInstance, newTurn, workItem } from '../../src/testing/conformance/sample-data.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const fetch = { max: 10, lockMs: 10_000, waitMs: 0 };
const stop = { instanceId: 'a', reason: 'x', actor: null };

/** A store with a running and a queued item of one instance, and direct access to its database. */
async function openWithWork() {
  const { open, path } = temporaryStore();
  const clock = new FakeClock();
  const provider = await open({ clock });
  const workItems = [workItem(1, { claimMs: 10_000 }), workItem(2)];
  const instance = newInstance('a', { firstTurn: newTurn({ workItems }) });
  const [created] = await provider.createInstances([instance]);
  if (created?.kind !== 'created') throw new Error('Not created.');
  const execute = (sql: string): void => {
    const db = new Database(path);
    db.exec(sql);
    db.close();
  };
  const countItems = (): unknown => {
    const db = new Database(path);
    const count = db.prepare('SELECT count(*) FROM worker_queue').pluck().get();
    db.close();
    return count;
  };
  return { provider, clock, execute, countItems, lockToken: created.claimed[0]?.lockToken ?? '' };
}

it('a fetch deletes the work items of a missing instance', async () => {
  const { provider, clock, execute, countItems } = await openWithWork();
  execute('DELETE FROM instances');
  expect(await provider.fetchWorkItems(fetch)).toEqual([]);
  expect(countItems()).toBe(1);
  await clock.advance(10_000);
  expect(await provider.fetchWorkItems(fetch)).toEqual([]);
  expect(countItems()).toBe(0);
});

it('an ack of running work of a missing instance enqueues no message', async () => {
  const { provider, execute, lockToken } = await openWithWork();
  execute('DELETE FROM instances');
  const outcome = { kind: 'canceled', leaked: true } as const;
  expect(await provider.ackWorkItems([{ lockToken, outcome }])).toMatchObject([{ ok: true }]);
  expect(await provider.fetchOrchestrationItems(fetch)).toEqual([]);
});

it('a renewal of a missing work item reports its lease as lost', async () => {
  const { provider, execute, lockToken } = await openWithWork();
  execute('DELETE FROM instances; DELETE FROM worker_queue');
  expect(await provider.renewWorkItemLocks([{ lockToken }], 10_000)).toEqual([{ held: false }]);
  expect(await provider.markPointOfNoReturn(lockToken)).toEqual({ kind: 'lost' });
});

it('cancel and terminate of a missing instance return found: false', async () => {
  const { provider, execute } = await openWithWork();
  execute(`DELETE FROM instances`);
  const notFound = { found: false, changed: false, status: null };
  expect(await provider.requestCancel([{ ...stop, cleanupMs: 1 }])).toEqual([notFound]);
  expect(await provider.terminate([{ ...stop, tree: true }])).toEqual([notFound]);
});

it('a canceling instance without messages does not make a waiting fetch busy-poll', async () => {
  const { provider, clock, execute } = await openWithWork();
  await provider.requestCancel([{ ...stop, cleanupMs: 1_000 }]);
  execute('DELETE FROM orchestrator_queue');
  const waiting = provider.fetchOrchestrationItems({ ...fetch, runnable: [], waitMs: 5_000 });
  await clock.advance(1_000);
  expect(clock.alarmCount).toBe(1);
  await clock.advance(4_000);
  expect(await waiting).toEqual([]);
});

it('a message of a missing instance is never claimed and delays no fetch', async () => {
  const { open, path } = temporaryStore();
  const clock = new FakeClock();
  const provider = await open({ clock });
  await provider.createInstances([newInstance('a'), newInstance('b')]);
  const db = new Database(path);
  db.exec(`DELETE FROM instances WHERE instance_id = 'a'`);
  const items = await provider.fetchOrchestrationItems(fetch);
  expect(items.map(({ instanceId }) => instanceId)).toEqual(['b']);
  const waiting = provider.fetchOrchestrationItems({ ...fetch, waitMs: 5_000 });
  await clock.advance(1_000);
  expect(clock.alarmCount).toBe(1);
  await clock.advance(4_000);
  expect(await waiting).toEqual([]);
  expect(
    db.prepare('SELECT count(*) FROM instance_locks WHERE lock_token IS NULL').pluck().get(),
  ).toBe(0);
  db.close();
});
