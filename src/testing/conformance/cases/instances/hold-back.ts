import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { event, raised } from '../../sample-data.ts';
import type { InstanceHold } from '../../../../providers/contract/orchestration-queue.ts';
import { labels, lockMs, type BegunInstance, type StoreUnderTest } from '../../store-under-test.ts';

const delayMs = 1_000;

/** Claims the only claimable instance and holds it back for build `one`. */
async function holdBack(store: StoreUnderTest, reason = 'history disagrees'): Promise<void> {
  const { lockToken } = await store.claimOne();
  const blocked = { reason, buildId: 'one' };
  const abandon = { lockToken, delayMs, giveBackClaim: true, blocked };
  assert.deepEqual(await store.provider.abandonOrchestrationItems([abandon]), [true]);
}

/** How the worker of build `one` would hold back an instance as it stands after a turn. */
function holdOf({ instanceKey, incarnation, turnId: lastTurn }: BegunInstance): InstanceHold {
  const blocked = { reason: 'looped', buildId: 'one' };
  return { instanceKey, incarnation, executionId: 1, lastTurn, delayMs, blocked };
}

export const holdBackCases: Capability = {
  title: 'abandoned and held-back instances',
  cases: [
    {
      id: 'abandon/hands-the-instance-back-at-once',
      title: 'an abandoned instance without delay can be claimed at once, with all its messages',
      async run(store) {
        await store.create('a');
        await store.raise('a', 'x');
        const { lockToken, messages } = await store.claimOne();
        await store.raise('a', 'y');
        const abandon = { lockToken, delayMs: 0, giveBackClaim: false };
        const answers = await store.expectNoChange(() =>
          store.provider.abandonOrchestrationItems([abandon]),
        );
        assert.deepEqual(answers, [true]);
        const again = await store.claimOne();
        assert.deepEqual(labels(again), ['start', 'x', 'y']);
        assert.deepEqual(again.messages.slice(0, 2), messages);
      },
    },
    {
      id: 'abandon/waits-its-delay',
      title: 'an abandoned instance is hidden for its delay and no longer, also from new messages',
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
      title: 'a delay that is over leaves nothing behind: the next turn can be claimed as usual',
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
      title:
        'abandoning with a token that is unknown, expired or acked answers false and changes nothing',
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
        const answers = await store.expectNoChange(() =>
          store.provider.abandonOrchestrationItems(abandons),
        );
        assert.deepEqual(answers, [false, false, false]);
        const { instanceId, claims } = await store.claimOne();
        assert.deepEqual({ instanceId, claims }, { instanceId: 'expired', claims: 2 });
      },
    },
    {
      id: 'abandon/an-expired-claim-can-be-given-back',
      title:
        'a claim that has expired is given back if that is asked for, unless the instance was claimed again',
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
        const answers = await store.expectNoChange(() => giveBack(first.lockToken));
        assert.deepEqual(answers, [false]);
        await store.commit(second);
      },
    },
    {
      id: 'hold/keeps-what-waits-and-what-comes',
      title:
        'an instance that is held back without a claim shows why, and keeps its messages from the same build for the delay',
      async run(store) {
        const begun = await store.begin('a');
        const before = await store.record('a');
        assert.deepEqual(await store.provider.holdInstances([holdOf(begun)]), [true]);
        const blocked = { reason: 'looped', at: store.clock.now() };
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
      title:
        'the next committed turn of an instance that was held back without a claim releases it',
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
      title:
        'an instance is not held back while a claim holds it, after another turn, in another life or execution, or when it is over',
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
      title: 'an instance that is held back says why and since when, and is otherwise as it was',
      async run(store) {
        await store.begin('a');
        const before = await store.record('a');
        await store.raise('a', 'x');
        await store.clock.advance(5);
        await holdBack(store, 'history disagrees');
        const blocked = { reason: 'history disagrees', at: store.clock.now() };
        assert.deepEqual(await store.record('a'), { ...before, blocked });
      },
    },
    {
      id: 'blocked/waits-its-delay-for-the-same-build',
      title:
        'an instance that a build has held back comes to that build after the delay, not earlier',
      async run(store) {
        await store.create('a');
        await holdBack(store);
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
      title: 'an instance that one build has held back is handed to another build at once',
      async run(store) {
        await store.create('a');
        await holdBack(store);
        const item = await store.claimOne({ buildId: 'two' });
        assert.deepEqual([item.instanceId, ...labels(item)], ['a', 'start']);
        assert.deepEqual(await store.claim({ buildId: 'three' }), []);
      },
    },
    {
      id: 'blocked/a-plain-delay-holds-for-every-build',
      title: 'an instance that was only delayed, not held back, comes to no build earlier',
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
      title: 'holding an instance back again and again never makes it suspect',
      async run(store) {
        await store.create('a');
        for (let round = 0; round < 5; round++) {
          await holdBack(store);
          await store.clock.advance(delayMs);
        }
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'blocked/a-suspect-comes-alone-to-another-build-too',
      title: 'an instance at its third claim that is held back comes alone, also to another build',
      async run(store) {
        await store.create('suspect');
        for (let claim = 0; claim < 2; claim++) {
          await store.claimOne();
          await store.clock.advance(lockMs);
        }
        await holdBack(store);
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
      id: 'blocked/names-the-newest-reason-since-the-first',
      title: 'held back again, an instance names the newest reason and keeps the time of the first',
      async run(store) {
        await store.create('a');
        const at = store.clock.now();
        await holdBack(store, 'first');
        await store.clock.advance(delayMs);
        await holdBack(store, 'second');
        assert.deepEqual((await store.record('a')).blocked, { reason: 'second', at });
      },
    },
    {
      id: 'blocked/is-cleared-by-a-good-turn',
      title: 'a committed turn ends the hold-back, and the next message is claimed as usual',
      async run(store) {
        await store.create('a');
        await holdBack(store);
        await store.commit(await store.claimOne({ buildId: 'two' }), { events: [event('good')] });
        assert.equal((await store.record('a')).blocked, null);
        await store.raise('a', 'x');
        assert.deepEqual(labels(await store.claimOne({ buildId: 'one' })), ['x']);
      },
    },
    {
      id: 'blocked/still-takes-messages',
      title: 'an instance that is held back still accepts messages',
      async run(store) {
        await store.create('a');
        await holdBack(store);
        const message = [{ instanceId: 'a', message: raised('x') }];
        assert.deepEqual(await store.provider.enqueueMessages(message), ['enqueued']);
        assert.deepEqual(labels(await store.claimOne({ buildId: 'two' })), ['start', 'x']);
      },
    },
  ],
};
