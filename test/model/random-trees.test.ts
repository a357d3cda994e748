import Database from 'better-sqlite3';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { PostgresDatabases } from '../conformance/postgres-databases.ts';
import { SqliteFiles } from '../conformance/sqlite-files.ts';
import { watchDriver } from '../postgres/helpers/driver-activity.ts';
import { sizeOf, treeScenarios, type TreeScenario } from './helpers/tree-scenario.ts';
import { TreeWorld } from './helpers/tree-world.ts';

const runs = 100;
// A run takes hundreds of round trips.
const postgresRuns = 10;
const files = new SqliteFiles();
const databases = new PostgresDatabases();
afterAll(() => files.remove());
afterAll(() => databases.remove(), 120_000);

type OpenStore = (clock: Clock) => Promise<Provider>;

const openInMemory: OpenStore = (clock) => openSqlite({ path: ':memory:', clock });

/** A store that lets a deletion orphan children. */
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

async function runTrees(
  scenario: TreeScenario,
  open: OpenStore,
  isBusy: () => boolean = () => false,
): Promise<TreeWorld> {
  let rest = (): Promise<void> => Promise.resolve();
  const clock = new FakeClock({ settle: () => rest() });
  const store = await open(clock);
  try {
    const world = new TreeWorld({ scenario, store, clock, isBusy });
    rest = () => world.rest();
    await world.run();
    return world;
  } finally {
    await store.close();
  }
}

/** Runs random scenarios. Returns the kinds of deletion results and the size of the largest tree deleted. */
async function checkTrees(run: (scenario: TreeScenario) => Promise<TreeWorld>, numRuns: number) {
  let largest = 0;
  const seen = new Set<string>();
  await fc.assert(
    fc.asyncProperty(treeScenarios, async (scenario) => {
      expect(sizeOf(scenario.roots)).toBeLessThanOrEqual(50);
      const world = await run(scenario);
      expect(world.violations).toEqual([]);
      largest = Math.max(largest, world.largestDeleted);
      for (const kind of world.seen.keys()) seen.add(kind);
    }),
    { numRuns },
  );
  return { largest, seen: [...seen] };
}

test('deletions of random trees leave no orphan or stuck instance and return exact counts', async () => {
  const { largest, seen } = await checkTrees((scenario) => runTrees(scenario, openInMemory), runs);
  // Guards against scenarios that delete too little.
  expect(largest).toBeGreaterThan(20);
  expect(seen).toEqual(expect.arrayContaining(['deleted', 'orphan', 'running']));
}, 240_000);

test('on PostgreSQL, deletions of random trees leave no orphan and return exact counts', async () => {
  const isBusy = watchDriver();
  const { largest, seen } = await checkTrees(
    (scenario) => runTrees(scenario, (clock) => databases.create({ clock }), isBusy),
    postgresRuns,
  );
  expect(largest).toBeGreaterThan(2);
  expect(seen).toContain('deleted');
}, 240_000);

test('the random-tree check detects a store that lets a deletion orphan children', async () => {
  const { failed } = await fc.check(
    fc.asyncProperty(treeScenarios, async (scenario) => {
      const { violations } = await runTrees(scenario, openWithoutOrphanCheck);
      return !violations.some((what) => what.endsWith('but its parent is gone'));
    }),
    { numRuns: runs, endOnFailure: true },
  );
  expect(failed).toBe(true);
}, 240_000);
