import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { awaitedDetached, child, detached, event, newTurn } from '../../sample-data.ts';
import { expectCommitted, expectInAnyOrder } from '../../expectations.ts';
import { labels } from '../../store-under-test.ts';
import { createTask } from '../../task-helpers.ts';

export const children: Capability = {
  title: 'children and detached instances',
  cases: [
    {
      id: 'child/is-created-with-its-start',
      title: 'a turn creates a child instance with its start message and parent reference',
      async run(store) {
        const kid = child('kid', 3, { name: 'shipping', version: '2' });
        await store.begin('a', { children: [kid] });
        const item = await store.claimOne();
        const { messageKey: _key, ...start } = item.messages[0] ?? assert.fail();
        assert.deepEqual(start, kid.start);
        const { instanceId, incarnation, name, version, parent, executionId } = item;
        assert.deepEqual(
          { instanceId, incarnation, name, version, parent, executionId },
          {
            instanceId: 'kid',
            incarnation: kid.incarnation,
            name: 'shipping',
            version: '2',
            parent: { instanceId: 'a', executionId: 1, operation: 3 },
            executionId: 1,
          },
        );
        const record = await store.record('kid');
        assert.deepEqual(
          [record.status, record.parentInstanceId, record.createdAt],
          ['pending', 'a', store.clock.now()],
        );
      },
    },
    {
      id: 'child/of-a-later-execution-knows-that-execution',
      title: 'a child started by a later execution references that execution as its parent',
      async run(store) {
        const start = child('x', 1).start;
        await store.begin('a', { outcome: { status: 'continuedAsNew', version: '1', start } });
        await store.commit(await store.claimOne(), { children: [child('kid', 1)] });
        const { parent } = await store.claimOne();
        assert.deepEqual(parent, { instanceId: 'a', executionId: 2, operation: 1 });
      },
    },
    {
      id: 'child/a-detached-one-has-no-parent',
      title: 'a detached instance is created with its start message and without a parent',
      async run(store) {
        await store.begin('a', { children: [detached('free')] });
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, ...labels(item)], ['free', 'start']);
        assert.equal(item.parent, null);
        assert.equal((await store.record('free')).parentInstanceId, null);
      },
    },
    {
      id: 'child/a-taken-id-is-told-to-the-parent',
      title: 'a taken child id enqueues ifTaken for the parent and leaves its owner unchanged',
      async run(store) {
        await store.begin('taken', { customStatus: '"mine"' });
        const owner = await store.snapshotOf(await store.record('taken'));
        const kid = child('taken', 5);
        await store.begin('a', { children: [kid, child('kid', 6)] });
        assert.deepEqual(await store.snapshotOf(await store.record('taken')), owner);
        const items = (await store.claim()).toSorted((x, y) =>
          x.instanceId < y.instanceId ? -1 : 1,
        );
        assert.deepEqual(
          items.map((item) => [item.instanceId, ...labels(item)]),
          [
            ['a', 'childFailed 5'],
            ['kid', 'start'],
          ],
        );
        const { messageKey: _key, ...received } = items[0]?.messages[0] ?? assert.fail();
        assert.deepEqual(received, kid.ifTaken);
      },
    },
    {
      id: 'child/the-id-of-a-finished-instance-is-taken',
      title: 'a child id that belongs to an ended instance is taken',
      async run(store) {
        await store.begin('taken', { outcome: { status: 'completed', payload: '1' } });
        const owner = await store.snapshotOf(await store.record('taken'));
        await store.begin('a', { children: [child('taken', 1)] });
        assert.deepEqual(labels(await store.claimOne()), ['childFailed 1']);
        assert.deepEqual(await store.snapshotOf(await store.record('taken')), owner);
      },
    },
    {
      id: 'child/its-own-parent-has-taken-its-id',
      title: 'a child with the id of its own parent is taken',
      async run(store) {
        await store.begin('a', { children: [child('a', 1)] });
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, ...labels(item)], ['a', 'childFailed 1']);
        assert.equal((await store.record('a')).parentInstanceId, null);
      },
    },
    {
      id: 'child/the-second-of-one-id-is-taken',
      title: 'of two children with one id in a turn, the second is taken',
      async run(store) {
        const [first, second] = [child('kid', 1), child('kid', 2)];
        await store.begin('a', { children: [first, second] });
        assert.equal((await store.record('kid')).incarnation, first.incarnation);
        const items = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(items, [
          ['a', 'childFailed 2'],
          ['kid', 'start'],
        ]);
      },
    },
    {
      id: 'child/two-parents-cannot-share-one',
      title: 'of two parents that start one child id in a batch, one receives childFailed',
      async run(store) {
        await store.create('a');
        await store.create('b');
        const acks = (await store.claim()).map(({ lockToken, messages }) => ({
          lockToken,
          messageKeys: messages.map(({ messageKey }) => messageKey),
          turn: newTurn({ events: [event('one')], children: [child('kid', 1)] }),
        }));
        for (const result of await store.provider.ackOrchestrationItems(acks))
          expectCommitted(result);
        const { parentInstanceId } = await store.record('kid');
        assert.ok(parentInstanceId === 'a' || parentInstanceId === 'b');
        const loser = parentInstanceId === 'a' ? 'b' : 'a';
        const items = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(items, [
          [loser, 'childFailed 1'],
          ['kid', 'start'],
        ]);
      },
    },
    {
      id: 'child/a-detached-start-is-confirmed',
      title: 'a detached start with ifStarted sends it to the starting instance',
      async run(store) {
        const free = awaitedDetached('free', 4);
        await store.begin('a', { children: [free] });
        const items = await store.claim();
        expectInAnyOrder(
          items.map((item) => [item.instanceId, ...labels(item)]),
          [
            ['a', 'detachedConfirmed 4'],
            ['free', 'start'],
          ],
        );
        const starter = items.find(({ instanceId }) => instanceId === 'a');
        const { messageKey: _key, ...received } = starter?.messages[0] ?? assert.fail();
        assert.deepEqual(received, free.ifStarted);
      },
    },
    {
      id: 'child/a-repeated-detached-start-is-confirmed',
      title: 'a detached id taken by the same name and input hash is confirmed',
      async run(store) {
        await store.begin('running');
        await store.begin('ended', { outcome: { status: 'completed', payload: '1' } });
        const owners = [await store.record('running'), await store.record('ended')];
        const before = await Promise.all(owners.map((owner) => store.snapshotOf(owner)));
        await store.begin('a', {
          children: [awaitedDetached('running', 1), awaitedDetached('ended', 2)],
        });
        const item = await store.claimOne();
        assert.deepEqual(
          [item.instanceId, ...labels(item)],
          ['a', 'detachedConfirmed 1', 'detachedConfirmed 2'],
        );
        const after = await Promise.all(owners.map((owner) => store.snapshotOf(owner)));
        assert.deepEqual(after, before);
      },
    },
    {
      id: 'child/a-detached-id-of-another-start-is-taken',
      title: 'a detached id taken by another name, input hash or kind sends ifTaken',
      async run(store) {
        await store.begin('taken');
        const owner = await store.snapshotOf(await store.record('taken'));
        await createTask(store, 'task', { name: 'sample' });
        const otherInput = awaitedDetached('taken', 1, { inputHash: 'other' });
        await store.begin('a', {
          children: [
            otherInput,
            awaitedDetached('taken', 2, { name: 'other' }),
            awaitedDetached('task', 3),
            awaitedDetached('a', 4, { inputHash: 'other' }),
          ],
        });
        const item = await store.claimOne();
        assert.deepEqual(
          [item.instanceId, ...labels(item)],
          ['a', 'detachedFailed 1', 'detachedFailed 2', 'detachedFailed 3', 'detachedFailed 4'],
        );
        const { messageKey: _key, ...received } = item.messages[0] ?? assert.fail();
        assert.deepEqual(received, otherInput.ifTaken);
        assert.deepEqual(await store.snapshotOf(await store.record('taken')), owner);
      },
    },
    {
      id: 'child/the-second-detached-start-of-one-id',
      title: 'repeated detached starts of one id in a turn are compared with the first',
      async run(store) {
        const [first, second, third] = [
          awaitedDetached('free', 1),
          awaitedDetached('free', 2),
          awaitedDetached('free', 3, { inputHash: 'other' }),
        ];
        await store.begin('a', { children: [first, second, third] });
        assert.equal((await store.record('free')).incarnation, first.incarnation);
        const items = (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
        expectInAnyOrder(items, [
          ['a', 'detachedConfirmed 1', 'detachedConfirmed 2', 'detachedFailed 3'],
          ['free', 'start'],
        ]);
      },
    },
    {
      id: 'child/a-taken-detached-id-is-silent',
      title: 'a taken detached id without ifTaken enqueues nothing, and its turn is committed',
      async run(store) {
        await store.begin('taken');
        const owner = await store.snapshotOf(await store.record('taken'));
        await store.begin('a', { children: [detached('taken')] });
        assert.deepEqual(await store.historyLabels('a'), ['begun']);
        assert.deepEqual(await store.snapshotOf(await store.record('taken')), owner);
        await store.expectIdle();
      },
    },
    {
      id: 'child/outlives-the-turn-that-ends-its-parent',
      title: 'a detached instance started in the last turn of its starter is created',
      async run(store) {
        const outcome = { status: 'completed', payload: null } as const;
        await store.begin('a', { children: [detached('free')], outcome });
        assert.equal((await store.record('a')).status, 'completed');
        const item = await store.claimOne();
        assert.deepEqual([item.instanceId, ...labels(item)], ['free', 'start']);
      },
    },
  ],
};
