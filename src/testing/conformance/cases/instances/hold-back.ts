import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, raised } from '../../sample-data.ts';
import type { InstanceHold } from '../../../../providers/contract/orchestration-queue.ts';
import { labels, lockMs, type BegunInstance, type StoreUnderTest } from '../../store-under-test.ts';

const delayMs = 1_000;

/** Claims the only claimable instance and blocks it for build `one`. */
async function blockInstance(
  store: StoreUnderTest,
  reason = 'history disagrees',
  details?: string,
): Promise<void> {
  const { lockToken } = await store.claimOne();
  const blocked = { reason, buildId: 'one', ...(details !== undefined && { details }) };
  const abandon = { lockToken, delayMs, giveBackClaim: true, blocked };
  assert.deepEqual(await store.provider.abandonOrchestrationItems([abandon]), [true]);
}

/** Returns the hold that a worker of build `one` requests after a turn. */
function holdOf({ instanceKey, incarnation, turnId: lastTurn }: BegunInstance): InstanceHold {
  const blocked = { reason: 'looped', buildId: 'one', details: '{"code":"X"}' };
  return { instanceKey, incarnation, executionId: 1, lastTurn, delayMs, blocked };
}

export const holdBackCases: Capability = {
  title: 'abandoned and blocked instances',
  cases: [
    {
      id: 'abandon/hands-the-instance-back-at-once',
      title:
        'an abandon without delay makes the instance claimable immediately, with all its messages',
      async run(store) {
        await store.create('a');
        await store.raise('a', 'x');
        const { lockToken, messages } = await store.claimOne();
        await store.raise('a', 'y');
        const abandon = { lockToken, delayMs: 0, giveBackClaim: false };
        const results = await store.expectNoChange(() =>
          store.provider.abandonOrchestrationItems([abandon]),
        );
        assert.deepEqual(results, [true]);
        const again = await store.claimOne();
        assert.deepEqual(labels(again), ['start', 'x', 'y']);
        assert.deepEqual(again.messages.slice(0, 2), messages);
      },
    },
    {
      id: 'abandon/waits-its-delay',
      title:
        'an abandon with a delay hides the instance for exactly that time, despite new messages',
      async run(store) {
        await store.create('a');
        const { lockToken } = await store.claimOne();
        const abandon = { lockToken, delayMs, giveBackClaim: false };
        await store.provider.abandonOrchestrationItems([abandon]);
        await store.raise('a', 'x');
        await store.clock.advance(delayMs - 1);
        await store.expectIdle();
        await store.clock.advance(1);
        assert.deepEqual(labels(await store.claimOne()), ['start', 'x']);
      },
    },
    {
      id: 'abandon/a-delay-is-not-a-lock',
      title: 'the delay of an abandon does not affect later turns',
      async run(store) {
        await store.create('a');
        const { lockToken } = await store.claimOne();
        await store.provider.abandonOrchestrationItems([
          { lockToken, delayMs, giveBackClaim: true },
        ]);
        await store.clock.advance(delayMs);
        await store.commit(await store.claimOne());
        await store.raise('a', 'x');
        assert.deepEqual(labels(await store.claimOne()), ['x']);
      },
    },
    {
      id: 'abandon/needs-a-held-claim',
      title: 'an abandon with an unknown, expired or acked token returns false and changes nothing',
      async run(store) {
        await store.create('acked');
        const acked = await store.claimOne();
        await store.commit(acked);
        await store.create('expired');
        const expired = await store.claimOne();
        await store.clock.advance(lockMs);
        const blocked = { reason: 'never', buildId: 'one' };
        const tokens = ['never given out', acked.lockToken, expired.lockToken];
        const abandons = tokens.map((lockToken) => ({
          lockToken,
          delayMs,
          giveBackClaim: true,
          blocked,
        }));
        const results = await store.expectNoChange(() =>
          store.provider.abandonOrchestrationItems(abandons),
        );
        assert.deepEqual(results, [false, false, false]);
        const { instanceId, claims } = await store.claimOne();
        assert.deepEqual({ instanceId, claims }, { instanceId: 'expired', claims: 2 });
      },
    },
    {
      id: 'abandon/an-expired-claim-can-be-given-back',
      title:
        'an abandon with evenIfExpired gives back an expired claim unless it was claimed again',
      async run(store) {
        await store.create('a');
        const first = await store.claimOne();
        await store.clock.advance(lockMs);
        const giveBack = (lockToken: string) =>
          store.provider.abandonOrchestrationItems([
            { lockToken, delayMs: 0, giveBackClaim: true, evenIfExpired: true },
          ]);
        assert.deepEqual(await giveBack(first.lockToken), [true]);
        const second = await store.claimOne();
        assert.equal(second.claims, 1);
        const results = await store.expectNoChange(() => giveBack(first.lockToken));
        assert.deepEqual(results, [false]);
        await store.commit(second);
      },
    },
    {
      id: 'hold/keeps-what-waits-and-what-comes',
      title: 'holdInstances() records why and hides messages from the same build for the delay',
      async run(store) {
        const begun = await store.begin('a');
        const before = await store.record('a');
        assert.deepEqual(await store.provider.holdInstances([holdOf(begun)]), [true]);
        const blocked = {
          reason: 'looped',
          at: store.clock.now(),
          buildId: 'one',
          details: '{"code":"X"}',
        };
        assert.deepEqual(await store.record('a'), { ...before, blocked });
        await store.raise('a', 'x');
        await store.clock.advance(delayMs - 1);
        assert.deepEqual(await store.claim({ buildId: 'one' }), []);
        assert.deepEqual(await store.claim(), []);
        assert.deepEqual(labels(await store.claimOne({ buildId: 'two' })), ['x']);
        const waiting = await store.begin('b');
        await store.raise('b', 'y');
        assert.deepEqual(await store.provider.holdInstances([holdOf(waiting)]), [true]);
        assert.deepEqual(await store.claim({ buildId: 'one' }), []);
        await store.clock.advance(delayMs);
        const again = await store.claim({ buildId: 'one' });
        assert.deepEqual(again.filter(({ instanceId }) => instanceId === 'b').map(labels), [['y']]);
      },
    },
    {
      id: 'hold/is-ended-by-the-next-turn',
      title: 'the next committed turn ends a hold of holdInstances()',
      async run(store) {
        await store.provider.holdInstances([holdOf(await store.begin('a'))]);
        await store.raise('a', 'x');
        await store.commit(await store.claimOne({ buildId: 'two' }));
        assert.equal((await store.record('a')).blocked, null);
        await store.raise('a', 'y');
        assert.deepEqual(labels(await store.claimOne({ buildId: 'one' })), ['y']);
      },
    },
    {
      id: 'hold/needs-a-free-instance-as-it-stood',
      title: 'holdInstances() returns false for a claimed, changed, replaced or ended instance',
      async run(store) {
        const begun = await store.begin('a');
        const hold = holdOf(begun);
        const others = [
          { ...hold, incarnation: 'another' },
          { ...hold, executionId: 2 },
          { ...hold, lastTurn: 'another' },
          { ...hold, instanceKey: hold.instanceKey + 1_000 },
        ];
        const refused = await store.expectNoChange(() => store.provider.holdInstances(others));
        assert.deepEqual(refused, [false, false, false, false]);
        await store.raise('a', 'x');
        const claim = await store.claimOne();
        const held = await store.expectNoChange(() => store.provider.holdInstances([hold]));
        assert.deepEqual(held, [false]);
        await store.commit(claim, { turnId: 'second' });
        const later = await store.expectNoChange(() => store.provider.holdInstances([hold]));
        assert.deepEqual(later, [false]);
        const last = { ...hold, lastTurn: 'second' };
        const request = { instanceId: 'a', reason: 'over', actor: null, tree: false };
        await store.provider.terminate([request]);
        const over = await store.expectNoChange(() => store.provider.holdInstances([last]));
        assert.deepEqual(over, [false]);
      },
    },
    {
      id: 'blocked/is-visible-on-the-record',
      title: 'a blocked instance shows reason and time, and is otherwise unchanged',
      async run(store) {
        await store.begin('a');
        const before = await store.record('a');
        await store.raise('a', 'x');
        await store.clock.advance(5);
        await blockInstance(store, 'history disagrees');
        const at = store.clock.now();
        const blocked = { reason: 'history disagrees', at, buildId: 'one', details: null };
        assert.deepEqual(await store.record('a'), { ...before, blocked });
      },
    },
    {
      id: 'blocked/waits-its-delay-for-the-same-build',
      title: 'a blocked instance is claimable by the same build only after the delay',
      async run(store) {
        await store.create('a');
        await blockInstance(store);
        await store.raise('a', 'x');
        await store.clock.advance(delayMs - 1);
        assert.deepEqual(await store.claim({ buildId: 'one' }), []);
        assert.deepEqual(await store.claim(), []);
        await store.clock.advance(1);
        const item = await store.claimOne({ buildId: 'one' });
        assert.deepEqual(labels(item), ['start', 'x']);
      },
    },
    {
      id: 'blocked/comes-to-another-build-at-once',
      title: 'a blocked instance is claimable by another build immediately',
      async run(store) {
        await store.create('a');
        await blockInstance(store);
        const item = await store.claimOne({ buildId: 'two' });
        assert.deepEqual([item.instanceId, ...labels(item)], ['a', 'start']);
        assert.deepEqual(await store.claim({ buildId: 'three' }), []);
      },
    },
    {
      id: 'blocked/a-plain-delay-holds-for-every-build',
      title: 'an abandon with a delay but no block hides the instance from every build',
      async run(store) {
        await store.create('a');
        const { lockToken } = await store.claimOne();
        await store.provider.abandonOrchestrationItems([
          { lockToken, delayMs, giveBackClaim: true },
        ]);
        assert.deepEqual(await store.claim({ buildId: 'two' }), []);
        await store.clock.advance(delayMs);
        assert.equal((await store.claimOne({ buildId: 'two' })).instanceId, 'a');
      },
    },
    {
      id: 'blocked/counts-no-claim',
      title: 'blocking an instance repeatedly does not increase its claims',
      async run(store) {
        await store.create('a');
        for (let round = 0; round < 5; round++) {
          await blockInstance(store);
          await store.clock.advance(delayMs);
        }
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'blocked/a-suspect-comes-alone-to-another-build-too',
      title: 'a blocked instance at its third claim is claimed alone by another build too',
      async run(store) {
        await store.create('suspect');
        for (let claim = 0; claim < 2; claim++) {
          await store.claimOne();
          await store.clock.advance(lockMs);
        }
        await blockInstance(store);
        await store.create('b');
        const claimed: (readonly string[])[] = [];
        for (let round = 0; round < 2; round++) {
          const items = await store.claim({ buildId: 'two' });
          claimed.push(items.map(({ instanceId, claims }) => `${instanceId} ${claims}`));
        }
        assert.deepEqual(claimed, [['b 1'], ['suspect 3']]);
      },
    },
    {
      id: 'blocked/details-belong-to-the-newest-reason',
      title: 'an instance blocked again shows the details of the newest reason, or none',
      async run(store) {
        const details = async () => (await store.record('a')).blocked?.details;
        await store.create('a');
        await blockInstance(store, 'first', '{"code":"X"}');
        assert.equal(await details(), '{"code":"X"}');
        await store.clock.advance(delayMs);
        const { lockToken } = await store.claimOne();
        await store.provider.abandonOrchestrationItems([
          { lockToken, delayMs: 0, giveBackClaim: true },
        ]);
        assert.equal(await details(), '{"code":"X"}');
        await blockInstance(store, 'second');
        assert.equal(await details(), null);
        await store.clock.advance(delayMs);
        await store.commit(await store.claimOne());
        assert.equal((await store.record('a')).blocked, null);
      },
    },
    {
      id: 'blocked/names-the-newest-reason-since-the-first',
      title: 'an instance blocked again shows the newest reason and the first time',
      async run(store) {
        await store.create('a');
        const at = store.clock.now();
        await blockInstance(store, 'first');
        await store.clock.advance(delayMs);
        await blockInstance(store, 'second');
        const blocked = { reason: 'second', at, buildId: 'one', details: null };
        assert.deepEqual((await store.record('a')).blocked, blocked);
      },
    },
    {
      id: 'blocked/is-cleared-by-a-good-turn',
      title: 'a committed turn unblocks the instance, and its next message is claimable',
      async run(store) {
        await store.create('a');
        await blockInstance(store);
        await store.commit(await store.claimOne({ buildId: 'two' }), { events: [event('good')] });
        assert.equal((await store.record('a')).blocked, null);
        await store.raise('a', 'x');
        assert.deepEqual(labels(await store.claimOne({ buildId: 'one' })), ['x']);
      },
    },
    {
      id: 'blocked/still-takes-messages',
      title: 'a blocked instance accepts messages',
      async run(store) {
        await store.create('a');
        await blockInstance(store);
        const message = [{ instanceId: 'a', message: raised('x') }];
        assert.deepEqual(await store.provider.enqueueMessages(message), ['enqueued']);
        assert.deepEqual(labels(await store.claimOne({ buildId: 'two' })), ['start', 'x']);
      },
    },
  ],
};
