import assert from 'node:assert/strict';
import { encodeMessage } from '../../../../model/message.ts';
import type { NewChild } from '../../../../providers/contract/turn.ts';
import type { Capability } from '../../conformance-case.ts';
import { expectInAnyOrder } from '../../expectations.ts';
import { openSession, orchestrationJob } from '../../job-helpers.ts';
import { awaitedDetached, child, event, raised } from '../../sample-data.ts';
import { labels, type StoreUnderTest } from '../../store-under-test.ts';

const completed = { outcome: { status: 'completed', payload: '"done"' } } as const;

/** A detached start whose event is rejected with a message of its own. */
function signaling(instanceId: string, operation: number, parts: Partial<NewChild> = {}): NewChild {
  const target = { executionId: 1, operation };
  const rejected = (message: string) =>
    encodeMessage({ kind: 'detachedFailed', ...target, failure: { name: 'Rejected', message } });
  return awaitedDetached(instanceId, operation, {
    event: { message: raised('hello') },
    ifRejected: { over: rejected('over'), full: rejected('full') },
    ...parts,
  });
}

/** Claims everything, and returns the labels by instance. */
async function claimAll(store: StoreUnderTest): Promise<readonly (readonly string[])[]> {
  return (await store.claim()).map((item) => [item.instanceId, ...labels(item)]);
}

