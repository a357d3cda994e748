import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { child, detached, event, newTurn, raised, workItem } from '../../sample-data.ts';
import {
  expectCommitted,
  expectInAnyOrder,
  expectLockLost,
  expectRefused,
} from '../../expectations.ts';
import { labels } from '../../store-under-test.ts';

export const atomicity: Capability = {
  title: 'atomicity',
  cases: [
    {
      id: 'atomic/an-ack-commits-all-its-parts',
      title: 'a committed ack stores every part of its turn',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('reader');
        await store.create('a');
        const fireAt = store.clock.now() + 100;
        await store.commit(await store.claimOne(), {
          version: '4',
          events: [event('one'), event('two')],
          workItems: [workItem(1)],
          timers: [{ operation: 2, fireAt }],
          children: [child('kid', 3), detached('free')],
          messages: [{ instanceId: 'reader', message: raised('hello') }],
          customStatus: '"busy"',
        });
        const { status, version, customStatus } = await store.record('a');
        assert.deepEqual(
          { status, version, customStatus },
          { status: 'running', version: '4', customStatus: '"busy"' },
        );
        assert.deepEqual(await store.historyLabels('a'), ['one', 'two']);
        assert.equal((await store.claimWorkOne()).operation, 1);
        const claimed = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(claimed, [
          ['free', 'start'],
          ['kid', 'start'],
          ['reader', 'hello'],
        ]);
        await store.clock.advance(100);
        assert.deepEqual(labels(await store.claimOne()), ['timerFired 2']);
        await expectUnchanged();
      },
    },
    {
      id: 'atomic/a-refused-ack-leaves-nothing',
      title: 'an ack with one invalid part stores no part of its turn',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('reader');
        await store.begin('a', { customStatus: '"before"' });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const result = await store.expectNoChange(() =>
          store.ack(item, {
            version: '9',
            firstEventId: 1,
            events: [event('clashes')],
            workItems: [workItem(1)],
            timers: [{ operation: 2, fireAt: store.clock.now() }],
            children: [child('kid', 3)],
            messages: [{ instanceId: 'reader', message: raised('never') }],
            customStatus: '"after"',
            outcome: { status: 'completed', payload: '1' },
          }),
        );
        expectRefused(result);
        await store.expectIdle();
        await expectUnchanged();
      },
    },
    {
      id: 'atomic/a-refused-ack-keeps-the-claim',
      title: 'a rejected ack keeps its claim and messages, so that a valid turn can follow',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        expectRefused(await store.ack(item, { firstEventId: 1, events: [event('clashes')] }));
        await store.expectIdle();
        await store.commit(item, { events: [event('good')] });
        assert.deepEqual(await store.historyLabels('a'), ['begun', 'good']);
        await store.expectIdle();
      },
    },
    {
      id: 'atomic/event-ids-that-exist-are-refused',
      title: 'an ack with event ids that already exist is rejected',
      async run(store) {
        await store.begin('a', { events: [event('one'), event('two')] });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        for (const firstEventId of [1, 2]) {
          const events = [event('clashes'), event('clashes too')];
          expectRefused(await store.ack(item, { firstEventId, events }));
        }
        assert.deepEqual(await store.historyLabels('a'), ['one', 'two']);
      },
    },
    {
      id: 'atomic/gaps-in-event-ids-are-refused',
      title: 'an ack with a gap in the event ids is rejected',
      async run(store) {
        await store.begin('a', { events: [event('one')] });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const result = await store.expectNoChange(() =>
          store.ack(item, { firstEventId: 3, events: [event('too far')] }),
        );
        expectRefused(result);
      },
    },
    {
      id: 'atomic/an-operation-has-one-work-item',
      title: 'an ack that schedules a second work item for an operation is rejected',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        await store.raise('a', 'go');
        const item = await store.claimOne();
        for (const workItems of [[workItem(1)], [workItem(2), workItem(2)]]) {
          const result = await store.expectNoChange(() =>
            store.ack(item, { events: [event('never')], workItems }),
          );
          expectRefused(result);
        }
        assert.equal((await store.claimWorkOne()).operation, 1);
      },
    },
    {
      id: 'atomic/a-refused-name-can-be-used-later',
      title: 'names and versions first used in a rejected turn can be committed later',
      async run(store) {
        await store.begin('a');
        await store.raise('a', 'go');
        const item = await store.claimOne();
        const fresh = { version: 'fresh', events: [event('x')] };
        const named = workItem(1, { name: 'fresh' });
        expectRefused(await store.ack(item, { ...fresh, workItems: [named, named] }));
        await store.commit(item, {
          ...fresh,
          workItems: [named],
          children: [child('kid', 2, { name: 'fresh' })],
        });
        assert.equal((await store.claimWorkOne({ names: ['fresh'] })).name, 'fresh');
        const kid = await store.claimOne({ runnable: [{ name: 'fresh', version: null }] });
        assert.deepEqual([kid.instanceId, kid.name], ['kid', 'fresh']);
        assert.equal((await store.record('a')).version, 'fresh');
      },
    },
    {
      id: 'atomic/one-of-two-acks-wins',
      title: 'exactly one of two concurrent acks with the same token is committed',
      async run(store) {
        await store.create('a');
        const item = await store.claimOne();
        const results = await Promise.all([
          store.ack(item, { events: [event('first')] }),
          store.ack(item, { events: [event('second')] }),
        ]);
        const [winner, loser] = results.toSorted((a, b) => Number(b.ok) - Number(a.ok));
        assert.ok(winner?.ok);
        assert.ok(loser);
        expectLockLost(loser);
        const won = results[0]?.ok ? 'first' : 'second';
        assert.deepEqual(await store.historyLabels('a'), [won]);
      },
    },
    {
      id: 'atomic/one-token-commits-once-in-a-batch',
      title: 'a token that occurs twice in a batch commits only its first turn',
      async run(store) {
        await store.create('a');
        const { lockToken, messages } = await store.claimOne();
        const messageKeys = messages.map(({ messageKey }) => messageKey);
        const [first, second] = await store.provider.ackOrchestrationItems([
          { lockToken, messageKeys, turn: newTurn({ events: [event('first')] }) },
          { lockToken, messageKeys, turn: newTurn({ events: [event('second')], firstEventId: 2 }) },
        ]);
        assert.ok(first && second);
        expectCommitted(first);
        expectLockLost(second);
        assert.deepEqual(await store.historyLabels('a'), ['first']);
      },
    },
    {
      id: 'atomic/an-outcome-replaces-its-item',
      title: 'acking a work item deletes it and enqueues its outcome',
      async run(store) {
        await store.begin('a', { workItems: [workItem(1)] });
        const { lockToken } = await store.claimWorkOne();
        assert.deepEqual(await store.claim(), []);
        expectCommitted(await store.ackWork(lockToken));
        await store.clock.advance('1d');
        assert.deepEqual(await store.claimWork(), []);
        assert.deepEqual(labels(await store.claimOne()), ['activityCompleted 1']);
      },
    },
  ],
};
