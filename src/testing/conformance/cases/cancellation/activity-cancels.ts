import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { activityCancel, event, newTurn, startMessage, workItem } from '../../sample-data.ts';
import {
  expectCommitted,
  expectInAnyOrder,
  expectLockLost,
  expectRefused,
  only,
} from '../../expectations.ts';
import { contents, labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';

const completed = { status: 'completed', payload: null } as const;

/** Commits a turn that cancels operations. */
async function cancel(
  store: StoreUnderTest,
  instanceId: string,
  ...operations: readonly number[]
): Promise<void> {
  await store.raise(instanceId, 'cancel');
  const activityCancels = operations.map((operation) => activityCancel(operation));
  await store.commit(await store.claimOne(), { activityCancels });
}

export const activityCancels: Capability = {
  title: 'activity cancels in a turn',
  cases: [
    {
      id: 'cancel/unclaimed-work-is-removed',
      title: 'a turn that cancels an unclaimed work item deletes it and enqueues activityCanceled',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        await store.begin('b', { workItems: [workItem(1)] });
        await cancel(store, 'a', 1);
        const left = (await store.claimWork()).map(({ instanceId, operation }) => [
          instanceId,
          operation,
        ]);
        expectInAnyOrder(left, [
          ['a', 2],
          ['b', 1],
        ]);
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'a');
        assert.deepEqual(contents(item), [
          {
            kind: 'activityCanceled',
            executionId: 1,
            operation: 1,
            reason: 'no 1',
            trigger: 'cancel',
          },
        ]);
        await expectUnchanged();
      },
    },
    {
      id: 'cancel/claimed-work-is-flagged',
      title: 'a canceled work item keeps its claim and reports the cancel at renewal',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const items = (await store.claimWork()).toSorted((x, y) => x.operation - y.operation);
        await store.clock.advance(50);
        const requestedAt = store.clock.now();
        await cancel(store, 'a', 1);
        await store.clock.advance(50);
        const [one, two] = await store.provider.renewWorkItemLocks(items, lockMs);
        assert.ok(one?.held && one.cancel);
        assert.deepEqual([one.cancel.reason, one.cancel.requestedAt], ['no 1', requestedAt]);
        assert.deepEqual(two, { held: true, cancel: null });
        await store.expectIdle();
      },
    },
    {
      id: 'cancel/scheduled-in-the-same-turn-never-starts',
      title: 'a work item scheduled and canceled in one turn is never claimed',
      async run(store) {
        const activityCancels = [activityCancel(1)];
        await store.begin('a', { workItems: [workItem(1), workItem(2)], activityCancels });
        assert.equal((await store.claimWorkOne()).operation, 2);
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
      },
    },
    {
      id: 'cancel/between-attempts-is-removed',
      title: 'a canceled work item that waits for its next attempt is deleted',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.provider.retryWorkItems([{ lockToken, delayMs: 500, failure: '{}' }]);
        await cancel(store, 'a', 1);
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
        await store.clock.advance(500);
        assert.deepEqual(await store.claimWork(), []);
      },
    },
    {
      id: 'cancel/an-expired-claim-is-none',
      title: 'a canceled work item whose lease has expired is deleted like an unclaimed one',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const items = await store.claimWork();
        await store.clock.advance(lockMs);
        await cancel(store, 'a', 1);
        assert.equal((await store.claimWorkOne()).operation, 2);
        const { lockToken = '' } = items.find(({ operation }) => operation === 1) ?? {};
        expectLockLost(await store.ackWork(lockToken));
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
      },
    },
    {
      id: 'cancel/a-queued-completion-stays',
      title: 'a completion that is already queued survives a later cancel',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        expectCommitted(await store.ackWork((await store.claimWorkOne()).lockToken));
        await store.commit(item, { activityCancels: [activityCancel(1)] });
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'cancel/a-flagged-item-can-still-complete',
      title: 'a flagged work item that completes still delivers its result',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await cancel(store, 'a', 1);
        const outcome = { kind: 'completed', payload: '"made it"' } as const;
        expectCommitted(await store.ackWork(lockToken, outcome));
        const message = only((await store.claimOne()).messages, 'message');
        assert.deepEqual([message.kind, message.payload], ['activityCompleted', '"made it"']);
      },
    },
    {
      id: 'cancel/the-first-request-is-kept',
      title: 'a second cancel of a work item keeps the reason and time of the first',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        const requestedAt = store.clock.now();
        await cancel(store, 'a', 1);
        await store.clock.advance(50);
        await store.raise('a', 'again');
        const activityCancels = [activityCancel(1, 'another')];
        await store.commit(await store.claimOne(), { activityCancels });
        const [renewed] = await store.provider.renewWorkItemLocks([{ lockToken }], lockMs);
        assert.ok(renewed?.held && renewed.cancel);
        const { reason, requestedAt: at } = renewed.cancel;
        assert.deepEqual([reason, at], ['no 1', requestedAt]);
      },
    },
    {
      id: 'cancel/of-nothing-is-no-error',
      title: 'a turn that cancels an operation without a work item is committed',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await cancel(store, 'a', 77);
        assert.equal((await store.claimWorkOne()).operation, 1);
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'cancel/a-flagged-item-goes-to-any-worker',
      title: 'a flagged work item with an expired lease is claimable by any worker',
      async run(store) {
        await store.begin('a', {
          workItems: [workItem(1, { name: 'rare' }), workItem(2, { name: 'rare' })],
        });
        await store.claimWork();
        const requestedAt = store.clock.now();
        await cancel(store, 'a', 1);
        await store.clock.advance(lockMs);
        const {
          operation,
          cancel: request,
          lockToken,
        } = await store.claimWorkOne({ names: ['other'] });
        assert.equal(operation, 1);
        assert.ok(request);
        assert.deepEqual([request.reason, request.requestedAt], ['no 1', requestedAt]);
        expectCommitted(await store.ackWork(lockToken, { kind: 'canceled', leaked: false }));
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 1']);
      },
    },
    {
      id: 'cancel/tells-its-trigger',
      title: 'each canceled work item reports its own trigger and reason',
      async run(store) {
        await store.begin('a', { workItems: [1, 2, 3, 4].map((operation) => workItem(operation)) });
        const [running] = await store.claimWork({ max: 1 });
        const activityCancels = [
          { operation: 1, trigger: 'race_lost', reason: 'a timer won' },
          { operation: 2, trigger: 'timeout', reason: 'too "slow" \\ \n😀' },
          { operation: 3, trigger: 'cancel', reason: '' },
        ] as const;
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { activityCancels });
        const renewed = await store.renewWork(running?.lockToken ?? '');
        assert.ok(renewed.held);
        const { trigger, reason } = renewed.cancel ?? assert.fail('a request expected');
        assert.deepEqual({ operation: 1, trigger, reason }, activityCancels[0]);
        assert.deepEqual(
          contents(await store.claimOne()),
          activityCancels
            .slice(1)
            .map((one) => ({ kind: 'activityCanceled', executionId: 1, ...one })),
        );
      },
    },
    {
      id: 'cancel/twice-in-a-turn-is-once',
      title: 'a turn that cancels an operation twice cancels it once, with the first reason',
      async run(store) {
        const activityCancels = [activityCancel(1, 'first'), activityCancel(1, 'second')];
        await store.begin('a', { workItems: [workItem(1)], activityCancels });
        const received = contents(await store.claimOne()).map(({ kind, reason }) => [kind, reason]);
        assert.deepEqual(received, [['activityCanceled', 'first']]);
      },
    },
    {
      id: 'cancel/is-undone-with-its-turn',
      title: 'a rejected turn cancels neither queued nor running work items',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const { lockToken, operation } = await store.claimWorkOne({ max: 1 });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        const activityCancels = [activityCancel(1), activityCancel(2)];
        const parts = { firstEventId: 1, events: [event('clashes')], activityCancels };
        expectRefused(await store.ack(item, parts));
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        assert.equal((await store.claimWorkOne()).operation, 3 - operation);
      },
    },
    {
      id: 'cancel/spares-abandoned-work',
      title: 'a turn does not cancel work items with cancellation abandon',
      async run(store) {
        const cancellation = 'abandon' as const;
        const workItems = [
          workItem(1, { cancellation, claimMs: lockMs }),
          workItem(2, { cancellation }),
        ];
        const { claimed } = await store.begin('a', { workItems });
        await cancel(store, 'a', 1, 2);
        const { lockToken } = only(claimed, 'claimed item');
        assert.deepEqual(await store.renewWork(lockToken), { held: true, cancel: null });
        assert.equal((await store.claimWorkOne()).operation, 2);
      },
    },
    {
      id: 'cancel/reaches-shielded-work',
      title: 'a turn cancels shielded work items that it names',
      async run(store) {
        const shielded = true;
        const workItems = [workItem(1, { shielded, claimMs: lockMs }), workItem(2, { shielded })];
        const { claimed } = await store.begin('a', { workItems });
        await cancel(store, 'a', 1, 2);
        const renewed = await store.renewWork(only(claimed, 'claimed item').lockToken);
        assert.ok(renewed.held && renewed.cancel);
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 2']);
        assert.deepEqual(await store.claimWork(), []);
      },
    },
    {
      id: 'cancel/belongs-to-its-execution',
      title: 'a cancel does not affect the same operation number in another execution',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        await store.raise('a', 'x');
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        await store.commit(await store.claimOne(), { outcome });
        await store.commit(await store.claimOne(), { workItems: [workItem(1)] });
        await store.clock.advance(lockMs);
        await cancel(store, 'a', 1);
        const { executionId, cancel: request } = await store.claimWorkOne();
        assert.equal(executionId, 1);
        assert.ok(request, 'the old item was asked to stop by the end of its execution');
        const received = contents(await store.claimOne());
        assert.deepEqual(
          received.map(({ kind, executionId }) => [kind, executionId]),
          [['activityCanceled', 2]],
        );
      },
    },
    {
      id: 'cancel/a-removed-item-keeps-its-first-reason',
      title: 'a flagged work item deleted after its lease expired reports its first reason',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.claimWorkOne();
        for (const one of [
          { operation: 1, trigger: 'race_lost', reason: 'first' },
          { operation: 1, trigger: 'timeout', reason: 'second' },
        ] as const) {
          await store.raise('a', 'x');
          await store.commit(await store.claimOne(), { activityCancels: [one] });
          await store.clock.advance(lockMs);
        }
        const received = contents(await store.claimOne()).map(({ trigger, reason }) => [
          trigger,
          reason,
        ]);
        assert.deepEqual(received, [['race_lost', 'first']]);
      },
    },
    {
      id: 'cancel/by-a-turn-that-settles-others',
      title: 'first turns and turn acks cancel work items and enqueue activityCanceled',
      async run(store) {
        const workItems = [workItem(1, { claimMs: lockMs }), workItem(2), workItem(3)];
        const firstTurn = newTurn({ events: [event('begun')], workItems });
        const activityCancels = [activityCancel(3)];
        await store.create('born', { firstTurn: { ...firstTurn, activityCancels } });
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 3']);
        await store.clock.advance(lockMs);
        for (const item of await store.claim()) await store.commit(item, { outcome: completed });
        const begun = await store.begin('fast', { workItems });
        const { lockToken } = only(begun.claimed, 'claimed item');
        expectCommitted(await store.ackTurn(begun, [lockToken], { activityCancels }));
        assert.deepEqual(labels(await store.claimOne()), ['activityCanceled 3']);
        assert.equal((await store.claimWorkOne()).operation, 2);
      },
    },
    {
      id: 'cancel/a-settled-item-cannot-be-cancelled',
      title: 'a cancel of a settled operation enqueues no message',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        expectCommitted(await store.ackWork((await store.claimWorkOne()).lockToken));
        const item = await store.claimOne();
        await store.commit(item, { activityCancels: [activityCancel(1)] });
        await store.expectIdle();
      },
    },
  ],
};
