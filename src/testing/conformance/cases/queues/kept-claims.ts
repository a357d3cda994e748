import assert from 'node:assert/strict';
import { timerFired } from '../../../../providers/rules/turns.ts';
import { collectHints } from '../../collect-hints.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectLockLost, only } from '../../expectations.ts';
import { by, pause } from '../../pause-helpers.ts';
import { event, label, newTurn } from '../../sample-data.ts';
import { lockMs, type StoreUnderTest } from '../../store-under-test.ts';
import type { OrchestrationItem } from '../../../../providers/contract/orchestration-queue.ts';
import type { Turn } from '../../../../providers/contract/turn.ts';

const guard = { operation: 0, fireAt: 0 };

/** Acks a claim and keeps it. Returns the result. */
async function keep(store: StoreUnderTest, item: OrchestrationItem, parts: Partial<Turn> = {}) {
  const { lockToken, historyLength } = item;
  const messageKeys = item.messages.map(({ messageKey }) => messageKey);
  const turn = newTurn({ firstEventId: historyLength + 1, ...parts });
  const acks = [{ lockToken, messageKeys, turn, keep: true }];
  return only(await store.provider.ackOrchestrationItems(acks), 'result');
}

/** Creates an instance and keeps the claim of its first turn. */
async function hold(store: StoreUnderTest, id = 'a'): Promise<OrchestrationItem> {
  await store.create(id);
  const item = await store.claimOne();
  const kept = await keep(store, item, { events: [event('one')], timers: [guard] });
  assert.deepEqual(kept, { ok: true, claimed: [], kept: true });
  return { ...item, historyLength: 1, messages: [] };
}