export const turnStarts: Capability = {
  title: 'starts of turns that find an instance',
  cases: [
    {
      id: 'turn-start/brings-an-event',
      title: 'a detached start and a child get their events after their start messages',
      async run(store) {
        const own = { event: { message: raised('hello'), key: 'k' } };
        await store.begin('a', { children: [signaling('detached', 1), child('child', 2, own)] });
        expectInAnyOrder(await claimAll(store), [
          ['a', 'detachedConfirmed 1'],
          ['detached', 'start', 'hello'],
          ['child', 'start', 'hello'],
        ]);
        const again = { instanceId: 'child', ...own.event };
        assert.deepEqual(await store.provider.enqueueMessages([again]), ['repeated']);
      },
    },
    {
      id: 'turn-start/raises-at-a-live-instance',
      title: 'a detached start raises its event at a live instance, whatever its input',
      async run(store) {
        await store.begin('live');
        await store.begin('over', completed);
        const event = { message: raised('more'), maxPending: 1 };
        await store.begin('a', {
          children: [
            signaling('live', 1, { inputHash: 'another' }),
            signaling('over', 2),
            signaling('live', 3, { event }),
            signaling('live', 4, { name: 'another' }),
          ],
        });
        expectInAnyOrder(await claimAll(store), [
          ['a', 'detachedConfirmed 1', 'detachedFailed 2', 'detachedFailed 3', 'detachedFailed 4'],
          ['live', 'hello'],
        ]);
      },
    },
    {
      id: 'turn-start/uses-or-replaces',
      title: 'a detached start with onConflict uses the instance, or starts its next execution',
      async run(store) {
        await store.begin('used');
        await store.begin('over', completed);
        await store.begin('replaced', { children: [child('descendant', 1)] });
        await store.claimOne();
        await store.begin('a', {
          children: [
            awaitedDetached('used', 1, { inputHash: 'x', onConflict: 'useExisting' }),
            awaitedDetached('replaced', 2, { onConflict: 'terminateExisting' }),
            awaitedDetached('over', 3, { onConflict: 'terminateExisting' }),
            awaitedDetached('new', 4, { onConflict: 'terminateExisting' }),
          ],
        });
        expectInAnyOrder(await claimAll(store), [
          ['a', ...[1, 2, 3, 4].map((operation) => `detachedConfirmed ${operation}`)],
          ['replaced', 'start'],
          ['over', 'start'],
          ['new', 'start'],
        ]);
        assert.equal((await store.record('descendant')).status, 'terminated');
        const [first] = await store.executions('replaced');
        assert.equal(first?.status, 'terminated');
        assert.equal((await store.record('used')).executionId, 1);
      },
    },
    {
      id: 'turn-start/others-stay',
      title: 'a detached start replaces no other name, no child and no job',
      async run(store) {
        await openSession(store);
        await store.begin('parent', { children: [child('child', 1)] });
        await store.provider.submitJobs([orchestrationJob('job')]);
        await store.claim();
        const onConflict = 'terminateExisting';
        await store.begin('a', {
          children: [
            awaitedDetached('parent', 1, { name: 'another', onConflict }),
            awaitedDetached('child', 2, { onConflict }),
            awaitedDetached('job', 3, { onConflict }),
          ],
        });
        assert.deepEqual(labels(await store.claimOne()), [
          'detachedFailed 1',
          'detachedFailed 2',
          'detachedFailed 3',
        ]);
        for (const id of ['parent', 'child', 'job']) {
          assert.equal((await store.record(id)).executionId, 1);
        }
      },
    },
    {
      id: 'turn-start/may-replace-its-own-instance',
      title: 'a turn may replace its own instance, and the parent that waits for it',
      async run(store) {
        const onConflict = 'terminateExisting';
        await store.begin('own', { children: [awaitedDetached('own', 1, { onConflict })] });
        assert.deepEqual(await claimAll(store), [['own', 'start']]);
        await store.begin('parent', { children: [child('child', 1)] });
        const item = await store.claimOne();
        assert.equal(item.instanceId, 'child');
        await store.commit(item, { children: [awaitedDetached('parent', 1, { onConflict })] });
        assert.deepEqual(await claimAll(store), [['parent', 'start']]);
        assert.equal((await store.record('child')).status, 'terminated');
        for (const id of ['own', 'parent']) {
          assert.equal((await store.record(id)).executionId, 2);
        }
      },
    },
    {
      id: 'turn-start/outlives-the-turn',
      title: 'a turn that ends its instance starts detached ones with onConflict, without a reply',
      async run(store) {
        await store.begin('live');
        const own = { onConflict: 'terminateExisting' } as const;
        await store.begin('a', { ...completed, children: [awaitedDetached('live', 1, own)] });
        assert.deepEqual(await claimAll(store), [['live', 'start']]);
      },
    },
    {
      id: 'turn-start/a-child-replaces-an-own-one',
      title: 'a child with `terminateExisting` replaces an earlier child of its execution',
      async run(store) {
        await store.begin('other', { children: [child('foreign', 1)] });
        await store.claimOne();
        await store.begin('a', { children: [child('kid', 1), child('kid', 2)] });
        const items = await store.claim();
        const parent = items.find(({ instanceId }) => instanceId === 'a') ?? assert.fail();
        assert.deepEqual(labels(parent), ['childFailed 2']);
        const onConflict = 'terminateExisting';
        await store.commit(parent, {
          events: [event('next')],
          children: [
            child('kid', 3, { onConflict, inputHash: 'another' }),
            child('foreign', 4, { onConflict }),
            child('kid', 5, { onConflict, name: 'another' }),
          ],
        });
        const claimed = new Map((await store.claim()).map((one) => [one.instanceId, one]));
        assert.deepEqual([...claimed.keys()].toSorted(), ['a', 'kid']);
        expectInAnyOrder(labels(claimed.get('a') ?? assert.fail()), [
          'childFailed 1',
          'childFailed 4',
          'childFailed 5',
        ]);
        assert.equal((await store.record('foreign')).executionId, 1);
        const { executionId, parentInstanceId } = await store.record('kid');
        assert.deepEqual([executionId, parentInstanceId], [2, 'a']);
        // It replies to the operation that replaced it.
        await store.terminate('kid');
        await store.clock.advance(60_000);
        const [after] = (await store.claim()).filter(({ instanceId }) => instanceId === 'a');
        assert.ok(labels(after ?? assert.fail()).includes('childFailed 3'));
      },
    },
  ],
};
