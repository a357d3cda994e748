import assert from 'node:assert/strict';
import type { Turn } from '../../../../providers/contract/turn.ts';
import type { TurnAck } from '../../../../providers/contract/work-queue.ts';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  activityCancel,
  child,
  event,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../../sample-data.ts';
import { expectCommitted, expectLockLost, expectRefused, only } from '../../expectations.ts';
import { labels, lockMs, type BegunInstance, type StoreUnderTest } from '../../store-under-test.ts';

/** Only appends events and schedules activities: a store may have a fast path for such turns. */
const plainTurn: Partial<Turn> = { events: [event('never')], workItems: [workItem(7)] };

/** Writes to every table that a turn can write to. */
const fullTurn: Partial<Turn> = {
  ...plainTurn,
  timers: [{ operation: 8, fireAt: 0 }],
  children: [child('never', 9)],
  messages: [{ instanceId: 'a', message: raised('never') }],
  customStatus: '"never"',
};

/**
 * Expects that both turns are rejected with `LOCK_LOST` and change nothing. The plain turn is first, because a store
 * may bypass its fast path for a while after a rejection.
 */
async function expectLost(
  store: StoreUnderTest,
  begun: BegunInstance,
  lockTokens: readonly string[],
  fences: Partial<TurnAck> = {},
): Promise<void> {
  for (const turn of [plainTurn, fullTurn]) {
    const ack = () => store.ackTurn(begun, lockTokens, turn, fences);
    expectLockLost(await store.expectNoChange(ack));
  }
}

/** Begins an instance with two activities that this process holds. */
async function beginWarm(store: StoreUnderTest, instanceId: string) {
  const workItems = [1, 2].map((operation) => workItem(operation, { claimMs: lockMs }));
  const begun = await store.begin(instanceId, { workItems });
  const [one, two] = begun.claimed.toSorted((x, y) => x.operation - y.operation);
  assert.ok(one && two);
  return { begun, one: one.lockToken, two: two.lockToken };
}

/**
 * Continues an instance as new while its first execution still holds an unflagged work item. The history of the
 * second execution is as long as that of the first.
 */
async function supersede(store: StoreUnderTest) {
  const workItems = [workItem(1, { claimMs: lockMs, cancellation: 'abandon' })];
  const begun = await store.begin('a', { workItems });
  const one = only(begun.claimed, 'claimed item').lockToken;
  await store.raise('a', 'x');
  const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
  await store.commit(await store.claimOne(), { outcome });
  await store.commit(await store.claimOne(), { turnId: 't2', events: [event('anew')] });
  return { begun, one };
}

/** Expects that turns whose first event has this id are rejected as invalid and change nothing. */
async function expectBadEventIds(store: StoreUnderTest, firstEventId: number): Promise<void> {
  const { begun, one } = await beginWarm(store, 'a');
  for (const turn of [plainTurn, fullTurn]) {
    const ack = () => store.ackTurn(begun, [one], { ...turn, firstEventId });
    expectRefused(await store.expectNoChange(ack));
  }
  await store.expectIdle();
  expectCommitted(await store.ackTurn(begun, [one], { events: [event('good')] }));
  assert.deepEqual(await store.historyLabels('a'), ['begun', 'good']);
}

