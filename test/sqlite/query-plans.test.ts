import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/model/clock.ts';
import { InstanceList } from '../../src/providers/sqlite/reading/instance-list.ts';
import { Definitions } from '../../src/providers/sqlite/tables/definitions.ts';
import { Metrics } from '../../src/providers/sqlite/reading/metrics.ts';
import { QueueDepthSlices } from '../../src/providers/sqlite/reading/queue-depths.ts';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';
import { createInstanceStore } from '../../src/providers/sqlite/instances/instances.ts';
import { createOrchestrationQueue } from '../../src/providers/sqlite/queues/orchestration-queue.ts';
import { createWorkQueue } from '../../src/providers/sqlite/queues/work-queue.ts';
import { createCancellationStore } from '../../src/providers/sqlite/stopping/cancellation.ts';
import { Store } from '../../src/providers/sqlite/store.ts';
import {
  activityCancel,
  newInstance,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';

function plan(db: Database.Database, sql: string): string {
  const steps = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`);
  const names = [...sql.matchAll(/:(\w+)/g)].map(([, name]) => [name, 0]);
  const count = sql.split('?').length - 1;
  const values = names.length > 0 ? [Object.fromEntries(names)] : Array(count).fill(0);
  return steps
    .all(...values)
    .map(({ detail }) => detail)
    .join('; ');
}

/** The statements that `work` prepares and that read rows. */
function preparedBy<T>(db: Database.Database, work: () => T) {
  const prepare = db.prepare.bind(db);
  const prepared: string[] = [];
  db.prepare = (sql: string) => {
    prepared.push(sql);
    return prepare(sql);
  };
  const value = work();
  db.prepare = prepare;
  const reads = /^\s*(SELECT|UPDATE|DELETE|INSERT[^]*SELECT)/;
  return { value, statements: prepared.filter((sql) => reads.test(sql)) };
}

// Allowed: subqueries, which have their own limit; json_each over a list of the caller; pending_reclaims, read from its
// start; workers, which has a row per worker and at most 1,000 stale ones; paused_definitions, one row per paused name;
// series_writers, one row per process of the last days; limits and declared_limits, a few rows per limited definition.
const readsAll =
  /SCAN (?!\(|json_each|CONSTANT ROW|pending_reclaims|workers|paused_definitions|series_writers|limits\b)|TEMP B-TREE/;

it('no statement of the store scans a table or sorts in a temporary B-tree', async () => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const { value: store, statements } = preparedBy(
    db,
    () => new Store({ db, clock: systemClock, pollMs: 5, busyTimeoutMs: 100 }),
  );
  // Metrics count whole tables on demand.
  const counts = new Set(preparedBy(db, () => new Metrics(db)).statements);
  // The depths of queues are read in slices of a limited number of rows, which are grouped in memory.
  const slices = preparedBy(db, () => new QueueDepthSlices(db)).statements;
  expect(slices.length).toBeGreaterThan(0);
  for (const sql of slices) {
    expect(sql).toContain('LIMIT :rows');
    expect(plan(db, sql)).toMatch(/SEARCH \w+ USING (?:INTEGER PRIMARY KEY|COVERING INDEX)/);
    expect(plan(db, sql)).not.toMatch(/SCAN (?:instance_locks|worker_queue|orchestrator_queue)/);
    counts.add(sql);
  }
  // Runs only after the clock was set back.
  const rare = statements.filter(
    (sql) =>
      sql.startsWith('UPDATE orchestrator_queue SET visible_at = :now') ||
      sql.startsWith(
        'UPDATE lanes SET more = 1, ready = 1, wake_at = NULL WHERE wake_at IS NOT NULL',
      ),
  );
  expect(rare).toHaveLength(2);
  const others = statements.filter(
    (sql) =>
      !counts.has(sql) && !rare.includes(sql) && !/ FROM (?:workers|declared_limits)\b/.test(sql),
  );
  expect(others.length).toBeGreaterThan(80);
  const bad = others
    .map((sql) => ({ sql, plan: plan(db, sql) }))
    .filter(({ plan }) => readsAll.test(plan));
  expect(bad).toEqual([]);
  await store.close();
});

it('every prepared statement that cancels activities finds them by an index', async () => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const { value: store, statements } = preparedBy(
    db,
    () => new Store({ db, clock: systemClock, pollMs: 5, busyTimeoutMs: 100 }),
  );
  const cancels = statements.filter((sql) =>
    /^\s*UPDATE worker_queue\s+SET cancel_requested = |pointOfNoReturn,\s+cancel_requested AS/.test(
      sql,
    ),
  );
  // The reads of a turn's and of an instance's activities, and their flags.
  expect(cancels.length).toBeGreaterThanOrEqual(3);
  for (const sql of cancels) {
    const steps = plan(db, sql);
    expect(steps).toMatch(
      /SEARCH (worker_queue|item)\b.* USING (COVERING |PARTIAL )?(INDEX|INTEGER)/,
    );
    expect(steps).not.toMatch(readsAll);
  }
  await store.close();
});

it('every statement that a mass cancel executes finds its activities by key', async () => {
  const executed: string[] = [];
  const db = new Database(':memory:', { verbose: (sql) => executed.push(String(sql)) });
  migrate(db, 0);
  const store = new Store({ db, clock: systemClock, pollMs: 5, busyTimeoutMs: 100 });
  const provider = {
    ...createInstanceStore(store),
    ...createWorkQueue(store),
    ...createOrchestrationQueue(store),
    ...createCancellationStore(store),
  };
  const fetch = { max: 100, lockMs: 60_000, waitMs: 0 };
  const operations = Array.from({ length: 100 }, (_, index) => index + 1);
  const workItems = operations.map((operation) => workItem(operation));
  const ids = ['by a turn', 'by a request', 'by a termination', 'by an end'];
  const wide = ids.map((id) => newInstance(id, { firstTurn: newTurn({ workItems }) }));
  await provider.createInstances(wide);
  // Half of the items are claimed: a cancel flags those and removes the others.
  expect(await provider.fetchWorkItems({ ...fetch, max: 200 })).toHaveLength(200);
  for (const instanceId of ['by a turn', 'by an end']) {
    await provider.enqueueMessages([{ instanceId, message: raised('go') }]);
  }
  const turns = await provider.fetchOrchestrationItems(fetch);
  const stop = { reason: 'x', actor: null };
  executed.length = 0;
  const acked = await provider.ackOrchestrationItems(
    turns.map(({ instanceId, lockToken, messages }) => ({
      lockToken,
      messageKeys: messages.map(({ messageKey }) => messageKey),
      turn:
        instanceId === 'by a turn'
          ? newTurn({ activityCancels: operations.map((operation) => activityCancel(operation)) })
          : newTurn({ outcome: { status: 'completed', payload: null } }),
    })),
  );
  expect(acked.map(({ ok }) => ok)).toEqual([true, true]);
  await provider.requestCancel([{ instanceId: 'by a request', ...stop, cleanupMs: 1_000 }]);
  await provider.terminate([{ instanceId: 'by a termination', ...stop, tree: false }]);
  const touching = executed.filter((sql) => sql.includes('worker_queue'));
  expect(touching.filter((sql) => /^\s*DELETE/.test(sql)).length).toBeGreaterThan(0);
  expect(touching.filter((sql) => /SET cancel_requested = /.test(sql)).length).toBeGreaterThan(0);
  for (const sql of touching) {
    const steps = db.prepare<[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`).all();
    const reads = steps.map(({ detail }) => detail).filter((step) => /worker_queue/.test(step));
    expect(reads).not.toEqual([]);
    for (const read of reads) {
      expect(read).toMatch(/^SEARCH worker_queue USING .*\((instance_key|rowid)=\?/);
    }
  }
  await store.close();
});

