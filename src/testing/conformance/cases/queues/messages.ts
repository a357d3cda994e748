import assert from 'node:assert/strict';
import { createUnrelatedInstance } from '../../unrelated-instance.ts';
import type { Capability } from '../../conformance-case.ts';
import { child, event, raised } from '../../sample-data.ts';
import { only } from '../../expectations.ts';
import { labels } from '../../store-under-test.ts';

export const messages: Capability = {
  title: 'messages',
  cases: [
    {
      id: 'message/comes-as-it-was-enqueued',
      title: 'a claimed message has every field as enqueued',
      async run(store) {
        await store.begin('a');
        const sent = [
          {
            kind: 'eventRaised',
            executionId: null,
            operation: null,
            data: '{"name":"n"}',
            payload: null,
          },
          {
            kind: 'childCompleted',
            executionId: 3,
            operation: 12,
            data: '{}',
            payload: '[1,"two"]',
          },
        ];
        await store.provider.enqueueMessages(sent.map((message) => ({ instanceId: 'a', message })));
        const received = (await store.claimOne()).messages;
        assert.deepEqual(
          received.map(({ messageKey: _key, ...message }) => message),
          sent,
        );
      },
    },
    {
      id: 'message/to-a-missing-instance-is-not-kept',
      title: 'enqueueMessages() to an unknown id returns missing and stores nothing',
      async run(store) {
        const toNobody = [{ instanceId: 'later', message: raised('x') }];
        assert.deepEqual(await store.provider.enqueueMessages(toNobody), ['missing']);
        await store.expectIdle();
        await store.create('later');
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'message/to-an-instance-that-is-over-is-refused',
      title: 'enqueueMessages() to an ended instance returns over and changes nothing',
      async run(store) {
        await store.begin('a', { outcome: { status: 'failed', failure: '{}' } });
        const late = [{ instanceId: 'a', message: raised('late') }];
        const results = await store.expectNoChange(() => store.provider.enqueueMessages(late));
        assert.deepEqual(results, ['over']);
        await store.expectIdle();
      },
    },
    {
      id: 'message/wakes-no-other-instance',
      title: 'a message makes only its own instance claimable',
      async run(store) {
        const expectUnchanged = await createUnrelatedInstance(store);
        await store.begin('a');
        await store.begin('b');
        await store.raise('a', 'x');
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, ...labels(item)], ['a', 'x']);
        await expectUnchanged();
      },
    },
    {
      id: 'message/beyond-the-limit-is-full',
      title: 'enqueueMessages() returns full while maxPending messages of that kind are unread',
      async run(store) {
        await store.begin('a');
        const send = async (text: string) => {
          const batch = [{ instanceId: 'a', message: raised(text), maxPending: 2 }];
          return only(await store.provider.enqueueMessages(batch), 'result');
        };
        assert.deepEqual(
          [await send('1'), await send('2'), await send('3')],
          ['enqueued', 'enqueued', 'full'],
        );
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['1', '2']);
        assert.equal(await send('4'), 'full');
        await store.commit(item);
        assert.equal(await send('5'), 'enqueued');
        assert.deepEqual(labels(await store.claimOne()), ['5']);
      },
    },
    {
      id: 'message/the-limit-counts-one-kind-of-one-instance',
      title: 'maxPending counts only messages of one kind and one instance',
      async run(store) {
        await store.create('a');
        await store.create('b');
        await store.raise('b', 'x', 'y');
        const wake = {
          kind: 'wake',
          executionId: null,
          operation: null,
          data: '{}',
          payload: null,
        };
        const results = await store.provider.enqueueMessages([
          { instanceId: 'a', message: wake },
          { instanceId: 'a', message: raised('fits'), maxPending: 1 },
          { instanceId: 'a', message: wake, maxPending: 2 },
          { instanceId: 'a', message: raised('does not'), maxPending: 1 },
        ]);
        assert.deepEqual(results, ['enqueued', 'enqueued', 'enqueued', 'full']);
      },
    },
    {
      id: 'message/of-a-turn-is-delivered-in-order',
      title: 'messages sent by a turn are delivered in order',
      async run(store) {
        await store.begin('reader');
        await store.begin('a', {
          messages: ['1', '2', '3'].map((text) => ({
            instanceId: 'reader',
            message: raised(text),
          })),
        });
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'reader');
        assert.deepEqual(labels(item), ['1', '2', '3']);
      },
    },
    {
      id: 'message/of-a-turn-to-itself-brings-the-next-turn',
      title: 'a message that a turn sends to its own instance is claimed next',
      async run(store) {
        await store.begin('a', { messages: [{ instanceId: 'a', message: raised('again') }] });
        const item = await store.claimOne();
        assert.deepEqual(labels(item), ['again']);
        await store.commit(item, { events: [event('again')] });
        await store.expectIdle();
      },
    },
    {
      id: 'message/of-a-turn-to-a-missing-instance-is-dropped',
      title: 'turn messages to unknown or ended instances are dropped, and the turn is committed',
      async run(store) {
        await store.begin('over', { outcome: { status: 'completed', payload: null } });
        const over = await store.snapshotOf(await store.record('over'));
        await store.begin('a', {
          messages: [
            { instanceId: 'later', message: raised('x') },
            { instanceId: 'over', message: raised('x') },
          ],
        });
        assert.deepEqual(await store.historyLabels('a'), ['begun']);
        assert.deepEqual(await store.snapshotOf(await store.record('over')), over);
        await store.expectIdle();
        await store.create('later');
        assert.deepEqual(labels(await store.claimOne()), ['start']);
      },
    },
    {
      id: 'message/to-a-new-child-follows-its-start',
      title: 'a message to a child started in the same turn follows its start message',
      async run(store) {
        await store.begin('a', {
          children: [child('kid', 1)],
          messages: [{ instanceId: 'kid', message: raised('hello') }],
        });
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, ...labels(item)], ['kid', 'start', 'hello']);
      },
    },
    {
      id: 'message/to-a-missing-instance-blocks-no-other',
      title: 'messages to unknown ids do not block later claims',
      async run(store) {
        const toNobody = Array.from({ length: 50 }, (_, index) => ({
          instanceId: `nobody ${index}`,
          message: raised('x'),
        }));
        await store.provider.enqueueMessages(toNobody);
        await store.create('a');
        assert.equal((await store.claimOne({ max: 1 })).instanceId, 'a');
      },
    },
  ],
};
