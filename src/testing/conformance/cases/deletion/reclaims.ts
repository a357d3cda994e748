import assert from 'node:assert/strict';
import type { Provider } from '../../../../providers/contract/provider.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  completed,
  continued,
  createEnded,
  expectDeleted,
  forceDelete,
  numberedEvents,
  prune,
} from '../../deletion-helpers.ts';
import { event } from '../../sample-data.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';

const size = 10_000;

/** Begins an instance with a long history, and returns its key. */
async function beginLong(store: StoreUnderTest, instanceId: string): Promise<number> {
  const events = numberedEvents(size);
  return (await store.begin(instanceId, { events, outcome: completed })).instanceKey;
}

/** Reclaims all rows in steps, and expects that no step greatly exceeds `maxRows`. Returns the rows. */
async function reclaimAll(provider: Provider, maxRows: number): Promise<number> {
  for (let rows = 0, steps = 0; ; steps += 1) {
    const step = await provider.reclaimDeleted(maxRows);
    assert.ok(step.rows <= 2 * maxRows, `${step.rows} rows in a step of ${maxRows}`);
    rows += step.rows;
    if (!step.left) return rows;
    assert.ok(steps < 1_000, 'the reclaim never ends');
  }
}

export const reclaims: Capability = {
  title: 'reclaiming deleted rows',
  cases: [
    {
      id: 'reclaim/what-is-hidden-is-gone',
      title: 'a deleted long history is unreadable before its rows are reclaimed',
      async run(store) {
        const instanceKey = await beginLong(store, 'a');
        assert.equal((await forceDelete(store, 'a')).eventsDeleted, size);
        await expectDeleted(store, ['a']);
        const range = { instanceKey, executionId: 1, after: 0 };
        // Compares the length, because a diff of two long lists takes minutes.
        assert.equal((await store.provider.readHistory([range])).flat().length, 0);
        await store.begin('a', { events: [event('new')] });
        assert.deepEqual(await store.historyLabels('a'), ['new']);
      },
    },
    {
      id: 'reclaim/goes-on-in-steps',
      title: 'reclaimDeleted() deletes the remaining rows in steps and keeps other histories',
      async run(store) {
        await createEnded(store, 'before', 3);
        await beginLong(store, 'a');
        await createEnded(store, 'after', 3);
        await beginLong(store, 'b');
        await forceDelete(store, 'a');
        await forceDelete(store, 'b');
        await store.begin('a', { events: numberedEvents(2) });
        const { pendingReclaims } = await store.provider.systemMetrics();
        assert.deepEqual(await store.provider.reclaimDeleted(0), {
          rows: 0,
          left: pendingReclaims > 0,
        });
        assert.equal(await reclaimAll(store.provider, 700), pendingReclaims);
        assert.equal((await store.provider.systemMetrics()).pendingReclaims, 0);
        assert.deepEqual(await store.provider.reclaimDeleted(700), { rows: 0, left: false });
        for (const [instanceId, length] of Object.entries({ before: 3, after: 3, a: 2 })) {
          assert.equal((await store.history(instanceId)).length, length, instanceId);
        }
      },
    },
    {
      id: 'reclaim/spares-what-was-kept',
      title:
        'reclaimDeleted() deletes rows of pruned executions and keeps those of other executions',
      async run(store) {
        await store.create('a');
        for (const execution of [1, 2]) {
          const events = [event(`first of ${execution}`), ...numberedEvents(size - 1)];
          await store.commit(await store.claimOne(), { events, outcome: continued });
        }
        await store.commit(await store.claimOne(), { events: numberedEvents(5) });
        assert.equal((await prune(store, 'a', { keepLast: 2 })).eventsDeleted, size);
        assert.equal((await store.history('a', 1)).length, 0);
        await reclaimAll(store.provider, 4_000);
        assert.equal((await store.history('a', 2)).length, size);
        assert.equal((await store.history('a', 3)).length, 5);
        await prune(store, 'a');
        const counts = await forceDelete(store, 'a');
        assert.deepEqual([counts.executionsDeleted, counts.eventsDeleted], [1, 5]);
        await reclaimAll(store.provider, 4_000);
        assert.equal((await store.provider.systemMetrics()).pendingReclaims, 0);
      },
    },
    {
      id: 'shared/a-reclaim-goes-on-elsewhere',
      title: 'another process can finish a reclaim that this process began',
      async run(store) {
        await beginLong(store, 'a');
        await forceDelete(store, 'a');
        const first = await store.provider.reclaimDeleted(1_000);
        const other = await store.reopen();
        const { pendingReclaims } = await other.systemMetrics();
        await store.provider.close();
        assert.equal(await reclaimAll(other, 1_000), pendingReclaims);
        assert.ok(!first.left || pendingReclaims === size - first.rows);
        assert.equal((await other.systemMetrics()).pendingReclaims, 0);
      },
    },
  ],
};