export const turnAcks: Capability = {
  title: 'turn acks with work items',
  cases: [
    {
      id: 'turn-ack/commits-items-and-turn-together',
      title: 'ackTurns() settles the work items without a message and commits the turn',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        const { begun, one, two } = await beginWarm(store, 'a');
        const fireAt = store.clock.now() + 10;
        const result = await store.ackTurn(begun, [one], {
          turnId: 'the fast turn',
          version: '3',
          events: [event('two'), event('three')],
          workItems: [workItem(3), workItem(4, { claimMs: lockMs })],
          timers: [{ operation: 5, fireAt }],
          children: [child('kid', 6)],
          customStatus: '"busy"',
        });
        assert.deepEqual(
          expectCommitted(result).map(({ operation }) => operation),
          [4],
        );
        const { status, version, customStatus } = await store.record('a');
        assert.deepEqual([status, version, customStatus], ['running', '3', '"busy"']);
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'two', 'three']);
        assert.equal((await store.claimWorkOne()).operation, 3);
        assert.equal((await store.claimOne()).instanceId, 'kid');
        expectLockLost(await store.ackWork(one));
        await store.clock.advance(10);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['timerFired 5']);
        assert.deepEqual([item.lastTurn, item.historyLength], ['the fast turn', 3]);
        await store.commit(item);
        expectCommitted(await store.ackWork(two));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 2']);
        await expectUnchanged();
      },
    },
    {
      id: 'turn-ack/settles-several-items-at-once',
      title: 'ackTurns() can settle several work items in one turn',
      async run(store) {
        const { begun, one, two } = await beginWarm(store, 'a');
        const outcome = { status: 'completed', payload: '2' } as const;
        expectCommitted(await store.ackTurn(begun, [one, two], { outcome }));
        assert.equal((await store.record('a')).output, '2');
        await store.clock.advance(lockMs);
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/follows-another',
      title: 'consecutive ackTurns() calls are each fenced by the previous turn',
      async run(store) {
        const { begun, one, two } = await beginWarm(store, 'a');
        expectCommitted(await store.ackTurn(begun, [one], { turnId: 't2', events: [event('x')] }));
        const next = { ...begun, turnId: 't2', historyLength: 2 };
        expectCommitted(await store.ackTurn(next, [two], { events: [event('y')] }));
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'x', 'y']);
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/can-continue-as-new',
      title: 'ackTurns() can continue as new',
      async run(store) {
        const { begun, one, two } = await beginWarm(store, 'a');
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        expectCommitted(await store.ackTurn(begun, [one], { events: [event('x')], outcome }));
        const item = await store.claimOne();
        assert.deepEqual([item.executionId, ...labels(item)], [2, 'start']);
        expectCommitted(await store.ackWork(two));
        await store.commit(item);
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/needs-every-token-held',
      title:
        'ackTurns() with an unknown or settled token is rejected; the other work items stay held',
      async run(store) {
        const { begun, one, two } = await beginWarm(store, 'a');
        const outcome = { kind: 'completed', payload: '"by the slow path"' } as const;
        expectCommitted(await store.ackWork(one, outcome));
        const item = await store.claimOne();
        await store.commit(item, { turnId: begun.turnId });
        for (const tokens of [
          [one, two],
          [two, 'never given out'],
          [two, ''],
        ]) {
          await expectLost(store, begun, tokens);
        }
        await store.expectIdle();
        expectCommitted(await store.ackWork(two));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 2']);
      },
    },
    {
      id: 'turn-ack/needs-unexpired-tokens',
      title: 'ackTurns() with an expired token is rejected, and the work item is claimable again',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.clock.advance(lockMs);
        await expectLost(store, begun, [one]);
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.claimWork()).length, 2);
      },
    },
    {
      id: 'turn-ack/needs-items-of-its-own-instance',
      title: 'ackTurns() with a token of another instance is rejected and settles nothing',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const other = await beginWarm(store, 'b');
        const tokens = [one, other.one];
        await expectLost(store, begun, tokens);
        await store.expectIdle();
        expectCommitted(await store.ackTurn(other.begun, [other.one]));
        expectCommitted(await store.ackTurn(begun, [one]));
      },
    },
    {
      id: 'turn-ack/needs-the-current-token',
      title:
        'ackTurns() with an abandoned token is rejected although another claim holds the work item',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const handBack = { lockToken: one, delayMs: 0, giveBackClaim: true };
        await store.provider.abandonWorkItems([handBack]);
        const { lockToken } = await store.claimWorkOne();
        await expectLost(store, begun, [one]);
        expectCommitted(await store.ackTurn(begun, [lockToken]));
      },
    },
    {
      id: 'turn-ack/needs-items-of-its-own-execution',
      title: 'ackTurns() with a work item of a superseded execution is rejected',
      async run(store) {
        const { begun, one } = await supersede(store);
        await expectLost(store, begun, [one], { executionId: 2, lastTurn: 't2' });
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/needs-the-current-execution',
      title: 'ackTurns() for a superseded execution is rejected although its work item is held',
      async run(store) {
        const { begun, one } = await supersede(store);
        await expectLost(store, begun, [one], { executionId: 1, lastTurn: 't2' });
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/needs-unflagged-items',
      title: 'ackTurns() with a flagged work item is rejected',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        const activityCancels = [activityCancel(1)];
        await store.commit(await store.claimOne(), { turnId: begun.turnId, activityCancels });
        await expectLost(store, begun, [one]);
        await store.expectIdle();
        expectCommitted(await store.ackWork(one));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'turn-ack/needs-this-incarnation',
      title: 'ackTurns() with another incarnation is rejected',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const fences = { incarnation: 'another' };
        await expectLost(store, begun, [one], fences);
        expectCommitted(await store.ackTurn(begun, [one]));
      },
    },
    {
      id: 'turn-ack/needs-this-execution',
      title: 'ackTurns() with another execution id is rejected',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await expectLost(store, begun, [one], { executionId: 2 });
        expectCommitted(await store.ackTurn(begun, [one]));
      },
    },
    {
      id: 'turn-ack/needs-the-last-turn',
      title: 'ackTurns() with an outdated lastTurn is rejected',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { turnId: 'a later turn' });
        await expectLost(store, begun, [one]);
        await store.expectIdle();
        expectCommitted(await store.ackTurn({ ...begun, turnId: 'a later turn' }, [one]));
      },
    },
    {
      id: 'turn-ack/needs-a-free-instance',
      title: 'ackTurns() for a claimed instance is rejected, and the claim stays valid',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await expectLost(store, begun, [one]);
        await store.commit(item, { events: [event('of the claim')] });
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of the claim']);
      },
    },
    {
      id: 'turn-ack/needs-no-visible-message',
      title: 'ackTurns() is rejected while an unread message is visible',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'unseen');
        await expectLost(store, begun, [one]);
        assert.deepEqual(labels(await store.claimOne()), ['unseen']);
        expectCommitted(await store.ackWork(one));
      },
    },
    {
      id: 'turn-ack/a-lapsed-claim-counts-as-a-message',
      title: 'ackTurns() is rejected while messages of an expired claim are unread',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.provider.renewWorkItemLocks([{ lockToken: one }], lockMs * 10);
        await store.raise('a', 'x');
        await store.claimOne();
        await store.clock.advance(lockMs);
        await expectLost(store, begun, [one]);
        assert.deepEqual(labels(await store.claimOne()), ['x']);
      },
    },
    {
      id: 'turn-ack/a-timer-that-is-not-due-does-not-hinder',
      title: 'ackTurns() commits before a timer is due and is rejected once it is due',
      async run(store) {
        const workItems = [1, 2].map((operation) => workItem(operation, { claimMs: lockMs }));
        const timers = [{ operation: 3, fireAt: store.clock.now() + 100 }];
        const begun = await store.begin('a', { workItems, timers });
        const [one, two] = begun.claimed.map(({ lockToken }) => lockToken);
        assert.ok(one && two);
        await store.clock.advance(99);
        expectCommitted(await store.ackTurn(begun, [one], { turnId: 't2' }));
        await store.clock.advance(1);
        const next = { ...begun, turnId: 't2' };
        await expectLost(store, next, [two]);
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 3']);
      },
    },
    {
      id: 'turn-ack/needs-a-live-instance',
      title: 'ackTurns() for an ended instance is rejected although its work item is held',
      async run(store) {
        for (const cancellation of ['abandon', 'request'] as const) {
          const workItems = [workItem(1, { claimMs: lockMs, cancellation })];
          const begun = await store.begin(cancellation, { workItems });
          await store.raise(cancellation, 'x');
          const outcome = { status: 'completed', payload: '"first"' } as const;
          await store.commit(await store.claimOne(), { turnId: begun.turnId, outcome });
          await expectLost(store, begun, [only(begun.claimed, 'claimed item').lockToken]);
          await store.expectIdle();
        }
      },
    },
    {
      id: 'turn-ack/leaves-no-gap-in-the-history',
      title: 'ackTurns() with a gap in the event ids is rejected; its work items stay held',
      async run(store) {
        await expectBadEventIds(store, 3);
      },
    },
    {
      id: 'turn-ack/continues-the-history',
      title: 'ackTurns() with event ids that exist is rejected; its work items stay held',
      async run(store) {
        await expectBadEventIds(store, 1);
      },
    },
    {
      id: 'turn-ack/takes-the-version-along',
      title: 'ackTurns() records a new version of the instance',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const turn = { version: '2', events: [event('newer')] };
        expectCommitted(await store.ackTurn(begun, [one], turn));
        assert.equal((await store.record('a')).version, '2');
      },
    },
    {
      id: 'turn-ack/an-end-takes-what-is-left',
      title: 'ackTurns() that ends the instance flags its other claimed work items',
      async run(store) {
        const outcome = { status: 'completed', payload: '"end"' } as const;
        const workItems = [1, 2].map((operation) => workItem(operation, { claimMs: lockMs }));
        const one = await store.begin('a', { workItems });
        const [first] = one.claimed;
        assert.ok(first);
        expectCommitted(
          await store.ackTurn(one, [first.lockToken], { events: [event('x')], outcome }),
        );
        const left = await store.renewWork(one.claimed[1]?.lockToken ?? '');
        assert.ok(left.held && left.cancel !== null, 'the other activity should be asked to stop');
      },
    },
    {
      id: 'turn-ack/an-end-cancels-children',
      title: 'ackTurns() that ends the instance cancels its children',
      async run(store) {
        const outcome = { status: 'completed', payload: '"end"' } as const;
        const workItems = [workItem(1, { claimMs: lockMs })];
        const begun = await store.begin('a', { workItems, children: [child('kid', 2)] });
        await store.commit(await store.claimOne(), { events: [event('begun')] });
        const { lockToken } = only(begun.claimed, 'claimed item');
        expectCommitted(await store.ackTurn(begun, [lockToken], { events: [event('x')], outcome }));
        assert.equal((await store.record('kid')).status, 'canceling');
      },
    },
    {
      id: 'turn-ack/counts-once',
      title: 'the same turn sent twice to ackTurns() is committed once',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const turn = newTurn({ firstEventId: 2, events: [event('once')] });
        const { instanceKey, incarnation, turnId: lastTurn } = begun;
        const ack = { instanceKey, incarnation, executionId: 1, lastTurn, lockTokens: [one], turn };
        const [first, second] = await store.provider.ackTurns([ack, ack]);
        expectCommitted(first ?? assert.fail());
        expectLockLost(second ?? assert.fail());
        expectLockLost(only(await store.provider.ackTurns([ack]), 'result'));
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'once']);
      },
    },
    {
      id: 'turn-ack/a-bad-one-spares-its-neighbours',
      title: 'an invalid turn in ackTurns() does not affect the others of its batch',
      async run(store) {
        const warm = [];
        for (const id of ['a', 'b', 'c']) warm.push(await beginWarm(store, id));
        const acks = warm.map(({ begun, one }) => ({
          instanceKey: begun.instanceKey,
          incarnation: begun.incarnation,
          executionId: 1,
          lastTurn: begun.turnId,
          lockTokens: [one],
          turn: newTurn({
            firstEventId: begun.instanceId === 'b' ? 1 : 2,
            events: [event(`of ${begun.instanceId}`)],
          }),
        }));
        const results = await store.provider.ackTurns(acks);
        assert.deepEqual(
          results.map(({ ok }) => ok),
          [true, false, true],
        );
        expectRefused(results[1] ?? assert.fail());
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of a']);
        assert.deepEqual(await store.historyLabels('b'), ['begun']);
        assert.deepEqual(await store.historyLabels('c'), ['begun', 'of c']);
        const bad = warm[1] ?? assert.fail();
        expectCommitted(await store.ackTurn(bad.begun, [bad.one], { events: [event('good')] }));
        await store.expectIdle();
      },
    },
  ],
};
