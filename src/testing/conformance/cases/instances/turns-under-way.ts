import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost, only } from '../../expectations.ts';
import { child, cleanupMs, detached, event, startMessage, workItem } from '../../sample-data.ts';
import { contents, labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import type { OrchestrationItem } from '../../../../providers/contract/orchestration-queue.ts';
import type { TurnOutcome } from '../../../../providers/contract/turn.ts';

/** Claims an instance for a turn, and cancels it during the claim. */
async function cancelDuringTurn(store: StoreUnderTest): Promise<OrchestrationItem> {
  await store.begin('a');
  await store.raise('a', 'go');
  const item = await store.claimOne();
  await store.cancel('a', { reason: 'too late' });
  return item;
}

export const turnsUnderWay: Capability = {
  title: 'turns during a cancel',
  cases: [
    {
      id: 'under-way/its-work-never-starts',
      title:
        'work items scheduled by a turn during a cancel are never claimable and enqueue activityCanceled',
      async run(store) {
        const item = await cancelDuringTurn(store);
        const cancellation = 'wait' as const;
        const workItems = [
          workItem(1),
          workItem(2, { claimMs: lockMs }),
          workItem(3, { cancellation }),
        ];
        const events = [event('scheduled')];
        assert.deepEqual(await store.commit(item, { events, workItems }), []);
        assert.deepEqual(await store.claimWork(), []);
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'scheduled']);
        const received = { executionId: 1, reason: 'too late', trigger: 'cancel' };
        assert.deepEqual(contents(await store.claimOne()), [
          { kind: 'cancel', reason: 'too late', actor: null },
          ...[1, 2, 3].map((operation) => ({ kind: 'activityCanceled', operation, ...received })),
        ]);
      },
    },
    {
      id: 'under-way/shielded-and-abandoned-work-starts',
      title: 'shielded and abandon work items scheduled during a cancel start normally',
      async run(store) {
        const item = await cancelDuringTurn(store);
        const workItems = [
          workItem(1, { shielded: true, claimMs: lockMs }),
          workItem(2, { shielded: true }),
          workItem(3, { cancellation: 'abandon' }),
        ];
        const { operation, lockToken } = only(await store.commit(item, { workItems }), 'claim');
        assert.equal(operation, 1);
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        const started = await store.claimWorkInOrder();
        assert.deepEqual(
          started.map(({ operation, cancel }) => [operation, cancel]),
          [
            [2, null],
            [3, null],
          ],
        );
      },
    },
    {
      id: 'under-way/its-children-never-start',
      title: 'children started by a turn during a cancel end as canceled and enqueue childCanceled',
      async run(store) {
        const item = await cancelDuringTurn(store);
        const children = [child('one', 1), child('two', 2, { cancellation: 'wait' })];
        await store.commit(item, { children });
        for (const id of ['one', 'two']) {
          const { status, startedAt, cancel } = await store.record(id);
          assert.deepEqual([status, startedAt, cancel?.reason], ['canceled', null, 'too late']);
        }
        assert.deepEqual(contents(await store.claimOne()), [
          { kind: 'cancel', reason: 'too late', actor: null },
          { kind: 'childCanceled', executionId: 1, operation: 1, reason: 'too late' },
          { kind: 'childCanceled', executionId: 1, operation: 2, reason: 'too late' },
        ]);
      },
    },
    {
      id: 'under-way/shielded-and-abandoned-children-start',
      title: 'shielded, abandon and detached instances started during a cancel start normally',
      async run(store) {
        const item = await cancelDuringTurn(store);
        await store.commit(item, {
          children: [
            child('shielded', 1, { shielded: true }),
            child('abandoned', 2, { cancellation: 'abandon' }),
            detached('free', { cancellation: 'request' }),
          ],
        });
        const claimed = (await store.claim()).map((one) => [one.instanceId, ...labels(one)]);
        expectInAnyOrder(claimed, [
          ['a', 'cancel'],
          ['abandoned', 'start'],
          ['free', 'start'],
          ['shielded', 'start'],
        ]);
      },
    },
    {
      id: 'under-way/does-not-lower-the-status',
      title: 'a turn during a cancel is committed, and the instance stays canceling',
      async run(store) {
        const item = await cancelDuringTurn(store);
        const timers = [{ operation: 1, fireAt: store.clock.now() }];
        assert.deepEqual(await store.claim(), [], 'the request must not break the claim');
        await store.commit(item, { events: [event('done')], timers, customStatus: '"half"' });
        const { status, customStatus } = await store.record('a');
        assert.deepEqual({ status, customStatus }, { status: 'canceling', customStatus: '"half"' });
        assert.deepEqual(labels(await store.claimOne()), ['cancel', 'timerFired 1']);
      },
    },
    {
      id: 'under-way/its-end-stands',
      title: 'a turn that ends its instance during a cancel keeps its outcome and the request',
      async run(store) {
        const outcomes: readonly TurnOutcome[] = [
          { status: 'completed', payload: '1' },
          { status: 'failed', failure: '{"name":"Error","message":"no"}' },
        ];
        for (const outcome of outcomes) {
          const instanceId: string = outcome.status;
          await store.create(instanceId);
          await store.commit(await store.claimOne());
          await store.raise(instanceId, 'go');
          const item = await store.claimOne();
          await store.cancel(instanceId, { reason: 'too late' });
          await store.commit(item, { outcome });
          const { status, cancel } = await store.record(instanceId);
          assert.deepEqual([status, cancel?.reason], [outcome.status, 'too late']);
        }
        await store.clock.advance(cleanupMs);
        await store.expectIdle();
      },
    },
    {
      id: 'under-way/the-next-execution-is-canceling-too',
      title: 'continue-as-new during a cancel passes the request on to the next execution',
      async run(store) {
        const item = await cancelDuringTurn(store);
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        await store.commit(item, { workItems: [workItem(1)], outcome });
        const { status, executionId } = await store.record('a');
        assert.deepEqual([status, executionId], ['canceling', 2]);
        const next = await store.claimOne();
        assert.deepEqual(labels(next), ['start', 'cancel']);
        await store.commit(next, { workItems: [workItem(1)] });
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
        await store.clock.advance(cleanupMs);
        assert.deepEqual(await store.claimWork(), []);
        assert.equal(labels(await store.claimOne({ runnable: [] })).at(-1), 'cleanupExpired');
      },
    },
    {
      id: 'turn-ack/needs-an-instance-without-a-stop',
      title: 'ackTurns() for a canceling instance is rejected, and its work items stay held',
      async run(store) {
        const workItems = [workItem(1, { shielded: true, claimMs: lockMs })];
        const begun = await store.begin('a', { workItems });
        await store.cancel('a');
        await store.commit(await store.claimOne(), { turnId: begun.turnId });
        const { lockToken } = only(begun.claimed, 'claimed item');
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [lockToken])));
        expectCommitted(await store.ackWork(lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
  ],
};
