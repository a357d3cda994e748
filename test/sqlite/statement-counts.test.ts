import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { createCancellationStore } from '../../src/providers/sqlite/stopping/cancellation.ts';
import { createInstanceStore } from '../../src/providers/sqlite/instances/instances.ts';
import { createManagementStore } from '../../src/providers/sqlite/reading/management.ts';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';
import { createOrchestrationQueue } from '../../src/providers/sqlite/queues/orchestration-queue.ts';
import { Store } from '../../src/providers/sqlite/store.ts';
import { createWorkQueue } from '../../src/providers/sqlite/queues/work-queue.ts';
import type { Turn } from '../../src/providers/contract/turn.ts';
import {
  activityCancel,
  child,
  event,
  newInstance,
  newTurn,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

const few = 40;
const many = 2_000;

/** An in-memory store that counts the statements sent to the driver. */
function openCounted() {
  let statements = 0;
  const db = new Database(':memory:', { verbose: () => void (statements += 1) });
  migrate(db, 0);
  const clock = new FakeClock();
  const store = new Store({ db, clock, pollMs: 5, busyTimeoutMs: 100 });
  onTestFinished(() => store.close());
  const provider = {
    ...createOrchestrationQueue(store),
    ...createWorkQueue(store),
    ...createInstanceStore(store),
    ...createCancellationStore(store),
    ...createManagementStore(store),
  };
  const count = async (action: () => Promise<unknown>): Promise<number> => {
    const before = statements;
    await action();
    return statements - before;
  };
  // Starts of younger instances are recorded when they are deleted, which takes two more statements.
  const passRepeats = () => clock.advance(600_000);
  return { provider, count, passRepeats };
}

/** An instance with `size` activities, half of them claimed. */
async function beginWide(size: number) {
  const { provider, count, passRepeats } = openCounted();
  const operations = Array.from({ length: size }, (_, index) => index + 1);
  const workItems = operations.map((operation) => workItem(operation));
  await provider.createInstances([newInstance('a', { firstTurn: newTurn({ workItems }) })]);
  await passRepeats();
  const lockMs = 60_000;
  const running = await provider.fetchWorkItems({ max: size / 2, lockMs, waitMs: 0 });
  const claim = async () => {
    const [item] = await provider.fetchOrchestrationItems({
      max: 1,
      lockMs,
      waitMs: 0,
      maxMessages: 10_000,
    });
    if (item === undefined) throw new Error('Nothing to claim.');
    return item;
  };
  const ack = async (parts: Partial<Turn>) => {
    const { lockToken, messages } = await claim();
    const messageKeys = messages.map(({ messageKey }) => messageKey);
    const turn = newTurn(parts);
    return count(async () => {
      const [result] = await provider.ackOrchestrationItems([{ lockToken, messageKeys, turn }]);
      expect(result).toMatchObject({ ok: true });
    });
  };
  const wake = () => {
    const message = { kind: 'wake', executionId: null, operation: null, data: '{}', payload: null };
    return provider.enqueueMessages([{ instanceId: 'a', message }]);
  };
  return { provider, count, operations, running, ack, wake };
}

it('a turn that cancels 2,000 activities takes as many statements as for 40', async () => {
  const counts: number[] = [];
  for (const size of [few, many]) {
    const { ack, wake, operations, running, provider } = await beginWide(size);
    await wake();
    const activityCancels = operations.map((operation) => activityCancel(operation));
    counts.push(await ack({ activityCancels }));
    const renewed = await provider.renewWorkItemLocks(running, 60_000);
    expect(renewed.every((one) => one.held && one.cancel !== null)).toBe(true);
    expect(await provider.fetchWorkItems({ max: size, lockMs: 1, waitMs: 0 })).toEqual([]);
  }
  expect(counts[1]).toBe(counts[0]);
  expect(counts[1]).toBeLessThan(20);
});

it('a cancel request for 2,000 activities takes as many statements as for 40', async () => {
  const counts: number[] = [];
  for (const size of [few, many]) {
    const { provider, count } = await beginWide(size);
    const request = { instanceId: 'a', reason: 'x', actor: null, cleanupMs: 1_000 };
    counts.push(await count(() => provider.requestCancel([request])));
    expect(await provider.listRunningItems('a')).toHaveLength(size / 2);
  }
  expect(counts[1]).toBe(counts[0]);
  expect(counts[1]).toBeLessThan(20);
});

it('completing or terminating with 2,000 activities takes as many statements as with 40', async () => {
  const ended: number[] = [];
  const terminated: number[] = [];
  for (const size of [few, many]) {
    const one = await beginWide(size);
    await one.wake();
    ended.push(await one.ack({ outcome: { status: 'completed', payload: null } }));
    const other = await beginWide(size);
    const request = { instanceId: 'a', reason: 'x', actor: null, tree: true };
    terminated.push(await other.count(() => other.provider.terminate([request])));
  }
  expect(ended[1]).toBe(ended[0]);
  expect(terminated[1]).toBe(terminated[0]);
});

it('turns that cancel 2,000 activities and read the results take under 40 statements', async () => {
  const { ack, wake, operations } = await beginWide(many);
  await wake();
  const events = operations.map((operation) => event(`withdrawn ${operation}`));
  const activityCancels = operations.map((operation) => activityCancel(operation));
  const decided = await ack({ events, activityCancels });
  const read = await ack({ firstEventId: many + 1, events: events.slice(0, many / 2) });
  expect(decided).toBeLessThan(40);
  expect(read).toBeLessThan(40);
});

it('deleting an instance with 2,000 activities takes as many statements as with 40', async () => {
  const counts: number[] = [];
  for (const size of [few, many]) {
    const { provider, count, running } = await beginWide(size);
    const tree = { instanceIds: ['a'], force: true };
    counts.push(
      await count(async () => {
        const [result] = await provider.deleteInstancesAtomic([tree]);
        expect(result).toMatchObject({ counts: { queueMessagesDeleted: size } });
      }),
    );
    const renewed = await provider.renewWorkItemLocks(running, 60_000);
    expect(renewed.every((one) => !one.held && one.deleted === true)).toBe(true);
  }
  expect(counts[1]).toBe(counts[0]);
  expect(counts[1]).toBeLessThan(20);
});

it('deleting and reclaiming a long history takes no statement per event', async () => {
  const counts: number[] = [];
  for (const size of [few, 3_000, 9_000]) {
    const { provider, count, passRepeats } = openCounted();
    const events = Array.from({ length: size }, (_, index) => event(`${index}`));
    const firstTurn = newTurn({ events, outcome: { status: 'completed', payload: null } });
    await provider.createInstances([newInstance('a', { firstTurn })]);
    await passRepeats();
    const tree = { instanceIds: ['a'], force: false };
    counts.push(
      await count(async () => {
        await provider.deleteInstancesAtomic([tree]);
        expect(await provider.reclaimDeleted(10_000)).toEqual({
          rows: size === 9_000 ? size : 0,
          left: false,
        });
      }),
    );
  }
  expect(counts[1]).toBe(counts[0]);
  expect(Math.max(...counts)).toBeLessThan(30);
});

it('deleting a tree takes one statement per instance plus a constant', async () => {
  const counts: number[] = [];
  for (const size of [few, many]) {
    const { provider, count } = openCounted();
    const ids = Array.from({ length: size }, (_, index) => `kid ${index}`);
    const children = ids.map((id, index) => child(id, index + 1));
    await provider.createInstances([newInstance('root', { firstTurn: newTurn({ children }) })]);
    const tree = { instanceIds: [...ids, 'root'], force: true };
    counts.push(await count(() => provider.deleteInstancesAtomic([tree])));
  }
  expect((counts[1] ?? 0) - (counts[0] ?? 0)).toBe(many - few);
  expect(counts[0]).toBeLessThan(few + 20);
});

it('pruning 2,000 executions takes as many statements as pruning 40', async () => {
  const counts: number[] = [];
  for (const size of [few, many]) {
    const { provider, count } = openCounted();
    const start = newInstance('a').start;
    const outcome = { status: 'continuedAsNew', version: '1', start } as const;
    await provider.createInstances([newInstance('a')]);
    for (let execution = 1; execution <= size; execution += 1) {
      const fetch = { max: 1, lockMs: 60_000, waitMs: 0 };
      const [item] = await provider.fetchOrchestrationItems(fetch);
      const turn = newTurn({ events: [event('x')], outcome });
      const messageKeys = item?.messages.map(({ messageKey }) => messageKey) ?? [];
      await provider.ackOrchestrationItems([
        { lockToken: item?.lockToken ?? '', messageKeys, turn },
      ]);
    }
    counts.push(
      await count(async () => {
        const [result] = await provider.pruneExecutionsAtomic([{ instanceId: 'a', max: size }]);
        expect(result).toMatchObject({ executionsDeleted: size, eventsDeleted: size });
      }),
    );
  }
  expect(counts[1]).toBe(counts[0]);
});

it('reclaimDeleted() with nothing to reclaim takes at most five statements', async () => {
  const { provider, count } = openCounted();
  expect(await count(() => provider.reclaimDeleted(100))).toBeLessThanOrEqual(5);
});
