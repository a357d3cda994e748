import assert from 'node:assert/strict';
import type { Capability } from '../../conformance-case.ts';
import { child, newInstance, startMessage } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { createTasks, newTask } from '../../task-helpers.ts';
import { list } from './lists.ts';

async function tagsOf({ provider }: StoreUnderTest, instanceId: string): Promise<object> {
  const [record] = await provider.getInstances([instanceId]);
  assert.ok(record !== undefined);
  return record.tags;
}

export const tags: Capability = {
  title: 'tags',
  cases: [
    {
      id: 'tags/come-with-the-start',
      title: 'the tags of a start are stored, also with a first turn',
      async run(store) {
        await store.create('a', { tags: { x: '\u00e9 "q"', __proto__x: '1' } });
        assert.deepEqual(await tagsOf(store, 'a'), { x: '\u00e9 "q"', __proto__x: '1' });
        await store.create('b');
        assert.deepEqual(await tagsOf(store, 'b'), {});
      },
    },
    {
      id: 'tags/of-tasks-and-children',
      title: 'task runs and children have the tags of their start',
      async run(store) {
        await createTasks(store, [newTask('t', { tags: { k: 't' } }), newTask('u')]);
        await store.begin('a', { children: [{ ...child('a1', 1), tags: { k: 'c' } }] });
        assert.deepEqual(await tagsOf(store, 't'), { k: 't' });
        assert.deepEqual(await tagsOf(store, 'u'), {});
        assert.deepEqual(await tagsOf(store, 'a1'), { k: 'c' });
        assert.deepEqual(await list(store, { tags: { k: 'c' } }), ['a1']);
      },
    },
    {
      id: 'tags/a-turn-merges-them',
      title: 'a turn adds, changes and removes tags',
      async run(store) {
        await store.begin('a', { tags: { b: '2', c: null, d: '4' } }, { tags: { b: '1', c: '3' } });
        assert.deepEqual(await tagsOf(store, 'a'), { b: '2', d: '4' });
        assert.deepEqual(await list(store, { tags: { b: '1' } }), []);
        assert.deepEqual(await list(store, { tags: { c: '3' } }), []);
        assert.deepEqual(await list(store, { tags: { b: '2', d: '4' } }), ['a']);
      },
    },
    {
      id: 'tags/survive-continue-as-new',
      title: 'the next execution keeps the tags',
      async run(store) {
        const outcome = { status: 'continuedAsNew', version: null, start: startMessage() } as const;
        await store.begin('a', { tags: { n: '1' }, outcome }, { tags: { t: '1' } });
        assert.deepEqual(await tagsOf(store, 'a'), { n: '1', t: '1' });
        assert.deepEqual(await list(store, { tags: { t: '1', n: '1' } }), ['a']);
      },
    },
    {
      id: 'tags/are-deleted-with-their-instance',
      title: 'a deletion deletes the tags, also for a new instance with the same id',
      async run(store) {
        await store.create('a', { tags: { t: '1' } });
        await store.provider.deleteInstancesAtomic([{ instanceIds: ['a'], force: true }]);
        await store.create('a');
        assert.deepEqual(await tagsOf(store, 'a'), {});
        assert.deepEqual(await list(store, { tags: { t: '1' } }), []);
        const { count } = await store.provider.countInstances({
          filter: { tags: { t: '1' } },
          cap: 10,
        });
        assert.equal(count, 0);
      },
    },
    {
      id: 'tags/are-not-part-of-the-start',
      title: 'a repeated start with other tags exists and keeps the first tags',
      async run(store) {
        await store.create('a', { tags: { t: '1' } });
        const [again] = await store.provider.createInstances([
          newInstance('a', { tags: { t: '2' } }),
        ]);
        assert.equal(again?.kind, 'exists');
        assert.deepEqual(await tagsOf(store, 'a'), { t: '1' });
      },
    },
  ],
};
