import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, workItem } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, only } from '../../expectations.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';

/** Claims everything that is claimable, and lets the leases expire. */
async function claimAndExpire(store: StoreUnderTest): Promise<void> {
  await store.claim();
  await store.claimWork();
  await store.clock.advance(lockMs);
}

export const claims: Capability = {
  title: 'claims and poison counters',
  cases: [
    {
      id: 'claims/count-from-one',
      title: 'claims of an instance count from 1, plus 1 per expired claim',
      async run(store) {
        await store.create('a');
        const counts: number[] = [];
        for (let round = 0; round < 5; round++) {
          counts.push((await store.claimOne()).claims);
          await store.clock.advance(lockMs);
        }
        assert.deepEqual(counts, [1, 2, 3, 4, 5]);
      },
    },
    {
      id: 'claims/are-reset-by-a-turn',
      title: 'a committed turn resets the claims of its instance',
      async run(store) {
        await store.create('a');
        await claimAndExpire(store);
        const item = await store.claimOne();
        assert.equal(item.claims, 2);
        await store.commit(item);
        await store.raise('a', 'x');
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'claims/are-reset-by-a-turn-that-leaves-messages',
      title: 'a committed turn resets the claims, also if unread messages remain',
      async run(store) {
        await store.create('a');
        await claimAndExpire(store);
        const item = await store.claimOne();
        await store.raise('a', 'x');
        await store.commit(item);
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'claims/an-abandoned-claim-counts-unless-given-back',
      title: 'an abandoned claim counts, unless giveBackClaim is set',
      async run(store) {
        await store.create('a');
        const counts: number[] = [];
        for (const giveBackClaim of [true, true, false, true, false, true]) {
          const { lockToken, claims: count } = await store.claimOne();
          counts.push(count);
          const abandon = { lockToken, delayMs: 0, giveBackClaim };
          const { provider } = store;
          assert.deepEqual(await provider.abandonOrchestrationItems([abandon]), [true]);
          assert.deepEqual(await provider.abandonOrchestrationItems([abandon]), [false]);
        }
        assert.deepEqual(counts, [1, 1, 1, 2, 2, 3]);
      },
    },
    {
      id: 'claims/belong-to-one-instance',
      title: 'the claims of one instance do not count for another',
      async run(store) {
        await store.create('a');
        await claimAndExpire(store);
        await store.create('b');
        const counts = (await store.claim()).map((item) => [item.instanceId, item.claims]);
        expectInAnyOrder(counts, [
          ['a', 2],
          ['b', 1],
        ]);
      },
    },
    {
      id: 'claims/the-third-comes-alone',
      title: 'an instance at its third or later claim is claimed alone, after the others',
      async run(store) {
        await store.create('suspect');
        await claimAndExpire(store);
        await claimAndExpire(store);
        await store.create('b');
        await store.create('c');
        const claimed: (readonly string[])[] = [];
        for (let round = 0; round < 3; round++) {
          claimed.push((await store.claim()).map(({ instanceId }) => instanceId).toSorted());
        }
        assert.deepEqual(claimed, [['b', 'c'], ['suspect'], []]);
        await store.clock.advance(lockMs);
        await store.claim();
        const { instanceId, claims: count } = await store.claimOne();
        assert.deepEqual({ instanceId, count }, { instanceId: 'suspect', count: 4 });
      },
    },
    {
      id: 'claims/two-suspects-come-one-by-one',
      title: 'two instances at their third claim never share a fetch',
      async run(store) {
        await store.create('a');
        await store.create('b');
        await claimAndExpire(store);
        await claimAndExpire(store);
        const first = await store.claimOne();
        const second = await store.claimOne();
        expectInAnyOrder([first.instanceId, second.instanceId], ['a', 'b']);
        assert.deepEqual([first.claims, second.claims], [3, 3]);
      },
    },
    {
      id: 'claims/a-suspect-is-not-put-off-for-ever',
      title: 'an instance at its third claim is claimed within an hour despite newer work',
      async run(store) {
        await store.create('suspect');
        await claimAndExpire(store);
        await claimAndExpire(store);
        const claimed: string[] = [];
        for (let minute = 0; minute < 60; minute++) {
          await store.clock.advance('1m');
          await store.create(`new ${minute}`);
          for (const item of await store.claim()) {
            claimed.push(item.instanceId);
            await store.commit(item);
          }
        }
        assert.equal(claimed.filter((id) => id === 'suspect').length, 1);
        assert.ok(claimed.length >= 59, 'the others should be claimed meanwhile');
      },
    },
    {
      id: 'claims/of-work-count-from-one',
      title: 'claims of a work item count expired and abandoned claims, not given-back ones',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const counts = [(await store.claimWorkOne()).claims];
        await store.clock.advance(lockMs);
        for (const giveBackClaim of [true, false, true]) {
          const { lockToken, claims: count } = await store.claimWorkOne();
          counts.push(count);
          const abandon = { lockToken, delayMs: 0, giveBackClaim };
          assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [true]);
          assert.deepEqual(await store.provider.abandonWorkItems([abandon]), [false]);
        }
        counts.push((await store.claimWorkOne()).claims);
        assert.deepEqual(counts, [1, 2, 2, 3, 3]);
      },
    },
    {
      id: 'claims/the-third-of-work-comes-alone',
      title: 'a work item at its third or later claim is claimed alone, after the others',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1), workItem(2)] });
        await claimAndExpire(store);
        await claimAndExpire(store);
        await store.begin('b', { workItems: [workItem(3), workItem(4)] });
        const claimed: (readonly number[])[] = [];
        for (let round = 0; round < 4; round++) {
          const operations = (await store.claimWork()).map(({ operation }) => operation);
          claimed.push(operations);
        }
        const [first, second, third, last] = claimed;
        expectInAnyOrder(first ?? [], [3, 4]);
        expectInAnyOrder([second, third].flat(), [1, 2]);
        assert.deepEqual([second?.length, third?.length, last?.length], [1, 1, 0]);
      },
    },
    {
      id: 'claims/of-work-and-instances-are-apart',
      title: 'expired claims of a work item do not count for its instance',
      async run(store) {
        await store.begin('a', { events: [event('x')], workItems: [workItem(1)] });
        for (let round = 0; round < 2; round++) {
          await store.claimWorkOne();
          await store.clock.advance(lockMs);
        }
        await store.raise('a', 'go');
        const item = await store.claimOne();
        assert.equal(item.claims, 1);
        const work = only(await store.claimWork(), 'work item');
        assert.equal(work.claims, 3);
        expectCommitted(await store.ackWork(work.lockToken));
      },
    },
  ],
};
