import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { type StoreUnderTest, labels, lockMs } from '../../store-under-test.ts';
import { event, newTurn, raised, workItem } from '../../sample-data.ts';
import {
  expectCommitted,
  expectInAnyOrder,
  expectLockLost,
  expectRefused,
} from '../../expectations.ts';

async function claimThree(store: StoreUnderTest) {
  for (const id of ['a', 'b', 'c']) await store.begin(id);
  for (const id of ['a', 'b', 'c']) await store.raise(id, `for ${id}`);
  const items = await store.claim();
  const byId = (id: string) => {
    const item = items.find(({ instanceId }) => instanceId === id);
    assert.ok(item);
    return item;
  };
  return { a: byId('a'), b: byId('b'), c: byId('c') };
}

function toAck(item: Awaited<ReturnType<typeof claimThree>>['a'], firstEventId = 2) {
  return {
    lockToken: item.lockToken,
    messageKeys: item.messages.map(({ messageKey }) => messageKey),
    turn: newTurn({ firstEventId, events: [event(`of ${item.instanceId}`)] }),
  };
}

export const batches: Capability = {
  title: 'batches with one bad item',
  cases: [
    {
      id: 'batch/empty-batches-answer-empty',
      title: 'batch methods return an empty list for an empty batch',
      async run({ provider }) {
        assert.deepEqual(await provider.createInstances([]), []);
        assert.deepEqual(await provider.enqueueMessages([]), []);
        assert.deepEqual(await provider.getInstances([]), []);
        assert.deepEqual(await provider.readHistory([]), []);
        assert.deepEqual(await provider.ackOrchestrationItems([]), []);
        assert.deepEqual(await provider.abandonOrchestrationItems([]), []);
        assert.deepEqual(await provider.renewOrchestrationLocks([], 1), []);
        assert.deepEqual(await provider.ackWorkItems([]), []);
        assert.deepEqual(await provider.ackTurns([]), []);
        assert.deepEqual(await provider.renewWorkItemLocks([], 1), []);
        assert.deepEqual(await provider.abandonWorkItems([]), []);
        assert.deepEqual(await provider.retryWorkItems([]), []);
      },
    },
    {
      id: 'batch/a-lost-ack-spares-its-neighbours',
      title: 'an ack with a lost token does not affect the other acks of its batch',
      async run(store) {
        const { a, b, c } = await claimThree(store);
        const results = await store.provider.ackOrchestrationItems([
          toAck(a),
          { ...toAck(b), lockToken: 'never given out' },
          toAck(c),
        ]);
        assert.deepEqual(
          results.map(({ ok }) => ok),
          [true, false, true],
        );
        expectLockLost(results[1] ?? assert.fail());
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of a']);
        assert.deepEqual(await store.historyLabels('b'), ['begun']);
        assert.deepEqual(await store.historyLabels('c'), ['begun', 'of c']);
        await store.expectIdle();
        await store.commit(b);
      },
    },
    {
      id: 'batch/a-bad-turn-spares-its-neighbours',
      title: 'an invalid turn does not affect the other acks of its batch',
      async run(store) {
        const { a, b, c } = await claimThree(store);
        const results = await store.provider.ackOrchestrationItems([
          toAck(a),
          toAck(b, 1),
          toAck(c),
        ]);
        assert.deepEqual(
          results.map(({ ok }) => ok),
          [true, false, true],
        );
        expectRefused(results[1] ?? assert.fail());
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of a']);
        assert.deepEqual(await store.historyLabels('b'), ['begun']);
        assert.deepEqual(await store.historyLabels('c'), ['begun', 'of c']);
        await store.expectIdle();
        await store.commit(b);
      },
    },
    {
      id: 'batch/calls-at-once-do-not-spoil-each-other',
      title: 'a rejected ack does not affect concurrent calls',
      async run(store) {
        const { a, b } = await claimThree(store);
        const { provider } = store;
        const [bad, good, enqueued] = await Promise.all([
          provider.ackOrchestrationItems([toAck(b, 1)]),
          provider.ackOrchestrationItems([toAck(a)]),
          provider.enqueueMessages([{ instanceId: 'c', message: raised('more') }]),
        ]);
        expectRefused(bad[0] ?? assert.fail());
        expectCommitted(good[0] ?? assert.fail());
        assert.deepEqual(enqueued, ['enqueued']);
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of a']);
        assert.deepEqual(await store.historyLabels('b'), ['begun']);
        await store.clock.advance(lockMs);
        const left = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(left, [
          ['b', 'for b'],
          ['c', 'for c', 'more'],
        ]);
      },
    },
    {
      id: 'batch/a-message-between-acks-of-one-batch-arrives',
      title: 'messages between instances acked in one batch are delivered',
      async run(store) {
        const { a, b, c } = await claimThree(store);
        const toB = (text: string) => [{ instanceId: 'b', message: raised(text) }];
        const ack = toAck(a);
        const results = await store.provider.ackOrchestrationItems([
          { ...ack, turn: { ...ack.turn, messages: toB('before its ack') } },
          toAck(b),
          { ...toAck(c), turn: newTurn({ firstEventId: 2, messages: toB('after its ack') }) },
        ]);
        for (const result of results) expectCommitted(result);
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'b');
        assert.deepEqual(labels(item), ['before its ack', 'after its ack']);
      },
    },
    {
      id: 'batch/lost-work-spares-its-neighbours',
      title: 'a lost token in ackWorkItems() does not affect the others of its batch',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2), workItem(3)] });
        const items = (await store.claimWork()).toSorted((x, y) => x.operation - y.operation);
        const acks = items.map(({ lockToken, operation }) => ({
          lockToken: operation === 2 ? 'never given out' : lockToken,
          outcome: { kind: 'completed', payload: null } as const,
        }));
        const results = await store.provider.ackWorkItems(acks);
        assert.deepEqual(
          results.map(({ ok }) => ok),
          [true, false, true],
        );
        assert.deepEqual(labels(await store.claimOne()), [
          'activityCompleted 1',
          'activityCompleted 3',
        ]);
        await store.clock.advance(lockMs);
        assert.equal((await store.claimWorkOne()).operation, 2);
      },
    },
    {
      id: 'batch/messages-are-answered-each',
      title: 'enqueueMessages() returns missing, enqueued, over or full per message',
      async run(store) {
        await store.begin('over', { outcome: { status: 'completed', payload: null } });
        await store.begin('a');
        const results = await store.provider.enqueueMessages([
          { instanceId: 'nobody', message: raised('x') },
          { instanceId: 'a', message: raised('kept'), maxPending: 1 },
          { instanceId: 'over', message: raised('x') },
          { instanceId: 'a', message: raised('x'), maxPending: 1 },
          { instanceId: 'a', message: raised('kept too') },
        ]);
        assert.deepEqual(results, ['missing', 'enqueued', 'over', 'full', 'enqueued']);
        assert.deepEqual(labels(await store.claimOne()), ['kept', 'kept too']);
      },
    },
    {
      id: 'batch/abandons-are-answered-each',
      title: 'abandonOrchestrationItems() returns a result per claim and releases the held ones',
      async run(store) {
        const { a, b, c } = await claimThree(store);
        await store.commit(b);
        const abandons = [a.lockToken, 'never given out', b.lockToken, c.lockToken].map(
          (lockToken) => ({ lockToken, delayMs: 0, giveBackClaim: false }),
        );
        assert.deepEqual(await store.provider.abandonOrchestrationItems(abandons), [
          true,
          false,
          false,
          true,
        ]);
        const ids = (await store.claim()).map(({ instanceId }) => instanceId);
        expectInAnyOrder(ids, ['a', 'c']);
      },
    },
  ],
};
