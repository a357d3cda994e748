import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { workItem } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';

export const renewals: Capability = {
  title: 'work item renewal',
  cases: [
    {
      id: 'renew/extends-from-now',
      title: 'a renewed lease expires exactly the given time after the renewal',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne({ lockMs: 100 });
        await store.clock.advance(99);
        const renewed = await store.provider.renewWorkItemLocks([{ lockToken }], 100);
        assert.deepEqual(renewed, [{ held: true, cancel: null }]);
        await store.clock.advance(99);
        await store.expectIdle();
        await store.clock.advance(1);
        expectLockLost(await store.ackWork(lockToken));
        assert.equal((await store.claimWorkOne()).claims, 2);
      },
    },
    {
      id: 'renew/extends-a-flagged-item-too',
      title: 'renewing a flagged work item extends its lease and returns the cancel',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne({ lockMs: 100 });
        await store.raise('a', 'go');
        const requestedAt = store.clock.now();
        const activityCancels = [
          { operation: 1, reason: 'lost the race', trigger: 'race_lost' } as const,
        ];
        await store.commit(await store.claimOne(), { activityCancels });
        await store.clock.advance(60);
        const [renewed] = await store.provider.renewWorkItemLocks([{ lockToken }], 100);
        assert.ok(renewed?.held && renewed.cancel);
        const cancel = { reason: 'lost the race', trigger: 'race_lost', requestedAt };
        assert.deepEqual(renewed.cancel, cancel);
        await store.clock.advance(99);
        await store.expectIdle();
        expectCommitted(await store.ackWork(lockToken));
      },
    },
    {
      id: 'renew/an-expired-lease-is-lost',
      title: 'renewing an expired lease returns held: false and stores no heartbeat',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        await store.clock.advance(lockMs);
        const late = [{ lockToken, heartbeat: '"late"' }];
        assert.deepEqual(await store.provider.renewWorkItemLocks(late, lockMs), [{ held: false }]);
        const { heartbeat, claims } = await store.claimWorkOne();
        assert.deepEqual({ heartbeat, claims }, { heartbeat: null, claims: 2 });
      },
    },
    {
      id: 'renew/answers-each-token',
      title: 'renewWorkItemLocks() returns a result per token: unknown, taken over, held, settled',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2), workItem(3)] });
        const stale = await store.claimWorkOne({ max: 1, lockMs: 10 });
        const settled = await store.claimWorkOne({ max: 1 });
        const held = await store.claimWorkOne({ max: 1 });
        await store.ackWork(settled.lockToken);
        await store.clock.advance(10);
        const current = await store.claimWorkOne();
        const renewals = [
          { lockToken: 'never given out' },
          { lockToken: stale.lockToken, heartbeat: '"stale"' },
          { lockToken: held.lockToken },
          { lockToken: settled.lockToken },
          { lockToken: current.lockToken },
        ];
        assert.deepEqual(await store.provider.renewWorkItemLocks(renewals, lockMs), [
          { held: false },
          { held: false },
          { held: true, cancel: null },
          { held: false },
          { held: true, cancel: null },
        ]);
        assert.deepEqual(labels(await store.claimOne()), [
          `activityCompleted ${settled.operation}`,
        ]);
      },
    },
    {
      id: 'renew/stores-heartbeats',
      title: 'a heartbeat persists to the next attempt; omitting it keeps it, null clears it',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const heartbeats: (string | null)[] = [];
        for (const renewal of [{ heartbeat: '"at 40%"' }, {}, { heartbeat: null }]) {
          const { lockToken } = await store.claimWorkOne();
          await store.provider.renewWorkItemLocks([{ lockToken, ...renewal }], lockMs);
          const abandon = { lockToken, delayMs: 0, giveBackClaim: true };
          assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [true]);
          const next = await store.claimWorkOne();
          heartbeats.push(next.heartbeat);
          await store.provider.abandonWorkItems([{ ...abandon, lockToken: next.lockToken }]);
        }
        assert.deepEqual(heartbeats, ['"at 40%"', '"at 40%"', null]);
      },
    },
    {
      id: 'renew/a-heartbeat-belongs-to-its-item',
      title: 'a heartbeat of one work item is not visible to another',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        const items = await store.claimWork();
        const [first] = items;
        assert.ok(first);
        const { lockToken } = first;
        await store.provider.renewWorkItemLocks([{ lockToken, heartbeat: '"mine"' }], lockMs);
        await store.clock.advance(lockMs);
        const again = (await store.claimWork()).map(({ operation, heartbeat }) => [
          operation,
          heartbeat,
        ]);
        expectInAnyOrder(again, [
          [1, first.operation === 1 ? '"mine"' : null],
          [2, first.operation === 2 ? '"mine"' : null],
        ]);
      },
    },
  ],
};
