import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { SqliteFiles } from '../conformance/sqlite-files.ts';
import { sizeOf, treeScenarios, type TreeScenario } from './tree-scenario.ts';
import { TreeWorld } from './tree-world.ts';

const runs = 100;
const files = new SqliteFiles();
afterAll(() => files.remove());

type OpenStore = (clock: Clock) => Promise<Provider>;

const openInMemory: OpenStore = (clock) => openSqlite({ path: ':memory:', clock });

/** Lets a deletion pass that leaves children without their parent. */
const openWithoutOrphanCheck: OpenStore = async (clock) => {
  const provider = await files.create({ clock });
  const db = new Database(files.pathOf(provider));
  const setParent = db.prepare<[string | null, string]>(
    'UPDATE instances SET parent_instance_id = ? WHERE instance_id = ?',
  );
  return {
    ...provider,
    async deleteInstancesAtomic(trees) {
      const orphans: { readonly instanceId: string; readonly parentInstanceId: string }[] = [];
      for (;;) {
        const results = await provider.deleteInstancesAtomic(trees);
        const orphan = results.find((result) => result.kind === 'orphan');
        if (orphan === undefined) {
          for (const each of orphans) setParent.run(each.parentInstanceId, each.instanceId);
          return results;
        }
        orphans.push(orphan);
        setParent.run(null, orphan.instanceId);
      }
    },
    async close() {
      await provider.close();
      db.close();
    },
  };
};

async function runTrees(scenario: TreeScenario, open: OpenStore): Promise<TreeWorld> {
  let rest = (): Promise<void> => Promise.resolve();
  const clock = new FakeClock({ settle: () => rest() });
  const store = await open(clock);
  try {
    const world = new TreeWorld({ scenario, store, clock });
    rest = () => world.rest();
    await world.run();
    return world;
  } finally {
    await store.close();
  }
}

test('whatever happens to random trees, no child outlives its root, nothing is stuck, and every count is exact', async () => {
  let largest = 0;
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(treeScenarios, async (scenario) => {
      expect(sizeOf(scenario.roots)).toBeLessThanOrEqual(50);
      const world = await runTrees(scenario, openInMemory);
      expect(world.violations).toEqual([]);
      largest = Math.max(largest, world.largestDeleted);
      for (const kind of world.seen.keys()) seen.add(kind);
    }),
    { numRuns: runs },
  );
  // A check that deletes little shows little.
  expect(largest).toBeGreaterThan(20);
  expect([...seen]).toEqual(expect.arrayContaining(['deleted', 'orphan', 'running']));
}, 240_000);

test('within as many runs, a store that does not look for orphans is found out', async () => {
  const { failed } = await fc.check(
    fc.asyncProperty(treeScenarios, async (scenario) => {
      const { violations } = await runTrees(scenario, openWithoutOrphanCheck);
      return !violations.some((what) => what.endsWith('but its parent is gone'));
    }),
    { numRuns: runs, endOnFailure: true },
  );
  expect(failed).toBe(true);
}, 240_000);
