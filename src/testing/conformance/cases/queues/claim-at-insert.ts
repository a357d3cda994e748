import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, workItem } from '../../sample-data.ts';
import {
  expectCommitted,
  expectInAnyOrder,
  expectLockLost,
  expectRefused,
  only,
} from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';

export const claimAtInsert: Capability = {
  title: 'claims at insert',
  cases: [
    {
      id: 'claim-at-insert/reports-what-it-claimed',
      title: 'an ack returns a token for each work item claimed at insert, and no other',
      async run(store) {
        const workItems = [1, 2, 3, 4].map((operation) =>
          workItem(operation, operation % 2 === 0 ? { claimMs: lockMs } : {}),
        );
        const { claimed } = await store.begin('a', { workItems });
        expectInAnyOrder(
          claimed.map(({ operation }) => operation),
          [2, 4],
        );
        const queued = (await store.claimWork()).map(({ operation }) => operation);
        expectInAnyOrder(queued, [1, 3]);
        for (const { lockToken } of claimed) expectCommitted(await store.ackWork(lockToken));
        const item = await store.claimOne();
        expectInAnyOrder(labels(item), ['activityCompleted 2', 'activityCompleted 4']);
      },
    },
    {
      id: 'claim-at-insert/holds-for-its-lease',
      title: 'a work item claimed at insert is not claimable until its lease expires',
      async run(store) {
        const { claimed } = await store.begin('a', { workItems: [workItem(1, { claimMs: 100 })] });
        const { lockToken } = only(claimed, 'claimed item');
        await store.clock.advance(99);
        await store.expectIdle();
        await store.clock.advance(1);
        const { claims, failures, operation } = await store.claimWorkOne();
        assert.deepEqual({ claims, failures, operation }, { claims: 2, failures: 0, operation: 1 });
        expectLockLost(await store.ackWork(lockToken));
      },
    },
    {
      id: 'claim-at-insert/is-a-claim-like-any-other',
      title: 'a token from an insert can be renewed, retried and abandoned',
      async run(store) {
        const workItems = [1, 2].map((operation) => workItem(operation, { claimMs: 100 }));
        const { claimed } = await store.begin('a', { workItems });
        const [one, two] = claimed.toSorted((x, y) => x.operation - y.operation);
        assert.ok(one && two);
        const { provider } = store;
        const renewed = await provider.renewWorkItemLocks(claimed, 1_000);
        assert.deepEqual(renewed, [
          { held: true, cancel: null },
          { held: true, cancel: null },
        ]);
        await store.clock.advance(500);
        const retry = { lockToken: one.lockToken, delayMs: 0, failure: '{}' };
        const abandon = { lockToken: two.lockToken, delayMs: 0, giveBackClaim: true };
        assert.deepEqual(await provider.retryWorkItems([retry]), [true]);
        assert.deepEqual(await provider.abandonWorkItems([abandon]), [true]);
        const items = (await store.claimWork()).map(({ operation, claims, failures }) => [
          operation,
          claims,
          failures,
        ]);
        expectInAnyOrder(items, [
          [1, 1, 1],
          [2, 1, 0],
        ]);
      },
    },
    {
      id: 'claim-at-insert/a-refused-ack-claims-nothing',
      title: 'a rejected ack claims no work item',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        const workItems = [workItem(1, { claimMs: lockMs })];
        expectRefused(
          await store.ack(item, { firstEventId: 1, events: [event('clashes')], workItems }),
        );
        const [claimed] = await store.commit(item, { workItems });
        assert.equal(claimed?.operation, 1);
        await store.expectIdle();
      },
    },
  ],
};
