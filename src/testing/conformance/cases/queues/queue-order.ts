import assert from 'node:assert/strict';
import type { WorkItem } from '../../../../providers/contract/work-queue.ts';
import type { Capability } from '../../conformance-case.ts';
import { event, workItem } from '../../sample-data.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';
import { createTask } from '../../task-helpers.ts';

export const queueOrder: Capability = {
  title: 'queue order and visibility',
  cases: [
    {
      id: 'order/the-instance-that-waits-longest-is-first',
      title: 'instances are claimed in the order their first message became visible',
      async run(store) {
        const { clock } = store;
        await store.begin('timer', { timers: [{ operation: 1, fireAt: clock.now() + 50 }] });
        await store.begin('event');
        for (const id of ['third', 'first', 'fourth']) await store.begin(id);
        await store.raise('first', 'x');
        await clock.advance(60);
        await store.raise('third', 'x');
        await clock.advance(1);
        await store.raise('event', 'x');
        await store.raise('first', 'y');
        await clock.advance(1);
        await store.raise('fourth', 'x');
        const ids = (await store.claim()).map(({ instanceId }) => instanceId);
        assert.deepEqual(ids, ['first', 'timer', 'third', 'event', 'fourth']);
      },
    },
    {
      id: 'order/max-leaves-the-rest-for-the-next',
      title: 'a fetch claims at most max instances; later fetches return the rest in order',
      async run(store) {
        for (const id of ['a', 'b', 'c', 'd', 'e']) {
          await store.create(id);
          await store.clock.advance(1);
        }
        const claims: (readonly string[])[] = [];
        for (const max of [2, 2, 2]) {
          claims.push((await store.claim({ max })).map(({ instanceId }) => instanceId));
        }
        assert.deepEqual(claims, [['a', 'b'], ['c', 'd'], ['e']]);
      },
    },
    {
      id: 'order/messages-come-in-the-order-of-their-arrival',
      title: 'messages of an instance are claimed in the order they were enqueued',
      async run(store) {
        await store.create('a');
        await store.raise('a', '1', '2', '3');
        await store.clock.advance(1);
        await store.raise('a', '4');
        await Promise.all([store.raise('a', '5', '6'), store.raise('a', '7')]);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['start', '1', '2', '3', '4', '5', '6', '7']);
        const keys = item.messages.map(({ messageKey }) => messageKey);
        assert.equal(new Set(keys).size, keys.length);
      },
    },
    {
      id: 'order/the-start-comes-though-the-clock-was-set-back',
      title: 'a first claim contains the start message even if the clock was set back',
      async run(store) {
        for (const maxMessages of [1, 2, 1_000]) {
          const id = String(maxMessages);
          await store.create(id);
          // More than a store may compensate as a step of the system clock.
          await store.clock.setBack('2d');
          await store.raise(id, '1', '2');
          const first = await store.claimOne({ maxMessages });
          assert.deepEqual(labels(first), ['start', '1', '2'].slice(0, maxMessages));
          await store.commit(first, { events: [event('begun')] });
          await store.clock.advance('2d');
          const rest = (await store.claim()).flatMap(labels);
          assert.deepEqual(rest, ['1', '2'].slice(maxMessages - 1));
        }
      },
    },
    {
      id: 'order/a-due-timer-takes-its-place-among-messages',
      title: 'due timers are ordered among messages by their fire time',
      async run(store) {
        const now = store.clock.now();
        const timers = [
          { operation: 1, fireAt: now + 30 },
          { operation: 2, fireAt: now + 10 },
        ];
        await store.begin('a', { timers });
        await store.clock.advance(5);
        await store.raise('a', 'early');
        await store.clock.advance(15);
        await store.raise('a', 'between');
        await store.clock.advance(15);
        await store.raise('a', 'late');
        assert.deepEqual(labels(await store.claimOne()), [
          'early',
          'timerFired 2',
          'between',
          'timerFired 1',
          'late',
        ]);
      },
    },
    {
      id: 'order/an-instance-comes-once-with-all-its-messages',
      title: 'an instance with several messages is one item of a claim',
      async run(store) {
        await store.create('a');
        await store.create('b');
        await store.raise('a', 'x');
        await store.raise('b', 'y');
        const items = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(items, [
          ['a', 'start', 'x'],
          ['b', 'start', 'y'],
        ]);
      },
    },
    {
      id: 'order/max-messages-bounds-a-claim',
      title: 'a claim contains at most maxMessages; the rest follow after its ack',
      async run(store) {
        await store.create('a');
        await store.raise('a', '1', '2', '3');
        const first = await store.claimOne({ maxMessages: 2 });
        assert.deepEqual(labels(first), ['start', '1']);
        await store.expectIdle();
        await store.commit(first);
        const second = await store.claimOne({ maxMessages: 2 });
        assert.deepEqual(labels(second), ['2', '3']);
        await store.commit(second);
        await store.expectIdle();
      },
    },
    {
      id: 'order/a-thousand-messages-come-unless-told-otherwise',
      title: 'a claim without maxMessages contains the first 1,000 messages',
      async run(store) {
        await store.begin('a');
        await store.raise('a', ...Array.from({ length: 1_001 }, (_, index) => String(index)));
        const first = await store.claimOne();
        assert.equal(first.messages.length, 1_000);
        assert.deepEqual([labels(first)[0], labels(first)[999]], ['0', '999']);
        await store.commit(first);
        assert.deepEqual(labels(await store.claimOne()), ['1000']);
      },
    },
    {
      id: 'order/an-instance-without-messages-is-not-claimed',
      title: 'an instance without messages is never claimed',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1, { claimMs: lockMs * 10 })] });
        await store.expectIdle();
        await store.clock.advance(lockMs * 2);
        await store.expectIdle();
      },
    },
    {
      id: 'order/an-instance-that-is-over-is-not-claimed',
      title: 'an ended instance is never claimed',
      async run(store) {
        await store.begin('done', { outcome: { status: 'completed', payload: null } });
        await store.begin('broken', { outcome: { status: 'failed', failure: '{}' } });
        await store.clock.advance(lockMs * 2);
        await store.expectIdle();
      },
    },
    {
      id: 'order/a-max-of-zero-claims-nothing',
      title: 'a fetch with max 0 claims nothing',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'x');
        assert.deepEqual(await store.claim({ max: 0 }), []);
        assert.deepEqual(await store.claimWork({ max: 0 }), []);
        assert.equal((await store.claimOne()).claims, 1);
        assert.equal((await store.claimWorkOne()).claims, 1);
      },
    },
    {
      id: 'order/the-work-that-waits-longest-is-first',
      title: 'work items are claimed in the order they became visible, at most max',
      async run(store) {
        const { clock, provider } = store;
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        await clock.advance(1);
        await store.begin('b', { workItems: [workItem(3)] });
        const two = await store.claimWork({ max: 2 });
        expectInAnyOrder(
          two.map(({ operation }) => operation),
          [1, 2],
        );
        await clock.advance(1);
        await store.begin('c', { workItems: [workItem(4)] });
        const abandons = two.map(({ lockToken, operation }) => ({
          lockToken,
          delayMs: operation === 1 ? 5 : 20,
          giveBackClaim: true,
        }));
        assert.deepEqual(await provider.abandonWorkItems(abandons), [true, true]);
        await clock.advance(10);
        await store.begin('d', { workItems: [workItem(5)] });
        await clock.advance(10);
        const operations = (await store.claimWork()).map(({ operation }) => operation);
        assert.deepEqual(operations, [3, 4, 1, 5, 2]);
      },
    },
    {
      id: 'order/work-of-a-lost-worker-waits-from-the-end-of-its-lock',
      title: 'a work item with an expired lock is ordered by its expiry time',
      async run(store) {
        const { clock } = store;
        await store.begin('a', { workItems: [workItem(1)] });
        assert.equal((await store.claimWorkOne({ lockMs: 10 })).operation, 1);
        await clock.advance(5);
        await store.begin('b', { workItems: [workItem(2)] });
        await clock.advance(10);
        await store.begin('c', { workItems: [workItem(3)] });
        await clock.advance(1);
        const [first] = await store.claimWork({ max: 1 });
        assert.equal(first?.operation, 2);
        const rest = (await store.claimWork()).map(({ operation }) => operation);
        assert.deepEqual(rest, [1, 3]);
      },
    },
    {
      id: 'order/a-work-item-comes-as-it-was-scheduled',
      title: 'a claimed work item has its scheduled fields and its instance',
      async run(store) {
        const item = workItem(7, { name: 'charge', payload: '{"amount":1}', options: '{"x":[1]}' });
        const begun = await store.begin('a', { workItems: [item] }, { name: 'order' });
        const { lockToken, ...claimed } = await store.claimWorkOne();
        assert.ok(lockToken.length > 0);
        assert.deepEqual(claimed, {
          kind: 'activity',
          instanceKey: begun.instanceKey,
          instanceId: 'a',
          incarnation: begun.incarnation,
          executionId: 1,
          operation: 7,
          name: 'charge',
          orchestration: 'order',
          payload: '{"amount":1}',
          options: '{"x":[1]}',
          claims: 1,
          failures: 0,
          heartbeat: null,
          cancel: null,
          nowMs: store.clock.now(),
          dueAt: store.clock.now(),
        });
      },
    },
    {
      id: 'order/a-claim-returns-since-when-work-was-due',
      title: 'a claim returns since when the item could be claimed, and its own time',
      async run(store) {
        const { clock, provider } = store;
        await store.begin('a', { workItems: [workItem(1)] });
        await createTask(store, 'run', { delayMs: 2_000 });
        const scheduledAt = clock.now();
        const times = (items: readonly WorkItem[]) =>
          items
            .toSorted((a, b) => a.instanceId.localeCompare(b.instanceId))
            .map(({ instanceId, dueAt, nowMs }) => [instanceId, dueAt, nowMs]);
        await clock.advance(5_000);
        const claimedAt = clock.now();
        const items = await store.claimWork();
        assert.deepEqual(times(items), [
          ['a', scheduledAt, claimedAt],
          ['run', scheduledAt + 2_000, claimedAt],
        ]);
        // The delay of a retry is no wait.
        const failure = '{"name":"Error","message":"no"}';
        const [first] = items.filter(({ instanceId }) => instanceId === 'run');
        assert.ok(first);
        await provider.retryWorkItems([{ lockToken: first.lockToken, delayMs: 3_000, failure }]);
        await clock.advance(3_000);
        assert.deepEqual(times(await store.claimWork()), [
          ['run', claimedAt + 3_000, claimedAt + 3_000],
        ]);
        // After an expired lease, it waits from the end of that lease.
        await clock.advance(lockMs + 1_000);
        assert.deepEqual(
          (await store.claimWork())
            .filter(({ instanceId }) => instanceId === 'a')
            .map(({ dueAt }) => dueAt),
          [claimedAt + lockMs],
        );
        // So does an item that was canceled while a worker held it.
        const heldUntil = clock.now() + lockMs;
        await provider.requestCancel([
          { instanceId: 'a', reason: 'no', actor: null, cleanupMs: 60_000 },
        ]);
        await clock.advance(lockMs + 1_000);
        assert.deepEqual(
          (await store.claimWork())
            .filter(({ cancel }) => cancel !== null)
            .map(({ dueAt }) => dueAt),
          [heldUntil],
        );
      },
    },
  ],
};