it('counting instances reads only indexes, and measuring one instance scans nothing', () => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const plans = preparedBy(db, () => new Metrics(db)).statements.map((sql) => ({
    sql,
    plan: plan(db, sql),
  }));
  expect(plans.length).toBeGreaterThanOrEqual(3);
  for (const { sql, plan } of plans) {
    expect(plan).not.toMatch(/SCAN instances(?! USING COVERING INDEX)/);
    if (sql.includes('instance_id = ?')) expect(plan).not.toMatch(readsAll);
  }
  db.close();
});

it.each([
  ['reading the children of a deleted tree', /AS child ON/, 'instances_by_parent'],
  ['listing children', /SELECT instance_id FROM instances WHERE parent/, 'instances_by_parent'],
  ['scanning instances', /FROM instances NOT INDEXED/, 'INTEGER PRIMARY KEY (rowid>? AND rowid<?)'],
  [
    'deleting histories',
    /DELETE FROM history\s+WHERE instance_key IN/,
    'PRIMARY KEY (instance_key=?)',
  ],
  [
    'deleting the histories of executions',
    /DELETE FROM history\s+WHERE \(instance_key, execution_id\) IN/,
    'PRIMARY KEY (instance_key=? AND execution_id=?)',
  ],
  [
    'deleting the beginning of a history',
    /DELETE FROM history[^]*\(execution_id, event_id\) </,
    'PRIMARY KEY (instance_key=? AND execution_id>? AND (execution_id,event_id)<(?,?))',
  ],
  ['finding tombstones', /FROM tombstones\s+WHERE locked_until > /, 'tombstones_by_end'],
] as const)('%s uses an index', async (_, pattern, index) => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const { value: store, statements } = preparedBy(
    db,
    () => new Store({ db, clock: systemClock, pollMs: 5, busyTimeoutMs: 100 }),
  );
  const found = statements.filter((sql) => pattern.test(sql));
  expect(found.length).toBeGreaterThanOrEqual(1);
  for (const sql of found) expect(plan(db, sql)).toContain(index);
  await store.close();
});

it.each([
  [{ status: ['running'] }, 'instances_by_status'],
  [{ status: ['failed'], createdBefore: 5 }, 'instances_by_status'],
  [{ names: ['a'], status: ['failed', 'canceled'] }, 'instances_ended_otherwise'],
  [{ names: ['a'] }, 'instances_by_definition'],
  [{ parentInstanceId: 'p' }, 'instances_by_parent'],
  [{ tags: { tenant: '7' }, status: ['failed'] }, 'SEARCH instance_tags USING PRIMARY KEY'],
  [{ blocked: true }, 'instance_locks_blocked_keys'],
  [{ leaked: true }, 'instances_leaked'],
  [{ failureText: 'no' }, 'instances_by_status'],
] as const)('listing instances by %j reads an index in order', (filter, index) => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const definitions = new Definitions(db);
  definitions.intern('orchestration', 'a', '1');
  definitions.intern('orchestration', 'a', '2');
  const parts = { definitions, workers: undefined as never, unclaimedWork: undefined as never };
  const list = new InstanceList(db, { ...parts, now: () => 1 });
  const { statements } = preparedBy(db, () => list.page({ filter, limit: 10 }));
  const walks = statements.filter((statement) => statement.includes(':size'));
  expect(walks).toHaveLength(2);
  for (const statement of walks) {
    const shown = plan(db, statement);
    expect(shown).toContain(index);
    expect(shown).not.toContain('TEMP B-TREE');
    expect(shown).not.toMatch(/SCAN instances/);
  }
  db.close();
});
