import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  auditEntry,
  continued,
  createEnded,
  forceDelete,
  prune,
  runExecutions,
} from '../../deletion-helpers.ts';
import { event, workItem } from '../../sample-data.ts';
import { expectLockLost, only } from '../../expectations.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';

/** Returns the ids of the remaining executions. */
async function left(store: StoreUnderTest, instanceId = 'a'): Promise<readonly number[]> {
  return (await store.executions(instanceId)).map(({ executionId }) => executionId);
}

const result = {
  found: true,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
  left: false,
};
const notFound = { ...result, found: false };

export const prunes: Capability = {
  title: 'pruning executions',
  cases: [
    {
      id: 'prune/takes-executions-with-their-history',
      title: 'a prune deletes finished executions with their histories; the instance continues',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await runExecutions(store, 'a', { count: 4 });
        const before = await store.record('a');
        assert.deepEqual(await prune(store, 'a', { keepLast: 2 }), {
          ...result,
          executionsDeleted: 2,
          eventsDeleted: 2,
        });
        assert.deepEqual(await left(store), [3, 4]);
        assert.deepEqual(await store.history('a', 1), []);
        assert.deepEqual(await store.history('a', 2), []);
        assert.deepEqual(await store.historyLabels('a', 3), ['execution 3']);
        assert.deepEqual(await store.historyLabels('a', 4), ['execution 4']);
        assert.deepEqual(await store.record('a'), before);
        await store.raise('a', 'go');
        await store.commit(await store.claimOne(), { events: [event('on')] });
        assert.deepEqual(await store.historyLabels('a', 4), ['execution 4', 'on']);
        await expectUnchanged();
      },
    },
    {
      id: 'prune/never-takes-the-current-one',
      title: 'a prune never deletes the current execution: pending, running or ended',
      async run(store) {
        const everything = { keepLast: 0, endedBefore: Number.MAX_SAFE_INTEGER };
        await createEnded(store, 'over');
        assert.deepEqual(await prune(store, 'over', everything), result);
        await store.begin('a', { outcome: continued });
        for (const conditions of [everything, {}]) await prune(store, 'a', conditions);
        assert.deepEqual(await left(store), [2]);
        const item = await store.claimOne();
        assert.deepEqual(await prune(store, 'a', everything), result);
        await store.commit(item, { events: [event('begun')] });
        assert.deepEqual(await prune(store, 'a', everything), result);
        assert.deepEqual(await left(store), [2]);
        assert.deepEqual(await store.historyLabels('a', 2), ['begun']);
      },
    },
    {
      id: 'prune/spares-the-last',
      title: 'keepLast counts the current execution, and 0 equals 1',
      async run(store) {
        for (const [keepLast, kept] of [
          [9, [1, 2, 3, 4, 5]],
          [5, [1, 2, 3, 4, 5]],
          [4, [2, 3, 4, 5]],
          [2, [4, 5]],
          [1, [5]],
          [0, [5]],
        ] as const) {
          const instanceId = `keep ${keepLast}`;
          await runExecutions(store, instanceId, { count: 5 });
          const { executionsDeleted } = await prune(store, instanceId, { keepLast });
          assert.equal(executionsDeleted, 5 - kept.length);
          assert.deepEqual(await left(store, instanceId), kept, instanceId);
        }
      },
    },
    {
      id: 'prune/takes-those-that-ended-before',
      title:
        'endedBefore prunes executions that ended earlier, and keeps one that ended at that time',
      async run(store) {
        await runExecutions(store, 'a', { count: 4 });
        const [first, second] = await store.executions('a');
        assert.ok(first?.endedAt != null && second?.endedAt != null);
        await prune(store, 'a', { endedBefore: first.endedAt });
        assert.deepEqual(await left(store), [1, 2, 3, 4]);
        await prune(store, 'a', { endedBefore: second.endedAt });
        assert.deepEqual(await left(store), [2, 3, 4]);
      },
    },
    {
      id: 'prune/all-conditions-must-hold',
      title: 'a prune deletes only executions that match both keepLast and endedBefore',
      async run(store) {
        await runExecutions(store, 'a', { count: 5 });
        const third = (await store.executions('a'))[2];
        assert.ok(third?.endedAt != null);
        const endedBefore = third.endedAt + 1;
        assert.equal((await prune(store, 'a', { keepLast: 4, endedBefore })).executionsDeleted, 1);
        assert.deepEqual(await left(store), [2, 3, 4, 5]);
        assert.equal((await prune(store, 'a', { keepLast: 1, endedBefore })).executionsDeleted, 2);
        assert.deepEqual(await left(store), [4, 5]);
      },
    },
    {
      id: 'prune/goes-on-in-steps',
      title:
        'a prune deletes at most max executions, oldest first, and returns whether more are left',
      async run(store) {
        await runExecutions(store, 'a', { count: 6 });
        const step = { keepLast: 2, max: 3 };
        const taken = { ...result, executionsDeleted: 3, eventsDeleted: 3 };
        const none = await prune(store, 'a', { ...step, max: 0 });
        assert.deepEqual(none, { ...result, left: true });
        assert.deepEqual(await prune(store, 'a', step), { ...taken, left: true });
        assert.deepEqual(await left(store), [4, 5, 6]);
        const last = await prune(store, 'a', step);
        assert.deepEqual([last.executionsDeleted, last.left], [1, false]);
        assert.deepEqual(await prune(store, 'a', step), result);
        assert.deepEqual(await left(store), [5, 6]);
      },
    },
    {
      id: 'prune/takes-outstanding-items',
      title: 'a prune deletes queued and held work items and unread messages of its executions',
      async run(store) {
        const cancellation = 'abandon' as const;
        const workItems = [
          workItem(1, { cancellation }),
          workItem(2, { cancellation, claimMs: lockMs }),
        ];
        const begun = await store.begin('a', { workItems, outcome: continued });
        const { lockToken } = only(begun.claimed, 'claimed item');
        const current = [workItem(1), workItem(2, { claimMs: lockMs })];
        const claimed = await store.commit(await store.claimOne(), { workItems: current });
        const late = { kind: 'childCompleted', executionId: 1, operation: 3 };
        const message = { ...late, data: '{}', payload: null };
        await store.provider.enqueueMessages([{ instanceId: 'a', message }]);
        assert.deepEqual(await prune(store, 'a'), {
          ...result,
          executionsDeleted: 1,
          eventsDeleted: 1,
          queueMessagesDeleted: 3,
        });
        expectLockLost(await store.ackWork(lockToken));
        const queued = await store.claimWorkOne();
        assert.deepEqual([queued.executionId, queued.operation], [2, 1]);
        assert.deepEqual(await store.claim(), []);
        await store.ackWork(only(claimed, 'claimed item').lockToken);
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 2']);
      },
    },
    {
      id: 'prune/lets-a-canceled-end-come',
      title: 'a prune that deletes the last held work item ends a canceling instance as canceled',
      async run(store) {
        const workItems = [workItem(1, { claimMs: 10 * lockMs })];
        const begun = await store.begin('a', { workItems, outcome: continued });
        const { lockToken } = only(begun.claimed, 'claimed item');
        await store.commit(await store.claimOne());
        await store.cancel('a');
        const outcome = { status: 'canceled', reason: 'x', cleanupSkipped: false } as const;
        await store.commit(await store.claimOne(), { outcome });
        assert.equal((await store.record('a')).status, 'canceling');
        assert.equal((await prune(store, 'a')).queueMessagesDeleted, 1);
        assert.equal((await store.record('a')).status, 'canceled');
        expectLockLost(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
      },
    },
    {
      id: 'prune/leaves-the-time-to-clean-up',
      title: 'a prune keeps the clean-up limit of a canceling instance',
      async run(store) {
        await store.begin('a', { outcome: continued });
        await store.commit(await store.claimOne());
        await store.cancel('a', { cleanupMs: lockMs });
        await store.commit(await store.claimOne());
        const late = { kind: 'childCompleted', executionId: 1, operation: 3 };
        const message = { ...late, data: '{}', payload: null };
        await store.provider.enqueueMessages([{ instanceId: 'a', message }]);
        assert.equal((await prune(store, 'a')).queueMessagesDeleted, 1);
        const { orchestrations } = await store.provider.queueDepths();
        assert.deepEqual([orchestrations.ready, orchestrations.delayed], [0, 1]);
        await store.expectIdle();
        await store.clock.advance(lockMs);
        const item = await store.claimOne({ runnable: [] });
        assert.deepEqual(labels(item), ['cleanupExpired']);
      },
    },
    {
      id: 'prune/leaves-a-turn-under-way',
      title: 'a prune during a turn does not affect its ack or later messages',
      async run(store) {
        await runExecutions(store, 'a', { count: 3 });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        assert.equal((await prune(store, 'a')).executionsDeleted, 2);
        await store.commit(item, { events: [event('on')] });
        assert.deepEqual(await store.historyLabels('a', 3), ['execution 3', 'on']);
        // A message that arrives after the prune must not be mistaken for the pruned message of the claim.
        await runExecutions(store, 'b', { count: 2 });
        await createUnrelatedInstance(store);
        const late = { kind: 'childCompleted', executionId: 1, operation: 3 };
        const message = { ...late, data: '{}', payload: null };
        await store.provider.enqueueMessages([{ instanceId: 'b', message }]);
        const holding = await store.claimOne();
        assert.deepEqual(labels(holding), ['childCompleted 3']);
        await prune(store, 'b');
        await store.raise('b', 'kept');
        await store.commit(holding, { events: [event('read')] });
        assert.deepEqual(labels(await store.claimOne()), ['kept']);
      },
    },
    {
      id: 'prune/another-life-is-not-found',
      title: 'a prune of an unknown id or another incarnation returns found: false',
      async run(store) {
        assert.deepEqual(await prune(store, 'nobody'), notFound);
        const { incarnation } = await store.begin('a');
        await forceDelete(store, 'a');
        await runExecutions(store, 'a', { count: 3 });
        assert.deepEqual(
          await store.expectNoChange(() => prune(store, 'a', { incarnation })),
          notFound,
        );
        const now = (await store.record('a')).incarnation;
        assert.equal((await prune(store, 'a', { incarnation: now })).executionsDeleted, 2);
      },
    },
    {
      id: 'prune/a-dry-run-changes-nothing',
      title: 'a prune dry run returns the result of the prune and changes nothing',
      async run(store) {
        const cancellation = 'abandon' as const;
        const workItems = [workItem(1, { cancellation })];
        await runExecutions(store, 'a', { count: 5, parts: { workItems } });
        const conditions = { keepLast: 2, max: 2 };
        const depths = await store.provider.queueDepths();
        const dry = await store.expectNoChange(() =>
          prune(store, 'a', { ...conditions, dryRun: true }),
        );
        assert.deepEqual(await store.provider.queueDepths(), depths);
        assert.deepEqual(await prune(store, 'a', conditions), dry);
        const mixed = [
          { instanceId: 'a', max: 9, dryRun: true },
          { instanceId: 'nobody', max: 9 },
        ];
        const [again] = await store.provider.pruneExecutionsAtomic(mixed);
        assert.equal(again?.executionsDeleted, 2);
        assert.deepEqual(await left(store), [3, 4, 5]);
      },
    },
    {
      id: 'prune/each-of-a-batch-by-its-own-conditions',
      title: 'a batch prunes each instance by its own conditions and adds up its audit',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        const audit = auditEntry({ action: 'pruneBulk' });
        await runExecutions(store, 'a', { count: 3 });
        await runExecutions(store, 'b', { count: 3 });
        assert.deepEqual(await store.provider.pruneExecutionsAtomic([]), []);
        const results = await store.provider.pruneExecutionsAtomic([
          { instanceId: 'a', keepLast: 2, max: 9, audit },
          { instanceId: 'nobody', max: 9, audit },
          { instanceId: 'b', max: 9, audit },
        ]);
        assert.deepEqual(
          results.map(({ found, executionsDeleted }) => [found, executionsDeleted]),
          [
            [true, 1],
            [false, 0],
            [true, 2],
          ],
        );
        assert.deepEqual([await left(store, 'a'), await left(store, 'b')], [[2, 3], [3]]);
        const record = only(await store.provider.listAudit({ limit: 9 }), 'record');
        const { instancesDeleted, executionsDeleted, eventsDeleted } = record;
        assert.deepEqual([instancesDeleted, executionsDeleted, eventsDeleted], [0, 3, 3]);
        await expectUnchanged();
      },
    },
  ],
};