export const keptClaims: Capability = {
  title: 'kept claims',
  cases: [
    {
      id: 'keep/an-ack-keeps-the-claim',
      title: 'an ack with keep commits its turn, and the claim keeps its token and its lease',
      async run(store) {
        const item = await hold(store);
        assert.equal((await store.record('a')).status, 'running');
        await store.raise('a', 'later');
        await store.clock.advance(lockMs - 1);
        await store.expectIdle();
        const { lockToken } = item;
        assert.deepEqual(await store.provider.renewOrchestrationLocks([lockToken], 1), [true]);
        await store.clock.advance(1);
        const next = await store.claimOne();
        assert.deepEqual(next.messages.map(label), ['timerFired 0', 'later']);
        assert.equal(next.historyLength, 1);
      },
    },
    {
      id: 'keep/resets-the-claims',
      title: 'an ack with keep resets the claim count',
      async run(store) {
        await store.create('a');
        await store.claimOne();
        await store.clock.advance(lockMs);
        const second = await store.claimOne();
        assert.equal(second.claims, 2);
        expectCommitted(await keep(store, second, { events: [event('one')], timers: [guard] }));
        await store.clock.advance(lockMs);
        assert.equal((await store.claimOne()).claims, 1);
      },
    },
    {
      id: 'keep/ends-with-the-next-ack',
      title: 'acks with keep continue the history; an ack without it releases the instance',
      async run(store) {
        const item = await hold(store);
        expectCommitted(await keep(store, item, { events: [event('two')] }));
        const second = { ...item, historyLength: 2 };
        const timerWithdrawals = [0];
        expectCommitted(await store.ack(second, { events: [event('three')], timerWithdrawals }));
        expectLockLost(await keep(store, { ...item, historyLength: 3 }, { events: [event('x')] }));
        await store.expectIdle();
        await store.raise('a', 'next');
        assert.equal((await store.claimOne()).historyLength, 3);
      },
    },
    {
      id: 'keep/an-end-releases-it',
      title: 'a turn that ends the instance keeps no claim',
      async run(store) {
        const item = await hold(store);
        const outcome = { status: 'completed', payload: null } as const;
        const ended = await keep(store, item, { outcome });
        assert.deepEqual(ended, { ok: true, claimed: [] });
        const { lockToken } = item;
        assert.deepEqual(await store.provider.renewOrchestrationLocks([lockToken], 1), [false]);
        await store.expectIdle();
      },
    },
    {
      id: 'keep/tells-of-a-paused-instance',
      title:
        'an ack with keep of a paused instance returns paused; after its release it is not claimed',
      async run(store) {
        const item = await hold(store);
        await pause(store, 'a');
        const kept = await keep(store, item, { events: [event('two')] });
        assert.deepEqual(kept, { ok: true, claimed: [], kept: true, paused: true });
        const { lockToken } = item;
        const abandon = { lockToken, delayMs: 0, giveBackClaim: true };
        assert.deepEqual(await store.provider.abandonOrchestrationItems([abandon]), [true]);
        await store.expectIdle();
      },
    },
    {
      id: 'keep/tells-of-a-paused-definition',
      title: 'an ack with keep returns paused if the definition is paused',
      async run(store) {
        const item = await hold(store);
        await store.provider.pauseDefinitions([{ kind: 'orchestration', name: 'sample', ...by }]);
        const kept = await keep(store, item, { events: [event('two')] });
        assert.deepEqual(kept, { ok: true, claimed: [], kept: true, paused: true });
      },
    },
    {
      id: 'held/returns-new-messages',
      title: 'readHeldMessages() returns messages in order, until an ack deletes them',
      async run(store) {
        const item = await hold(store);
        const { provider } = store;
        await store.raise('a', 'first');
        await store.raise('a', 'second');
        const [held] = await provider.readHeldMessages([item.lockToken]);
        assert.deepEqual(held?.messages.map(label), ['first', 'second']);
        assert.equal(held?.nowMs, store.clock.now());
        expectCommitted(await keep(store, { ...item, messages: held?.messages ?? [] }));
        const [empty] = await provider.readHeldMessages([item.lockToken]);
        assert.deepEqual(empty?.messages, []);
      },
    },
    {
      id: 'held/excludes-the-guard',
      title: 'readHeldMessages() does not return the timer of operation 0',
      async run(store) {
        const item = await hold(store);
        const [held] = await store.provider.readHeldMessages([item.lockToken]);
        assert.deepEqual(held, { messages: [], nextInMs: null, nowMs: store.clock.now() });
      },
    },
    {
      id: 'held/returns-the-time-of-the-next-timer',
      title: 'readHeldMessages() returns the time until the next timer, then the timer',
      async run(store) {
        const item = await hold(store);
        const { provider } = store;
        const timers = [{ operation: 5, fireAt: store.clock.now() + 40 }];
        expectCommitted(await keep(store, item, { timers }));
        const [before] = await provider.readHeldMessages([item.lockToken]);
        assert.deepEqual([before?.messages, before?.nextInMs], [[], 40]);
        await store.clock.advance(40);
        const [after] = await provider.readHeldMessages([item.lockToken]);
        const [{ messageKey: _, ...message } = { messageKey: 0 }] = after?.messages ?? [];
        assert.deepEqual([message, after?.nextInMs], [timerFired(1, 5), null]);
      },
    },
    {
      id: 'held/needs-a-held-claim',
      title:
        'readHeldMessages() returns undefined for a token that is unknown, released or expired',
      async run(store) {
        const item = await hold(store);
        const { provider } = store;
        const { lockToken } = await hold(store, 'b');
        await provider.abandonOrchestrationItems([{ lockToken, delayMs: 0, giveBackClaim: true }]);
        const [held, ...others] = await provider.readHeldMessages([
          item.lockToken,
          lockToken,
          'never given out',
        ]);
        assert.notEqual(held, undefined);
        assert.deepEqual(others, [undefined, undefined]);
        await store.clock.advance(lockMs);
        assert.deepEqual(await provider.readHeldMessages([item.lockToken]), [undefined]);
      },
    },
    {
      id: 'hint/tells-of-messages-to-claimed-instances',
      title: 'events, cancels and outcomes of work for a claimed instance emit messages',
      async run(store) {
        const item = await hold(store);
        const { instanceKey } = item;
        const { next, stop } = collectHints(store.provider);
        await store.raise('a', 'x');
        assert.deepEqual((await next('messages')).instanceKeys, [instanceKey]);
        stop();
        const second = collectHints(store.provider);
        await store.cancel('a');
        assert.deepEqual((await second.next('messages')).instanceKeys, [instanceKey]);
        second.stop();
      },
    },
  ],
};
