import assert from 'node:assert/strict';
import { placeBystander } from '../../bystander.ts';
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
      title: 'everything that a turn decided is there once its ack is committed',
      async run(store) {
        const untouched = await placeBystander(store);
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
        await untouched();
      },
    },
    {
      id: 'atomic/a-refused-ack-leaves-nothing',
      title: 'a turn with one impossible part leaves no other part behind',
      async run(store) {
        const untouched = await placeBystander(store);
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
        await untouched();
      },
    },
    {
      id: 'atomic/a-refused-ack-keeps-the-claim',
      title: 'after a refusal the claim is held and its messages wait, so a good turn can follow',
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
      title: 'an event id that the execution has already is never written again',
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
      title: 'events that would leave a gap behind the history are refused',
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
      title: 'an operation that has a work item in this execution cannot get a second one',
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
      title: 'names and versions that were first seen in a refused turn work when they come again',
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
      title: 'of two acks made at once with one token exactly one is committed',
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
      title: 'a token named twice in one batch commits its first turn only',
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
      title: 'a settled item is gone and its outcome is queued, both or neither',
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
