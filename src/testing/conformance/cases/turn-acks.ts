import assert from 'node:assert/strict';
import { placeBystander } from '../bystander.ts';
import type { Capability } from '../conformance-case.ts';
import {
  activityCancel,
  child,
  event,
  newTurn,
  raised,
  startMessage,
  workItem,
} from '../sample-data.ts';
import { expectCommitted, expectLockLost, expectRefused, only } from '../expectations.ts';
import { labels, lockMs, type StoreUnderTest } from '../store-under-test.ts';

const decided = {
  events: [event('never')],
  workItems: [workItem(7)],
  timers: [{ operation: 8, fireAt: 0 }],
  children: [child('never', 9)],
  messages: [{ instanceId: 'a', message: raised('never') }],
  customStatus: '"never"',
};

/** An instance with two activities that this process holds. */
async function beginWarm(store: StoreUnderTest, instanceId: string) {
  const workItems = [1, 2].map((operation) => workItem(operation, { claimMs: lockMs }));
  const begun = await store.begin(instanceId, { workItems });
  const [one, two] = begun.claimed.toSorted((x, y) => x.operation - y.operation);
  assert.ok(one && two);
  return { begun, one: one.lockToken, two: two.lockToken };
}

export const turnAcks: Capability = {
  title: 'work items settled together with their turn',
  cases: [
    {
      id: 'turn-ack/commits-items-and-turn-together',
      title: 'the items are gone, no message tells of them, and the turn stands as after an ack',
      async run(store) {
        const untouched = await placeBystander(store);
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
        await untouched();
      },
    },
    {
      id: 'turn-ack/settles-several-items-at-once',
      title: 'one turn may settle several items of its instance',
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
      title: 'turn follows turn, each fenced by the one before',
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
      title: 'a turn that settles its items may continue as new',
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
      title: 'one token that is unknown or settled refuses the turn, and the others stay held',
      async run(store) {
        const { begun, one, two } = await beginWarm(store, 'a');
        const outcome = { kind: 'completed', payload: '"by the slow path"' } as const;
        expectCommitted(await store.ackWork(one, outcome));
        const item = await store.claimOne();
        await store.commit(item, { turnId: begun.turnId });
        for (const tokens of [
          [two, 'never given out'],
          [one, two],
          [two, ''],
        ]) {
          expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, tokens, decided)));
        }
        await store.expectIdle();
        expectCommitted(await store.ackWork(two));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 2']);
      },
    },
    {
      id: 'turn-ack/needs-unexpired-tokens',
      title: 'an expired token refuses the turn, and the item is handed out again',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.clock.advance(lockMs);
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.claimWork()).length, 2);
      },
    },
    {
      id: 'turn-ack/needs-items-of-its-own-instance',
      title: 'a token of another instance refuses the turn, and settles nothing',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const other = await beginWarm(store, 'b');
        const tokens = [one, other.one];
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, tokens, decided)));
        await store.expectIdle();
        expectCommitted(await store.ackTurn(other.begun, [other.one]));
        expectCommitted(await store.ackTurn(begun, [one]));
      },
    },
    {
      id: 'turn-ack/needs-items-of-its-own-execution',
      title: 'a token of an execution that was superseded refuses the turn',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        const outcome = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        await store.commit(await store.claimOne(), { outcome });
        await store.commit(await store.claimOne(), { turnId: 't2', events: [event('anew')] });
        for (const executionId of [1, 2]) {
          const fences = { executionId, lastTurn: 't2' };
          const refused = await store.expectNoChange(() =>
            store.ackTurn(begun, [one], decided, fences),
          );
          expectLockLost(refused);
        }
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/needs-unflagged-items',
      title: 'a cancel request on an item refuses the turn, so that the request is not overlooked',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        const activityCancels = [activityCancel(1)];
        await store.commit(await store.claimOne(), { turnId: begun.turnId, activityCancels });
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        await store.expectIdle();
        expectCommitted(await store.ackWork(one));
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
    {
      id: 'turn-ack/needs-this-incarnation',
      title: 'another incarnation refuses the turn',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const fences = { incarnation: 'another' };
        const refused = () => store.ackTurn(begun, [one], decided, fences);
        expectLockLost(await store.expectNoChange(refused));
        expectCommitted(await store.ackTurn(begun, [one]));
      },
    },
    {
      id: 'turn-ack/needs-this-execution',
      title: 'another execution refuses the turn',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        const refused = () => store.ackTurn(begun, [one], decided, { executionId: 2 });
        expectLockLost(await store.expectNoChange(refused));
        expectCommitted(await store.ackTurn(begun, [one]));
      },
    },
    {
      id: 'turn-ack/needs-the-last-turn',
      title: 'a turn computed from another state than the last committed one is refused',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { turnId: 'a later turn' });
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        await store.expectIdle();
        expectCommitted(await store.ackTurn({ ...begun, turnId: 'a later turn' }, [one]));
      },
    },
    {
      id: 'turn-ack/needs-a-free-instance',
      title: 'an instance that someone has claimed refuses the turn, and the claim stands',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        await store.commit(item, { events: [event('of the claim')] });
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of the claim']);
      },
    },
    {
      id: 'turn-ack/needs-no-visible-message',
      title: 'a message that the turn has not seen refuses it, and is not lost',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'unseen');
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        assert.deepEqual(labels(await store.claimOne()), ['unseen']);
        expectCommitted(await store.ackWork(one));
      },
    },
    {
      id: 'turn-ack/a-lapsed-claim-counts-as-a-message',
      title: 'after a claim has expired its messages refuse the turn all the same',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.provider.renewWorkItemLocks([{ lockToken: one }], lockMs * 10);
        await store.raise('a', 'x');
        await store.claimOne();
        await store.clock.advance(lockMs);
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        assert.deepEqual(labels(await store.claimOne()), ['x']);
      },
    },
    {
      id: 'turn-ack/a-timer-that-is-not-due-does-not-hinder',
      title: 'timers that are not due do not stand in the way of a turn, and one that is due does',
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
        expectLockLost(await store.expectNoChange(() => store.ackTurn(next, [two], decided)));
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 3']);
      },
    },
    {
      id: 'turn-ack/needs-a-live-instance',
      title: 'an instance that is over refuses the turn',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        await store.raise('a', 'x');
        const outcome = { status: 'completed', payload: '"first"' } as const;
        await store.commit(await store.claimOne(), { turnId: begun.turnId, outcome });
        expectLockLost(await store.expectNoChange(() => store.ackTurn(begun, [one], decided)));
        await store.expectIdle();
      },
    },
    {
      id: 'turn-ack/continues-the-history',
      title: 'a turn whose events repeat ids or leave a gap is refused, with its items still held',
      async run(store) {
        const { begun, one } = await beginWarm(store, 'a');
        for (const firstEventId of [1, 3]) {
          const refused = () => store.ackTurn(begun, [one], { ...decided, firstEventId });
          expectRefused(await store.expectNoChange(refused));
        }
        await store.expectIdle();
        expectCommitted(await store.ackTurn(begun, [one], { events: [event('good')] }));
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'good']);
      },
    },
    {
      id: 'turn-ack/counts-once',
      title: 'a turn that is sent twice is committed once',
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
      title: 'an impossible turn is refused with its items still held, and its neighbours stand',
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
