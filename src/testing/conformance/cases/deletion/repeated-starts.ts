import assert from 'node:assert/strict';
import type { CreateResult, NewInstance } from '../../../../providers/contract/instances.ts';
import type { Capability } from '../../conformance-case.ts';
import { completed, createEnded, deleteTree, forceDelete } from '../../deletion-helpers.ts';
import { expectCommitted, only } from '../../expectations.ts';
import { openSession, orchestrationJob, submit, taskJob } from '../../job-helpers.ts';
import { child, newInstance, newTurn, raised } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';
import { createTask, startTask } from '../../task-helpers.ts';

const minuteMs = 60_000;
const first = { incarnation: 'first' } as const;
const exists = { kind: 'exists' } as const;

/** Repeats a start whose response was lost. */
async function repeat(
  store: StoreUnderTest,
  instanceId: string,
  parts: Partial<NewInstance> = {},
): Promise<CreateResult> {
  const start = newInstance(instanceId, { ...first, isRepeat: true, ...parts });
  return only(await store.provider.createInstances([start]), 'result');
}

/** Creates an instance that ends in its first turn, and deletes it. */
async function runAndDelete(store: StoreUnderTest, instanceId = 'a'): Promise<void> {
  await store.begin(instanceId, { outcome: completed }, first);
  assert.equal((await deleteTree(store, [instanceId])).kind, 'deleted');
}

/** Expects that repeats of the first start create nothing, whatever their options. */
async function expectStaysDeleted(store: StoreUnderTest, instanceId = 'a'): Promise<void> {
  const firstTurn = newTurn({ outcome: completed });
  const event = { message: raised('with the start'), key: 'k' };
  const options: readonly Partial<NewInstance>[] = [
    {},
    { firstTurn },
    { tags: { a: 'b' }, timeoutMs: 1_000 },
    { delayMs: 1_000 },
    { dedupeKey: 'k' },
    { debounce: { key: 'k', requestKey: 'r' }, delayMs: 1_000 },
    { event },
    { onConflict: 'useExisting' },
    { onConflict: 'terminateExisting' },
  ];
  for (const parts of options) {
    assert.deepEqual(await repeat(store, instanceId, parts), exists, JSON.stringify(parts));
  }
  assert.deepEqual(await store.provider.getInstances([instanceId]), [undefined]);
  assert.deepEqual(await store.claim(), []);
}

