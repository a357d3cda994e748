import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, workItem } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, expectLockLost } from '../../expectations.ts';
import { lockMs } from '../../store-under-test.ts';

export const locks: Capability = {
  title: 'lock expiry and renewal',
  cases: [
    {
      id: 'lock/a-claimed-instance-is-exclusive',
      title: 'a claimed instance is not claimable again, also if messages arrive',
      async run(store) {
        await store.create('a');
        await store.claimOne();
        await store.raise('a', 'later');
        await store.expectIdle();
        await store.clock.advance(lockMs - 1);
        await store.expectIdle();
      },
    },
    {
      id: 'lock/concurrent-fetchers-share-out-instances',
      title: 'concurrent fetches claim each instance exactly once',
      async run(store) {
        for (let index = 0; index < 10; index++) await store.create(`i${index}`);
        const fetches = Array.from({ length: 12 }, () => store.claim({ max: 1 }));
        const ids = (await Promise.all(fetches)).flat().map(({ instanceId }) => instanceId);
        expectInAnyOrder(
          ids,
          Array.from({ length: 10 }, (_, index) => `i${index}`),
        );
      },
    },
    {
      id: 'lock/concurrent-fetchers-share-out-work',
      title: 'concurrent fetches claim each work item exactly once',
      async run(store) {
        const workItems = Array.from({ length: 10 }, (_, index) => workItem(index));
        await store.begin('a', { workItems });
        const fetches = Array.from({ length: 12 }, () => store.claimWork({ max: 1 }));
        const operations = (await Promise.all(fetches)).flat().map(({ operation }) => operation);
        assert.deepEqual(
          operations.toSorted((a, b) => a - b),
          workItems.map(({ operation }) => operation),
        );
      },
    },
    {
      id: 'lock/ends-at-its-moment',
      title: 'a lock expires exactly at the end of its lease',
      async run(store) {
        await store.create('a');
        const { lockToken } = await store.claimOne({ lockMs: 100 });
        await store.clock.advance(99);
        await store.expectIdle();
        assert.deepEqual(await store.provider.renewOrchestrationLocks([lockToken], 1), [true]);
        await store.clock.advance(1);
        assert.deepEqual(await store.provider.renewOrchestrationLocks([lockToken], 1), [false]);
        assert.equal((await store.claimOne()).instanceId, 'a');
      },
    },
    {
      id: 'lock/an-expired-instance-is-handed-out-again',
      title: 'an instance whose claim expired is claimed again with the same messages',
      async run(store) {
        await store.create('a');
        await store.raise('a', 'x');
        const first = await store.claimOne();
        await store.clock.advance(lockMs);
        const second = await store.claimOne();
        assert.deepEqual(second.messages, first.messages);
        assert.equal(second.claims, 2);
        assert.equal(second.nowMs, first.nowMs + lockMs);
      },
    },
    {
      id: 'lock/renewal-extends-from-now',
      title: 'a renewed claim expires exactly the given time after the renewal',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne({ lockMs: 100 });
        await store.clock.advance(60);
        const renewed = await store.provider.renewOrchestrationLocks([item.lockToken], 100);
        assert.deepEqual(renewed, [true]);
        await store.clock.advance(99);
        await store.expectIdle();
        await store.clock.advance(1);
        expectLockLost(await store.ack(item));
        assert.equal((await store.claimOne()).claims, 2);
      },
    },
    {
      id: 'lock/an-expired-claim-cannot-be-renewed',
      title: 'renewing an expired claim returns false, even if it was not claimed again',
      async run(store) {
        await store.create('a');
        const { lockToken } = await store.claimOne();
        await store.clock.advance(lockMs);
        const { provider } = store;
        assert.deepEqual(await provider.renewOrchestrationLocks([lockToken], lockMs), [false]);
        assert.equal((await store.claimOne()).instanceId, 'a');
      },
    },
    {
      id: 'lock/a-renewal-answers-each-token',
      title:
        'renewOrchestrationLocks() returns a result per token: held, acked, taken over, unknown',
      async run(store) {
        await store.create('over');
        const finished = await store.claimOne();
        await store.commit(finished);
        await store.create('lost');
        const stale = await store.claimOne({ lockMs: 10 });
        await store.clock.advance(10);
        const current = await store.claimOne();
        await store.create('held');
        const held = await store.claimOne();
        const tokens = [held, finished, stale, current].map(({ lockToken }) => lockToken);
        const results = await store.provider.renewOrchestrationLocks(
          [...tokens, 'never given out'],
          lockMs,
        );
        assert.deepEqual(results, [true, false, false, true, false]);
        await store.expectIdle();
      },
    },
    {
      id: 'lock/an-ack-releases-the-instance',
      title: 'an acked instance is claimable again with its next message',
      async run(store) {
        await store.create('a');
        await store.commit(await store.claimOne(), { events: [event('one')] });
        await store.expectIdle();
        await store.raise('a', 'next');
        const { claims, historyLength } = await store.claimOne();
        assert.deepEqual({ claims, historyLength }, { claims: 1, historyLength: 1 });
      },
    },
    {
      id: 'lock/an-expired-claim-of-work-is-handed-out-again',
      title: 'a work item is claimable again exactly when its lease expires',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const first = await store.claimWorkOne({ lockMs: 100 });
        await store.clock.advance(99);
        await store.expectIdle();
        await store.clock.advance(1);
        const second = await store.claimWorkOne();
        assert.deepEqual(
          { ...second, lockToken: '' },
          {
            ...first,
            lockToken: '',
            claims: 2,
            nowMs: first.nowMs + 100,
            dueAt: first.nowMs + 100,
          },
        );
        expectCommitted(await store.ackWork(second.lockToken));
      },
    },
  ],
};
