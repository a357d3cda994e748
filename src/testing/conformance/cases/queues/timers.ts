import assert from 'node:assert/strict';
import { decodeMessage } from '../../../../model/message.ts';
import type { Capability } from '../../conformance-case.ts';
import { event, workItem } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder, only } from '../../expectations.ts';
import { labels, lockMs } from '../../store-under-test.ts';

export const timers: Capability = {
  title: 'timers',
  cases: [
    {
      id: 'timer/a-delay-counts-from-the-commit',
      title: 'a timer with delayMs fires that long after the commit, whatever its fireAt',
      async run(store) {
        const now = store.clock.now();
        const hour = 3_600_000;
        await store.begin('a', { timers: [{ operation: 1, fireAt: now - hour, delayMs: 30 }] });
        await store.begin('b', { timers: [{ operation: 2, fireAt: now + hour, delayMs: 30 }] });
        await store.clock.advance(29);
        await store.expectIdle();
        await store.clock.advance(1);
        const items = await store.claim();
        assert.deepEqual(items.flatMap(labels).toSorted(), ['timerFired 1', 'timerFired 2']);
      },
    },
    {
      id: 'timer/is-hidden-until-due',
      title: 'a timer becomes visible exactly at its fire time',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 4, fireAt: store.clock.now() + 1_000 }] });
        await store.clock.advance(999);
        await store.expectIdle();
        await store.clock.advance(1);
        const { messages } = await store.claimOne();
        const message = decodeMessage(only(messages, 'message'));
        assert.equal(message.kind, 'timerFired');
        const { executionId, operation } = message;
        assert.deepEqual({ executionId, operation }, { executionId: 1, operation: 4 });
      },
    },
    {
      id: 'timer/in-the-past-fires-at-once',
      title: 'a timer with a past fire time fires immediately',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() - 5_000 }] });
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 1']);
      },
    },
    {
      id: 'timer/does-not-come-with-earlier-messages',
      title: 'a claim for another message does not include a timer that is not due',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 1_000 }] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['x']);
        await store.commit(item, { events: [event('x')] });
        await store.expectIdle();
        await store.clock.advance(1_000);
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 1']);
      },
    },
    {
      id: 'timer/becoming-due-during-a-claim-waits-for-the-next',
      title: 'a timer that becomes due during a claim is in the next claim',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 10 }] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await store.clock.advance(10);
        await store.expectIdle();
        await store.commit(item);
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 1']);
      },
    },
    {
      id: 'timer/that-is-withdrawn-never-fires',
      title: 'a withdrawn timer never fires, and other timers do',
      async run(store) {
        const fireAt = store.clock.now() + 1_000;
        const both = [1, 2].map((operation) => ({ operation, fireAt }));
        await store.begin('a', { timers: both });
        await store.begin('b', { timers: both });
        await store.raise('a', 'x');
        await store.commit(await store.claimOne(), { timerWithdrawals: [1] });
        await store.clock.advance(2_000);
        const due = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(due, [
          ['a', 'timerFired 2'],
          ['b', 'timerFired 1', 'timerFired 2'],
        ]);
      },
    },
    {
      id: 'timer/that-is-due-can-still-be-withdrawn',
      title: 'a turn can withdraw a timer that became due during that turn',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 10 }] });
        await store.raise('a', 'x');
        const item = await store.claimOne();
        await store.clock.advance(10);
        await store.commit(item, { timerWithdrawals: [1] });
        await store.expectIdle();
      },
    },
    {
      id: 'timer/withdrawn-in-its-own-turn-never-fires',
      title: 'a timer created and withdrawn in one turn never fires',
      async run(store) {
        const fireAt = store.clock.now() + 10;
        const created = [1, 2].map((operation) => ({ operation, fireAt }));
        await store.begin('a', { timers: created, timerWithdrawals: [1] });
        await store.clock.advance(10);
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 2']);
      },
    },
    {
      id: 'timer/a-withdrawal-spares-other-messages',
      title: 'a timer withdrawal does not delete a completion of the same operation',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        expectCommitted(await store.ackWork((await store.claimWorkOne()).lockToken));
        const item = await store.claimOne();
        await store.raise('a', 'x');
        await store.commit(item, { timerWithdrawals: [1, 99] }, []);
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1', 'x']);
      },
    },
    {
      id: 'timer/fires-again-until-acked',
      title: 'a timer whose claim expired fires again until it is acked',
      async run(store) {
        await store.begin('a', { timers: [{ operation: 1, fireAt: store.clock.now() + 10 }] });
        await store.clock.advance(10);
        await store.claimOne();
        await store.clock.advance(lockMs);
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['timerFired 1']);
        await store.commit(item);
        await store.clock.advance('30d');
        await store.expectIdle();
      },
    },
  ],
};
