import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import type { Provider } from '../../src/providers/contract/provider.ts';
import {
  child,
  event,
  newInstance,
  newTurn,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const completed = { status: 'completed', payload: null } as const;
const audit = { auditId: 'one', action: 'delete', actor: 'me', filter: '{}' } as const;

/** A store, and direct access to its database. */
async function openWithDb() {
  const { open, path } = temporaryStore();
  const clock = new FakeClock();
  const provider = await open({ clock });
  const withDb = <T>(work: (db: Database.Database) => T): T => {
    const db = new Database(path);
    try {
      return work(db);
    } finally {
      db.close();
    }
  };
  return { provider, clock, withDb, path };
}

/** The number of rows of each table that is not empty. */
function rowCounts(db: Database.Database): Readonly<Record<string, number>> {
  const tables = db
    .prepare<[], string>(`SELECT name FROM sqlite_schema WHERE type = 'table'`)
    .pluck()
    .all();
  const counts = tables.map((table) => {
    const count = db.prepare<[], number>(`SELECT count(*) FROM "${table}"`).pluck().get() ?? 0;
    return [table, count] as const;
  });
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

async function createTree(provider: Provider, size: number, eventsEach: number): Promise<string[]> {
  const ids = Array.from({ length: size }, (_, index) => `secret-kid-${index}`);
  const children = ids.map((id, index) => child(id, index + 1));
  const events = Array.from({ length: eventsEach }, (_, index) => event(`secret ${index}`));
  const timers = [{ operation: 9_999, fireAt: Number.MAX_SAFE_INTEGER }];
  const workItems = [workItem(9_998, { claimMs: 10_000 }), workItem(9_997)];
  const firstTurn = newTurn({ events, children, timers, workItems });
  await provider.createInstances([newInstance('secret-root', { firstTurn })]);
  return [...ids, 'secret-root'];
}

it.each([10, 6_000])(
  'deletion and reclaim of %i events leave only the audit and a change without ids',
  async (eventsEach) => {
    const { provider, clock, withDb } = await openWithDb();
    const instanceIds = await createTree(provider, 50, eventsEach);
    const before = withDb(rowCounts);
    const [result] = await provider.deleteInstancesAtomic([{ instanceIds, force: true, audit }]);
    expect(result).toMatchObject({ counts: { instancesDeleted: 51, eventsDeleted: eventsEach } });
    expect(withDb(rowCounts)).toMatchObject({ tombstones: 1, deleted_starts: 1 });
    // The hash of a start is kept for ten minutes.
    await clock.advance(600_000);
    while ((await provider.reclaimDeleted(1_000)).left);
    const { definitions, perdure_migrations, sqlite_sequence, system_records } = before;
    expect(withDb(rowCounts)).toEqual({
      definitions,
      perdure_migrations,
      sqlite_sequence,
      system_records,
      audit: 1,
      changes: 1,
    });
    // The newest row of the change log is kept, without ids.
    const changes = withDb((db) => db.prepare('SELECT finished, status_set FROM changes').all());
    expect(changes).toEqual([{ finished: null, status_set: null }]);
  },
);

it('the audit record contains no id of a deleted instance', async () => {
  const { provider, withDb } = await openWithDb();
  const instanceIds = await createTree(provider, 3, 3);
  await provider.deleteInstancesAtomic([{ instanceIds, force: true, audit }]);
  const rows = withDb((db) => db.prepare('SELECT * FROM audit').all());
  expect(rows).toHaveLength(1);
  expect(JSON.stringify(rows)).not.toContain('secret');
});

it('a cycle of parents can be listed, and its deletion returns orphan', async () => {
  const { provider, withDb } = await openWithDb();
  const ids = ['a', 'b', 'c'];
  const firstTurn = newTurn({ outcome: completed });
  await provider.createInstances(ids.map((id) => newInstance(id, { firstTurn })));
  withDb((db) => {
    const adopt = db.prepare('UPDATE instances SET parent_instance_id = ? WHERE instance_id = ?');
    for (const [index, id] of ids.entries()) adopt.run(ids[(index + 1) % 3], id);
  });
  expect(await provider.listChildren(ids)).toEqual([['c'], ['a'], ['b']]);
  for (const force of [false, true]) {
    for (const instanceIds of [['a', 'b', 'c'], ['c', 'b', 'a'], ['a']]) {
      const [result] = await provider.deleteInstancesAtomic([{ instanceIds, force }]);
      expect(result).toMatchObject({ kind: 'orphan' });
    }
  }
  expect(await provider.getInstances(ids)).toHaveLength(3);
});

// Without the guard, the transaction would never end.
it('terminate() of a cyclic tree ends each instance once', async () => {
  const { provider, withDb } = await openWithDb();
  const ids = ['a', 'b'];
  await provider.createInstances(ids.map((id) => newInstance(id)));
  withDb((db) => {
    db.exec(`UPDATE instances
             SET parent_instance_id = iif(instance_id = 'a', 'b', 'a'), parent_execution_id = 1,
                 parent_operation = 1, cancellation = 'request'`);
  });
  const request = { instanceId: 'a', reason: 'x', actor: null, cleanupMs: 0, tree: true };
  expect(await provider.terminate([request])).toMatchObject([{ changed: true }]);
  const records = await provider.getInstances(ids);
  expect(records.map((record) => record?.status)).toEqual(['terminated', 'terminated']);
  const page = { executionId: 1, after: 0, limit: 9 };
  for (const instanceId of ids) {
    expect(await provider.readInstanceHistory({ instanceId, ...page })).toHaveLength(1);
  }
});

it('an instance that is its own parent can be deleted', async () => {
  const { provider, withDb } = await openWithDb();
  const firstTurn = newTurn({ outcome: completed });
  await provider.createInstances([newInstance('a', { firstTurn })]);
  withDb((db) => db.exec(`UPDATE instances SET parent_instance_id = 'a'`));
  const tree = { instanceIds: ['a'], force: false };
  expect(await provider.deleteInstancesAtomic([tree])).toMatchObject([{ kind: 'deleted' }]);
  expect(await provider.getInstances(['a'])).toEqual([undefined]);
});

it('a deletion returns orphan for a child with a forged parent column', async () => {
  const { provider, withDb } = await openWithDb();
  const firstTurn = newTurn({ outcome: completed });
  await provider.createInstances(['a', 'b'].map((id) => newInstance(id, { firstTurn })));
  withDb((db) => db.exec(`UPDATE instances SET parent_instance_id = 'a' WHERE instance_id = 'b'`));
  const tree = { instanceIds: ['a'], force: true };
  expect(await provider.deleteInstancesAtomic([tree])).toEqual([
    { kind: 'orphan', instanceId: 'b', parentInstanceId: 'a' },
  ]);
});

it('a deletion removes tombstones of expired leases', async () => {
  const { provider, clock, withDb } = await openWithDb();
  const countOf = () => withDb(rowCounts)['tombstones'];
  for (const id of ['a', 'b', 'c']) {
    const workItems = [workItem(1, { claimMs: 1_000 })];
    await provider.createInstances([newInstance(id, { firstTurn: newTurn({ workItems }) })]);
    await provider.deleteInstancesAtomic([{ instanceIds: [id], force: true }]);
    await clock.advance(id === 'b' ? 1_000 : 1);
  }
  expect(countOf()).toBe(1);
});

it('a failed audit insert rolls back the deletions of its call and no others', async () => {
  const { provider } = await openWithDb();
  const firstTurn = newTurn({ outcome: completed });
  await provider.createInstances(['a', 'b', 'c'].map((id) => newInstance(id, { firstTurn })));
  const bad = { ...audit, filter: null as unknown as string };
  const [refused, deleted] = await Promise.allSettled([
    provider.deleteInstancesAtomic([
      { instanceIds: ['a'], force: false },
      { instanceIds: ['b'], force: false, audit: bad },
    ]),
    provider.deleteInstancesAtomic([{ instanceIds: ['c'], force: false }]),
  ]);
  expect(refused.status).toBe('rejected');
  expect(deleted).toMatchObject({ value: [{ kind: 'deleted' }] });
  const left = await provider.getInstances(['a', 'b', 'c']);
  expect(left.map((record) => record?.instanceId)).toEqual(['a', 'b', undefined]);
});

it('a deletion of 100,000 ids counts only instances that exist', async () => {
  const { provider } = await openWithDb();
  const firstTurn = newTurn({ outcome: completed });
  await provider.createInstances(['a', 'b'].map((id) => newInstance(id, { firstTurn })));
  const unknown = Array.from({ length: 99_998 }, (_, index) => `unknown ${index}`);
  const instanceIds = ['a', ...unknown, 'b'];
  const [result] = await provider.deleteInstancesAtomic([{ instanceIds, force: false }]);
  expect(result).toMatchObject({ counts: { instancesDeleted: 2 } });
});