export const repeatedStarts: Capability = {
  title: 'repeating a start whose response was lost',
  cases: [
    {
      id: 'repeat/a-deleted-instance-stays-deleted',
      title: 'a repeated start does not run an instance again that ended and was deleted',
      async run(store) {
        await runAndDelete(store);
        await expectStaysDeleted(store);
      },
    },
    {
      id: 'repeat/a-forced-deletion-counts',
      title: 'a repeated start does not create an instance that was deleted while it was live',
      async run(store) {
        await store.create('pending', first);
        await forceDelete(store, 'pending');
        await expectStaysDeleted(store, 'pending');
        await store.begin('running', { children: [child('running/kid', 1)] }, first);
        await forceDelete(store, 'running/kid', 'running');
        await expectStaysDeleted(store, 'running');
      },
    },
    {
      id: 'repeat/a-deleted-first-turn-stays-deleted',
      title: 'a repeated start does not create an instance again that ended with its first turn',
      async run(store) {
        const firstTurn = newTurn({ outcome: completed });
        await store.create('a', { ...first, firstTurn });
        await deleteTree(store, ['a']);
        await expectStaysDeleted(store);
      },
    },
    {
      id: 'repeat/creates-what-was-never-created',
      title: 'a repeated start creates an instance that no attempt created',
      async run(store) {
        await runAndDelete(store, 'another');
        assert.equal((await repeat(store, 'a')).kind, 'created');
        assert.equal((await store.claimOne()).incarnation, 'first');
        const firstTurn = newTurn({ outcome: completed });
        assert.equal((await repeat(store, 'b', { firstTurn })).kind, 'created');
        assert.equal((await store.record('b')).status, 'completed');
      },
    },
    {
      id: 'repeat/finds-its-instance',
      title: 'a repeated start finds the instance of the first attempt, live or ended',
      async run(store) {
        await store.create('a', first);
        assert.deepEqual(await store.expectNoChange(() => repeat(store, 'a')), exists);
        await store.commit(await store.claimOne(), { outcome: completed });
        assert.deepEqual(await store.expectNoChange(() => repeat(store, 'a')), exists);
      },
    },
    {
      id: 'repeat/belongs-to-its-id-and-incarnation',
      title: 'a repeat of another start creates its instance',
      async run(store) {
        await runAndDelete(store);
        assert.equal((await repeat(store, 'b')).kind, 'created');
        assert.equal((await repeat(store, 'a', { incarnation: 'second' })).kind, 'created');
        // A newer start has the id: the first one was created all the same.
        assert.deepEqual(await store.expectNoChange(() => repeat(store, 'a')), exists);
      },
    },
    {
      id: 'repeat/other-starts-are-created',
      title: 'a start that is no repeat creates its instance, whatever was deleted',
      async run(store) {
        await runAndDelete(store);
        await store.create('a', first);
        await forceDelete(store, 'a');
        const results = await store.provider.createInstances([
          newInstance('b'),
          newInstance('a', { ...first, isRepeat: true }),
          newInstance('c'),
        ]);
        assert.deepEqual(
          results.map(({ kind }) => kind),
          ['created', 'exists', 'created'],
        );
        assert.equal((await store.claim()).length, 2);
      },
    },
    {
      id: 'repeat/of-a-replaced-start',
      title:
        'a repeated start does not replace the start that replaced it, nor run after its deletion',
      async run(store) {
        const replacing = { onConflict: 'terminateExisting' } as const;
        await store.begin('a', {}, first);
        await store.clock.advance(60 * minuteMs);
        await store.create('a', { ...replacing, incarnation: 'second' });
        await store.create('a', { ...replacing, incarnation: 'third' });
        for (const incarnation of ['second', 'first']) {
          const again = () => repeat(store, 'a', { ...replacing, incarnation });
          assert.deepEqual(await store.expectNoChange(again), exists);
        }
        await forceDelete(store, 'a');
        for (const incarnation of ['third', 'second']) {
          assert.deepEqual(await repeat(store, 'a', { incarnation }), exists);
        }
        assert.deepEqual(await store.claim(), []);
      },
    },
    {
      id: 'repeat/is-known-for-ten-minutes',
      title: 'a repeated start creates nothing for ten minutes from the first one',
      async run(store) {
        await runAndDelete(store, 'early');
        await store.begin('late', { outcome: completed }, first);
        await store.clock.advance(10 * minuteMs - 1);
        await deleteTree(store, ['late']);
        await createEnded(store, 'other');
        await deleteTree(store, ['other']);
        while ((await store.provider.reclaimDeleted(1_000)).left);
        assert.deepEqual(await repeat(store, 'early'), exists);
        assert.deepEqual(await repeat(store, 'late'), exists);
      },
    },
    {
      id: 'repeat/races-with-the-deletion',
      title: 'a repeated start that races with the deletion of its instance creates nothing',
      async run(store) {
        for (let round = 0; round < 20; round += 1) {
          const id = `a${round}`;
          await createEnded(store, id);
          const { incarnation } = await store.record(id);
          const [, ...results] = await Promise.all([
            deleteTree(store, [id]),
            repeat(store, id, { incarnation }),
            repeat(store, id, { incarnation, onConflict: 'terminateExisting' }),
          ]);
          assert.deepEqual(results, [exists, exists]);
          assert.deepEqual(await store.provider.getInstances([id]), [undefined]);
        }
      },
    },
    {
      id: 'repeat/of-a-deleted-task',
      title: 'a repeated task does not run again after its run was deleted',
      async run(store) {
        const again = { ...first, isRepeat: true } as const;
        const item = await startTask(store, 'a', first);
        expectCommitted(await store.ackWork(item.lockToken));
        assert.deepEqual(await createTask(store, 'a', again), exists);
        await deleteTree(store, ['a']);
        const options = [
          {},
          { tags: { a: 'b' } },
          { dedupeKey: 'k' },
          { dedupeKey: 'k', dedupeMs: 1e6 },
        ];
        for (const parts of options) {
          assert.deepEqual(await createTask(store, 'a', { ...again, ...parts }), exists);
        }
        const replacing = { onConflict: 'terminateExisting' } as const;
        await createTask(store, 'b', { ...replacing, incarnation: 'first' });
        await createTask(store, 'b', { ...replacing, incarnation: 'second' });
        const repeated = () => createTask(store, 'b', { ...replacing, ...again });
        assert.deepEqual(await store.expectNoChange(repeated), exists);
        await forceDelete(store, 'b');
        assert.deepEqual(await createTask(store, 'b', { ...again, incarnation: 'second' }), exists);
        assert.deepEqual(await store.claimWork(), []);
        assert.equal((await createTask(store, 'c', again)).kind, 'created');
        assert.equal((await createTask(store, 'a', first)).kind, 'created');
      },
    },
    {
      id: 'repeat/of-a-deleted-job',
      title: 'a repeated job does not run again after its run was deleted',
      async run(store) {
        await openSession(store);
        const jobs = [taskJob, orchestrationJob].map(
          (job, index) => (parts: Partial<NewInstance>) =>
            job(`job ${index}`, { ...first, ...parts }),
        );
        for (const job of jobs) assert.equal((await submit(store, job({}))).kind, 'created');
        await forceDelete(store, 'job 0');
        await forceDelete(store, 'job 1');
        for (const job of jobs) {
          assert.deepEqual(await submit(store, job({ isRepeat: true })), exists);
        }
        assert.deepEqual(await store.claim(), []);
        assert.deepEqual(await store.claimWork(), []);
        await store.provider.shutdownSession({ sessionId: 's', mode: 'graceful', end: 'shutdown' });
        for (const job of jobs) {
          assert.deepEqual(await submit(store, job({ isRepeat: true })), exists);
        }
      },
    },
  ],
};
