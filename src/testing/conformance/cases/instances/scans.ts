import assert from 'node:assert/strict';
import type {
  ScanInstancesParams,
  ScannedInstance,
} from '../../../../providers/contract/management.ts';
import type { Capability } from '../../conformance-case.ts';
import {
  beginTree,
  completed,
  createEnded,
  forceDelete,
  runExecutions,
} from '../../deletion-helpers.ts';
import type { StoreUnderTest } from '../../store-under-test.ts';

/** Scans to the end, and calls `between` after each step. */
async function scan(
  { provider }: StoreUnderTest,
  params: Partial<ScanInstancesParams> = {},
  between: (found: readonly ScannedInstance[]) => Promise<unknown> = () => Promise.resolve(),
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let afterKey: number | null = 0, steps = 0; afterKey !== null; steps += 1) {
    assert.ok(steps < 100, 'the scan never ends');
    const step = await provider.scanInstances({ maxScanned: 3, ...params, afterKey });
    ids.push(...step.instances.map(({ instanceId }) => instanceId));
    await between(step.instances);
    afterKey = step.nextKey;
  }
  return ids;
}

export const scans: Capability = {
  title: 'scans',
  cases: [
    {
      id: 'scan/visits-every-row-once',
      title: 'scanInstances() returns every instance once, in creation order, for any step size',
      async run(store) {
        assert.deepEqual(await scan(store), []);
        const ids = ['g', 'c', 'f', 'a', 'e', 'b', 'd'];
        for (const id of ids) await store.create(id);
        for (const maxScanned of [1, 2, 3, 7, 100]) {
          assert.deepEqual(await scan(store, { maxScanned }), ids);
        }
      },
    },
    {
      id: 'scan/tells-what-it-met',
      title: 'scanInstances() returns key, id, incarnation, name, status and end time',
      async run(store) {
        const { incarnation, instanceKey } = await store.begin('a', { outcome: completed });
        const step = await store.provider.scanInstances({ afterKey: 0, maxScanned: 10 });
        assert.deepEqual(step, {
          instances: [
            {
              instanceKey,
              instanceId: 'a',
              incarnation,
              name: 'sample',
              status: 'completed',
              endedAt: store.clock.now(),
              tags: {},
            },
          ],
          nextKey: null,
        });
      },
    },
    {
      id: 'scan/goes-on-while-rows-go',
      title: 'deletions during a scan do not make it skip other instances',
      async run(store) {
        const ids = Array.from({ length: 10 }, (_, index) => `i${index}`);
        for (const id of ids) await createEnded(store, id);
        const seen = await scan(store, { maxScanned: 2 }, async (found) => {
          for (const { instanceId } of found) await forceDelete(store, instanceId);
          await forceDelete(store, 'i7');
        });
        assert.deepEqual(
          seen,
          ids.filter((id) => id !== 'i7'),
        );
        assert.deepEqual(await scan(store), []);
      },
    },
    {
      id: 'scan/finds-those-for-which-all-conditions-hold',
      title:
        'scanInstances() filters by status, end, root and finished executions, alone and combined',
      async run(store) {
        await createEnded(store, 'old');
        await store.clock.advance(1_000);
        const middle = store.clock.now();
        await store.begin('failed', { outcome: { status: 'failed', failure: '{}' } });
        await runExecutions(store, 'eternal', { count: 3 });
        await beginTree(store, completed);
        const find = (params: Partial<ScanInstancesParams>) => scan(store, params);
        const tree = ['root', 'left', 'right', 'leaf'];
        assert.deepEqual(await find({ statuses: ['failed'] }), ['failed']);
        assert.deepEqual(await find({ statuses: ['failed', 'running'] }), ['failed', 'eternal']);
        assert.deepEqual(await find({ statuses: [] }), []);
        assert.deepEqual(await find({ endedBefore: middle }), ['old']);
        assert.deepEqual(await find({ endedBefore: middle + 1 }), ['old', 'failed']);
        assert.deepEqual(await find({ statuses: ['completed'] }), ['old', ...tree]);
        const rootsOnly = true;
        assert.deepEqual(await find({ statuses: ['completed'], rootsOnly }), ['old', 'root']);
        assert.deepEqual(await find({ withFinishedExecutions: true }), ['eternal']);
        const none = { statuses: ['completed' as const], endedBefore: middle, rootsOnly };
        assert.deepEqual(await find(none), ['old']);
        assert.deepEqual(await find({ ...none, withFinishedExecutions: true }), []);
      },
    },
    {
      id: 'scan/looks-at-no-more-than-asked',
      title: 'a scan step examines at most maxScanned rows, whether they match or not',
      async run(store) {
        for (const id of ['a', 'b', 'c', 'd', 'e']) await store.create(id);
        const statuses = ['failed' as const];
        let steps = 0;
        const count = () => Promise.resolve((steps += 1));
        assert.deepEqual(await scan(store, { statuses, maxScanned: 2 }, count), []);
        assert.ok(steps >= 3, `${steps} steps`);
      },
    },
    {
      id: 'scan/ends-where-it-is-told',
      title: 'a scan with createdBefore ends although new instances are created meanwhile',
      async run(store) {
        await store.create('a');
        await store.create('b');
        await store.clock.advance(10);
        const createdBefore = store.clock.now();
        let born = 0;
        const seen = await scan(store, { maxScanned: 1, createdBefore }, () =>
          store.create(`born ${(born += 1)}`),
        );
        assert.deepEqual(seen, ['a', 'b']);
      },
    },
  ],
};
