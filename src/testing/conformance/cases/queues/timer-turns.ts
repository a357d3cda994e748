import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectCommitted, expectLockLost } from '../../expectations.ts';
import { child, event, newTurn, startMessage, workItem } from '../../sample-data.ts';
import { labels, lockMs, type StoreUnderTest } from '../../store-under-test.ts';

const fullTurn = {
  events: [event('never')],
  workItems: [workItem(7)],
  children: [child('never', 9)],
  customStatus: '"never"',
};

const completed = { status: 'completed', payload: '"over"' } as const;

/** Begins an instance with timers 1 and 2 in 100 ms, and timer 3 in 200 ms. */
function beginWaiting(store: StoreUnderTest, instanceId: string) {
  const fireAt = store.clock.now() + 100;
  const timers = [
    { operation: 1, fireAt },
    { operation: 2, fireAt },
    { operation: 3, fireAt: fireAt + 100 },
  ];
  return store.begin(instanceId, { timers });
}

export const timerTurns: Capability = {
  title: 'turn acks with timers',
  cases: [
    {
      id: 'timer-turn/takes-the-timers-with-it',
      title: 'ackTurns() with timers deletes them and commits the turn; other timers still fire',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        const begun = await beginWaiting(store, 'a');
        await store.clock.advance(100);
        const parts = { turnId: 'the fast turn', events: [event('two')], workItems: [workItem(4)] };
        expectCommitted(await store.ackTurn(begun, [], parts, { timers: [1, 2] }));
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'two']);
        assert.deepEqual(await store.claim(), []);
        assert.equal((await store.claimWorkOne()).operation, 4);
        await store.clock.advance(100);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['timerFired 3']);
        assert.deepEqual([item.lastTurn, item.historyLength], ['the fast turn', 2]);
        await expectUnchanged();
      },
    },
    {
      id: 'timer-turn/settles-items-too',
      title: 'ackTurns() with timers can settle work items, end the instance or continue as new',
      async run(store) {
        const timers = [{ operation: 2, fireAt: store.clock.now() }];
        const workItems = [workItem(1, { claimMs: lockMs })];
        const ending = await store.begin('a', { timers, workItems });
        const token = ending.claimed[0]?.lockToken ?? assert.fail();
        const outcome = completed;
        expectCommitted(await store.ackTurn(ending, [token], { outcome }, { timers: [2] }));
        assert.equal((await store.record('a')).output, '"over"');
        const continuing = await store.begin('b', { timers });
        const next = { status: 'continuedAsNew', version: '1', start: startMessage() } as const;
        const committed = await store.ackTurn(continuing, [], { outcome: next }, { timers: [2] });
        expectCommitted(committed);
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, item.executionId, ...labels(item)], ['b', 2, 'start']);
        await store.commit(item);
        await store.expectIdle();
      },
    },
    {
      id: 'timer-turn/needs-timers-that-are-due',
      title: 'ackTurns() with a timer that is not due is rejected',
      async run(store) {
        const begun = await beginWaiting(store, 'a');
        const take = (...timers: readonly number[]) =>
          store.expectNoChange(() => store.ackTurn(begun, [], fullTurn, { timers }));
        await store.clock.advance(99);
        expectLockLost(await take(1, 2));
        await store.clock.advance(1);
        expectLockLost(await take(1, 2, 3));
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 1', 'timerFired 2']);
      },
    },
    {
      id: 'timer-turn/needs-timers-that-wait',
      title: 'ackTurns() with an unknown, fired or withdrawn timer is rejected',
      async run(store) {
        const begun = await beginWaiting(store, 'a');
        const other = await store.begin('b', {
          timers: [{ operation: 8, fireAt: store.clock.now() }],
        });
        const refuse = async (lastTurn: string, timers: readonly number[]) => {
          const fences = { lastTurn, timers };
          const ack = () => store.ackTurn(begun, [], { ...fullTurn, firstEventId: 2 }, fences);
          expectLockLost(await store.expectNoChange(ack));
        };
        await refuse(begun.turnId, [8]);
        await store.clock.advance(100);
        await refuse(begun.turnId, [1, 2, 8]);
        const parts = { turnId: 't2', timerWithdrawals: [3] };
        expectCommitted(await store.ackTurn(begun, [], parts, { timers: [1, 2] }));
        await store.clock.advance(100);
        await refuse('t2', [1]);
        await refuse('t2', [3]);
        expectCommitted(await store.ackTurn(other, [], {}, { timers: [8] }));
        await store.expectIdle();
      },
    },
    {
      id: 'timer-turn/needs-no-other-message',
      title: 'ackTurns() with timers is rejected while another message or due timer is unread',
      async run(store) {
        const begun = await beginWaiting(store, 'a');
        const take = (...timers: readonly number[]) =>
          store.expectNoChange(() => store.ackTurn(begun, [], fullTurn, { timers }));
        await store.clock.advance(100);
        expectLockLost(await take(1));
        expectLockLost(await take(1, 1));
        await store.raise('a', 'unseen');
        expectLockLost(await take(1, 2));
        assert.deepEqual(labels(await store.claimOne()), [
          'timerFired 1',
          'timerFired 2',
          'unseen',
        ]);
      },
    },
    {
      id: 'timer-turn/leaves-what-came-later',
      title: 'ackTurns() with asOfMs leaves messages that became visible later for the next turn',
      async run(store) {
        const begun = await beginWaiting(store, 'a');
        await store.clock.advance(100);
        const asOfMs = store.clock.now();
        await store.clock.advance(100);
        await store.raise('a', 'later');
        const fences = { timers: [1, 2], asOfMs };
        const take = (timers: readonly number[], at = asOfMs) =>
          store.expectNoChange(() => store.ackTurn(begun, [], fullTurn, { timers, asOfMs: at }));
        expectLockLost(await take([1]));
        expectLockLost(await take([1, 2, 3]));
        expectLockLost(await take([1, 2], asOfMs - 1));
        const parts = { turnId: 't2', events: [event('two')] };
        expectCommitted(await store.ackTurn(begun, [], parts, fences));
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'two']);
        const item = await store.claimOne();
        assert.deepEqual([item.lastTurn, ...labels(item)], ['t2', 'timerFired 3', 'later']);
      },
    },
    {
      id: 'timer-turn/a-time-to-come-takes-nothing-early',
      title: 'ackTurns() with asOfMs in the future does not take timers early',
      async run(store) {
        const begun = await beginWaiting(store, 'a');
        await store.clock.advance(99);
        const fences = { timers: [1, 2], asOfMs: store.clock.now() + 10 };
        const early = () => store.ackTurn(begun, [], fullTurn, fences);
        expectLockLost(await store.expectNoChange(early));
        await store.clock.advance(1);
        expectCommitted(await store.ackTurn(begun, [], {}, fences));
        await store.expectIdle();
      },
    },
    {
      id: 'timer-turn/needs-a-free-instance',
      title: 'ackTurns() with timers is rejected for claimed, ended and canceling instances',
      async run(store) {
        const claimed = await beginWaiting(store, 'a');
        const canceled = await beginWaiting(store, 'b');
        await store.clock.advance(100);
        const take = (begun: typeof claimed) =>
          store.expectNoChange(() => store.ackTurn(begun, [], fullTurn, { timers: [1, 2] }));
        const [item] = await store.claim({ max: 1 });
        assert.equal(item?.instanceId, 'a');
        expectLockLost(await take(claimed));
        await store.commit(item, { events: [event('of the claim')], outcome: completed });
        expectLockLost(await take(claimed));
        await store.cancel('b');
        expectLockLost(await take(canceled));
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of the claim']);
      },
    },
    {
      id: 'timer-turn/counts-once',
      title: 'the same timer turn sent twice is committed once',
      async run(store) {
        const begun = await beginWaiting(store, 'a');
        await store.clock.advance(100);
        const { instanceKey, incarnation, turnId: lastTurn } = begun;
        const fences = { instanceKey, incarnation, executionId: 1, lastTurn };
        const turn = newTurn({ firstEventId: 2, events: [event('once')] });
        const ack = { ...fences, lockTokens: [], timers: [1, 2], turn };
        const [first, second] = await store.provider.ackTurns([ack, ack]);
        expectCommitted(first ?? assert.fail());
        expectLockLost(second ?? assert.fail());
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'once']);
        await store.expectIdle();
      },
    },
    {
      id: 'timer-turn/a-late-one-spares-its-neighbours',
      title: 'a rejected timer turn does not affect the others of its batch',
      async run(store) {
        const begun = [];
        for (const id of ['a', 'b', 'c']) begun.push(await beginWaiting(store, id));
        await store.clock.advance(100);
        await store.raise('b', 'unseen');
        const acks = begun.map(({ instanceId, instanceKey, incarnation, turnId: lastTurn }) => ({
          instanceKey,
          incarnation,
          executionId: 1,
          lastTurn,
          lockTokens: [],
          timers: [1, 2],
          turn: newTurn({ firstEventId: 2, events: [event(`of ${instanceId}`)] }),
        }));
        const results = await store.provider.ackTurns(acks);
        const ok = results.map((result) => result.ok);
        assert.deepEqual(ok, [true, false, true]);
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'of a']);
        assert.deepEqual(await store.historyLabels('c'), ['begun', 'of c']);
        assert.equal((await store.claimOne()).instanceId, 'b');
      },
    },
  ],
};
