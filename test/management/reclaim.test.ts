/** Which hidden rows the calls of a client reclaim. */
import { expect, it } from 'vitest';
import { ProviderError, type Provider } from 'perdure';
import {
  continued,
  createEnded,
  numberedEvents,
} from '../../src/testing/conformance/deletion-helpers.ts';
import { StoreUnderTest } from '../../src/testing/conformance/store-under-test.ts';
import type { FakeClock } from '../../src/testing/fake-clock.ts';
import { complete, describeManaged, quick, wide } from './managed-store.ts';

// More than one transaction deletes.
const manyEvents = 5_000;

function movesOn({ provider, clock }: { readonly provider: Provider; readonly clock: FakeClock }) {
  return new StoreUnderTest({ provider, clock, corrupt: undefined, reopen: undefined });
}

describeManaged('reclaiming hidden rows', ({ openManaged }) => {
  it('a prune of long executions leaves no hidden rows, even without a worker', async () => {
    const managed = await openManaged(null);
    const { client } = managed;
    const store = movesOn(managed);
    const prunes = [
      ['one', () => client.pruneExecutions('one')],
      ['many', () => client.pruneExecutionsBulk({}, { all: true, includeRunning: true })],
    ] as const;
    for (const [id, prune] of prunes) {
      await store.begin(id, { events: numberedEvents(manyEvents), outcome: continued });
      await store.commit(await store.claimOne());
      expect(await prune()).toMatchObject({ executionsDeleted: 1, eventsDeleted: manyEvents });
      expect(await client.systemMetrics()).toMatchObject({ pendingReclaims: 0 });
    }
  });

  it('deleteInstance() resolves when reclaimDeleted fails after the commit', async () => {
    const { client } = await openManaged({}, (provider) => ({
      ...provider,
      reclaimDeleted: () =>
        Promise.reject(
          new ProviderError({ operation: 'reclaimDeleted', message: 'away', retryable: true }),
        ),
    }));
    await complete(client, ['a']);
    expect(await client.deleteInstance('a')).toMatchObject({ instancesDeleted: 1 });
    expect(await client.get('a')).toBeUndefined();
  });

  it('a small deletion does not wait to reclaim the hidden rows of a large one', async () => {
    const managed = await openManaged(null);
    const { client, provider } = managed;
    const store = movesOn(managed);
    await createEnded(store, 'small');
    for (const id of ['large', 'large too']) await createEnded(store, id, manyEvents);
    await provider.deleteInstancesAtomic([{ instanceIds: ['large'], force: false }]);
    await client.deleteInstance('small');
    const { pendingReclaims } = await client.systemMetrics();
    expect(pendingReclaims).toBeGreaterThan(manyEvents / 2);
    await client.deleteInstance('large too');
    expect(await client.systemMetrics()).toMatchObject({ pendingReclaims: 0 });
  });

  it('deleteInstanceBulk() of mixed tree sizes deletes at most 1,000 instances per transaction', async () => {
    const sizes: number[] = [];
    const { client } = await openManaged({ orchestrations: [quick, wide] }, (provider) => ({
      ...provider,
      deleteInstancesAtomic: (trees) => {
        sizes.push(trees.reduce((sum, { instanceIds }) => sum + instanceIds.length, 0));
        return provider.deleteInstancesAtomic(trees);
      },
    }));
    await complete(
      client,
      Array.from({ length: 20 }, (_, index) => `small ${index}`),
    );
    for (let index = 0; index < 6; index += 1) {
      await (await client.start(wide, 300, { id: `large ${index}` })).result();
    }
    const all = { instancesDeleted: 20 + 6 * 301 };
    expect(await client.deleteInstanceBulk({}, { all: true, dryRun: true })).toMatchObject(all);
    expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject(all);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000);
  });
});
