import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { beforeAll, afterAll, describe, expect, it } from 'vitest';
import { generateEventKey } from '../../src/model/event-key.ts';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import { resolveOptions } from '../../src/providers/postgres/driver/options.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import {
  event,
  newInstance,
  newProcess,
  newWorker,
  newTurn,
  raised,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { runCase } from '../../src/testing/conformance/run-case.ts';
import { fillQueues, queued } from './helpers/full-queues.ts';
import { sendLimits } from './helpers/send-limits.ts';
import { emptySchema } from './helpers/schema-pool.ts';
import { createDatabase, type TestDatabase } from './helpers/server.ts';
import { watchStatements, type SentStatement } from './helpers/statement-log.ts';
import { isVariant } from './fences/mutation.ts';

interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Join Filter'?: string;
  readonly 'Sort Space Type'?: string;
  readonly 'Shared Hit Blocks'?: number;
  readonly 'Shared Read Blocks'?: number;
  readonly Plans?: readonly PlanNode[];
}

// Together, these cases send almost every statement of the provider; `sendTheRest` sends the others.
const cases: readonly string[] = [
  'inspect/finds-stored-texts',
  'timeout/cancels-when-it-has-passed',
  'timeout/starts-again-with-a-retry',
  'start-delay/waits-for-its-time',
  'conflict/replaces-a-live-instance',
  'conflict/ends-the-tree',
  'task-conflict/replaces-a-queued-run',
  'task-conflict/waits-for-the-handler-of-failures',
  'turn-start/a-child-replaces-an-own-one',
  'dedupe/names-the-live-instance',
  'debounce/moves-a-run-that-has-not-started',
  'begin/a-moved-start-frees-its-place',
  'begin/a-version-that-is-not-runnable-takes-no-place',
  'window/is-deleted-with-its-run',
  'event-key/is-one-event',
  'event-key/is-deleted-with-its-instance',
  'record/drops-the-oldest',
  'record/a-repeat-is-not-written-twice',
  'record/a-job-has-no-recorded-stream',
  'record/turns-emit-once',
  'record/steps-emit-under-the-claim-of-their-instance',
  'record/is-deleted-with-its-instance',
  'record/a-long-stream-is-reclaimed',
  'update/keeps-the-last-replies',
  'update/a-retry-does-not-revive',
  'update/is-deleted-with-its-instance',
  'awakeable/is-answered-once',
  'awakeable/an-unknown-token-is-missing',
  'awakeable/a-withdrawn-one-is-missing',
  'awakeable/continue-as-new-closes',
  'headers/are-kept-with-the-instance',
  'headers/of-children-and-detached-starts',
  'series/batches-add-up',
  'series/reads-one-name-in-a-time',
  'series/counts-stops',
  'series/a-sweep-deletes-old-rows',
  'series/depths-are-the-last-ones',
  'list/by-paused',
  'retry-run/a-bulk-operation-retries-once',
  'fork/stores-its-tags',
  'state/is-written-by-the-ack',
  'state/is-deleted-with-its-instance',
  'retry-run/replaces-the-state',
  'retry-run/keeps-the-tags',
  'inspect/shows-who-runs-a-turn',
  'list/a-bounded-scan-leaves-no-gap',
  'list/by-unregistered',
  'list/by-end-order',
  'list/end-order-combines',
  'list/a-window-is-found-directly',
  'list/pairs-of-conditions-combine',
  'count/is-exact-below-its-cap',
  'definitions/are-counted-by-status',
  'definitions/come-in-pages',
  'retry-run/schedules-what-is-open',
  'retry-run/runs-a-task-again',
  'retry-run/a-taken-key-rejects',
  'retry-run/takes-its-key-again',
  'retry-run/copies-the-kept-events',
  'fork/schedules-what-is-open',
  'fork/a-repeat-exists',
  'audit/a-repeated-event-is-not-raised-twice',
  'audit/filters-combine',
  'tags/a-turn-merges-them',
  'tags/of-tasks-and-children',
  'tags/are-deleted-with-their-instance',
  'pause/a-whole-tree',
  'pause/a-resume-can-be-repeated',
  'pause/a-child-of-a-turn-under-way',
  'pause/no-work-is-claimed',
  'pause/messages-are-kept',
  'pause/a-definition-is-resumed',
  'pause/a-paused-activity-is-not-claimed-at-insert',
  'hold/keeps-what-waits-and-what-comes',
  'read/instances-end-at-their-bytes',
  'read/list-ends-at-its-bytes',
  'read/history-ends-at-its-bytes',
  'schedule/a-buffered-tick-is-due-after-the-run',
  'schedule/a-trigger-moves-no-tick',
  'schedule/list-ends-at-its-bytes',
  'session/list-ends-at-its-bytes',
  'inspect/lists-pending-work',
  'figures/queues-by-definition',
  'inspect/idle-ones-have-their-last-events',
  'view/events-are-filtered',
  'view/events-come-from-either-end',
  'view/tree-pages-have-no-gaps',
  'view/versions-come-in-the-order-asked',
  'unclaimed/lists-what-the-worker-cannot-run',
  'first-turn/commits-what-an-ack-commits',
  'first-turn/enqueues-no-start',
  'first-turn/reports-items-claimed-at-insert',
  'first-turn/can-end-the-instance',
  'first-turn/can-continue-as-new',
  'first-turn/of-a-taken-id-commits-nothing',
  'first-turn/can-be-followed-by-a-turn-ack',
  'lock/ends-at-its-moment',
  'lock/an-expired-claim-of-work-is-handed-out-again',
  'timer/that-is-withdrawn-never-fires',
  'message/to-an-instance-that-is-over-is-refused',
  'message/wakes-no-other-instance',
  'message/beyond-the-limit-is-full',
  'child/outlives-the-turn-that-ends-its-parent',
  'continue/old-completions-are-dropped',
  'retry/counts-a-failure-and-resets-the-claims',
  'renew/an-expired-lease-is-lost',
  'keep/resets-the-claims',
  'keep/ends-with-the-next-ack',
  'held/returns-the-time-of-the-next-timer',
  'stop/another-life-is-not-found',
  'stop/a-pending-instance-ends-at-once',
  'stop/what-is-over-stays-as-it-is',
  'cleanup/needs-no-code-once-it-has-expired',
  'cleanup/comes-first-where-messages-are-cut',
  'cleanup/lifts-a-hold-back',
  'canceled/handlers-that-go-on-are-counted',
  'canceled/waits-for-what-cannot-be-stopped',
  'canceled/can-be-listed',
  'terminate/ends-at-once',
  'terminate/a-repeat-changes-nothing',
  'no-return/later-requests-are-not-delivered',
  'task-ack/counts-failures-over-attempts',
  'key/names-the-active-run',
  'key/is-free-after-every-end',
  'expiry/goes-on-for-what-is-handed-back-unstarted',
  'on-fail/its-own-failure-is-kept',
  'schedule/a-write-can-be-fenced',
  'schedule/can-be-paused',
  'schedule/can-be-deleted',
  'session/opens-with-a-lease',
  'session/opens-once',
  'session/a-renewal-extends-the-lease',
  'session/is-renewed-while-it-drains',
  'session/is-listed-newest-first',
  'session/has-variables',
  'session/text-is-only-text',
  'session/leaves-others-alone',
  'session/waits-for-late-results',
  'session/is-removed-a-day-later',
  'job/goes-with-its-instance',
  'job/is-bound-to-its-session',
  'stream/comes-in-order',
  'read/list-filters-by-status',
  'delete/takes-everything',
  'reclaim/what-is-hidden-is-gone',
  'reclaim/goes-on-in-steps',
  'reclaim/spares-what-was-kept',
  'audit/one-operation-has-one-record',
  'prune/takes-outstanding-items',
  'scan/looks-at-no-more-than-asked',
  'family/children-come-in-the-order-asked',
  'lease/is-given-back-by-its-owner',
  'record/is-kept-as-it-is',
];

// Metrics count whole tables on demand, and a takeover scans them once per dead process.
const walking = [
  'perdure_queue_depths',
  'perdure_system_metrics',
  'perdure_end_items_of_processes',
  'perdure_end_locks_of_processes',
  'perdure_forget_processes',
  // The registry has a row per worker and at most 1,000 stale ones.
  'perdure_register_process',
  'perdure_register_workers',
  'perdure_list_workers',
  'perdure_mark_dead_workers',
];

type Queue = 'instances' | 'work' | 'tasks';

const schema = 'plans';
const sources = join(import.meta.dirname, '../../src/providers/postgres');

let database: TestDatabase;
let client: pg.Client;
/** The first column of each index that does not begin with an expression. */
let firstColumns: ReadonlyMap<string, string> = new Map();

beforeAll(async () => {
  database = await createDatabase();
  // With the settings of the provider's connections.
  client = new pg.Client(resolveOptions({ url: database.url }).connection.client);
  client.on('error', () => undefined);
  await client.connect();
}, 180_000);

afterAll(async () => {
  await client.end();
  await database.drop();
});

async function readFirstColumns(): Promise<ReadonlyMap<string, string>> {
  const { rows } = await client.query<{ index: string; column: string }>(
    `SELECT relname AS index, attname AS column
     FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
     WHERE relnamespace = $1::regnamespace AND indkey[0] > 0`,
    [schema],
  );
  return new Map(rows.map(({ index, column }) => [index, column]));
}

/** Whether the condition of an index scan has the first column. Otherwise the whole index is read. */
function isSought({ 'Index Name': index = '', 'Index Cond': condition }: PlanNode): boolean {
  const column = firstColumns.get(index);
  return condition !== undefined && (column === undefined || condition.includes(`${column} `));
}

/** The nodes of a plan that read a whole table, join row by row, or sort on disk. */
/** Tables with a row per definition, or per process of the last days. */
const smallTables: readonly string[] = [
  'definitions',
  'paused_definitions',
  'limits',
  'declared_limits',
  'series_writers',
];

function unbounded(node: PlanNode, isLimited = false): readonly string[] {
  const { 'Node Type': type, 'Relation Name': table, 'Join Filter': joinFilter = '' } = node;
  const isScan = type.endsWith(' Scan') && table !== undefined && !smallTables.includes(table);
  const isBounded = isSought(node) || isLimited || /^(Bitmap Heap|Tid) Scan$/.test(type);
  const bad: string[] = [];
  if (isScan && (type === 'Seq Scan' || !isBounded)) bad.push(`${type} on ${table}`);
  if (/\w\.\w+ = \w+\.\w/.test(joinFilter)) bad.push(`a loop with ${joinFilter}`);
  if (node['Sort Space Type'] === 'Disk') bad.push('a sort on disk');
  const limits = isLimited || type === 'Limit';
  return [...bad, ...(node.Plans ?? []).flatMap((plan) => unbounded(plan, limits))];
}

/** The plan of a statement with these values. */
async function explain(options: string, text: string, values: readonly unknown[] = []) {
  const { rows } = await client.query<{ 'QUERY PLAN': readonly [{ Plan: PlanNode }] }>({
    text: `EXPLAIN (${options}, FORMAT JSON) ${text}`,
    values: [...values],
  });
  const plan = rows[0]?.['QUERY PLAN'][0].Plan;
  if (plan === undefined) throw new Error('no plan');
  return plan;
}

/** The generic plan of a prepared statement. */
async function explainGenerically(text: string): Promise<PlanNode> {
  const count = Math.max(
    0,
    ...Array.from(text.matchAll(/\$(\d+)/g), ([, number]) => Number(number)),
  );
  const values = Array.from({ length: count }, () => 'NULL').join();
  await client.query(`PREPARE explained AS ${text}`);
  try {
    return await explain('COSTS OFF', `EXECUTE explained${count === 0 ? '' : `(${values})`}`);
  } finally {
    await client.query('DEALLOCATE explained');
  }
}

/** Sends the statements that no case sends: with the database clock, known names, a missing message, and processes. */
async function sendTheRest(): Promise<void> {
  const provider = await openPostgres({ url: database.url, schema, listen: false });
  for (const id of ['one', 'two', 'three']) {
    const firstTurn = newTurn({ events: [event('x')], workItems: [workItem(1)] });
    await provider.createInstances([newInstance(id, { firstTurn })]);
    await provider.createInstances([newInstance(id, { isRepeat: true })]);
  }
  const key = generateEventKey(0);
  await provider.enqueueMessages([{ instanceId: 'one', message: raised('x'), key }]);
  await client.query(`DELETE FROM ${schema}.orchestrator_queue`);
  expect(await provider.fetchOrchestrationItems({ max: 1, lockMs: 1, waitMs: 0 })).toEqual([]);
  await provider.registerProcess(newProcess('h'));
  await provider.listProcesses('h');
  await provider.registerWorkers([newWorker('w')]);
  await provider.renewWorkers({ workers: [{ workerId: 'w', inUse: 0, leaked: 0 }], hostId: 'h' });
  await provider.listWorkers();
  await provider.unregisterWorkers(['w']);
  await provider.takeOverClaims(['x']);
  await provider.unregisterProcess();
  await sendLimits(provider);
  // A list by end sorts few instances, and reads many in windows.
  await client.query(`INSERT INTO ${schema}.instances (instance_id, incarnation, definition_key, status, execution_id,
      history_length, input_hash, created_at, ended_at, completed_at)
    SELECT 'ended' || n, '', 1, 'completed', 1, 1, '', n, n, n FROM generate_series(1, 5000) AS n`);
  await provider.listInstances({ filter: {}, limit: 10, orderBy: 'ended', payloads: false });
  await provider.close();
}

/** The names of all statements in the sources, without those that read no table. */
function namesInSources(): readonly string[] {
  return readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) =>
      Array.from(
        readFileSync(join(sources, file), 'utf8').matchAll(/'(perdure_\w+)'/g),
        ([, name]) => name ?? '',
      ),
    )
    .filter((name) => !/^perdure_(notify|end_backend|migrations|transaction_)/.test(name));
}

/** The statements whose generic plans are unbounded. */
async function badPlans(statements: Iterable<SentStatement>): Promise<readonly string[]> {
  const bad: string[] = [];
  for (const { name, text } of statements) {
    if (walking.includes(name)) continue;
    const found = unbounded(await explainGenerically(text));
    if (found.length > 0) bad.push(`${name}: ${found.join(', ')}`);
  }
  return bad;
}

describe('query plans for empty queues', () => {
  it('no statement reads a whole table with plans for empty queues', async () => {
    const sent = watchStatements();
    const statements = new Map<string, SentStatement>();
    const chosen = conformanceCases.filter(({ id }) => cases.includes(id));
    let isMigrated = false;
    for (const one of chosen) {
      await runCase(one, {
        name: 'plans',
        create: async ({ clock }) => {
          if (isMigrated) await emptySchema(client, schema);
          isMigrated = true;
          return openPostgres({ url: database.url, schema, clock, poolSize: 2, listen: false });
        },
      });
      for (const statement of sent()) {
        if (statement.name.startsWith('perdure_')) statements.set(statement.name, statement);
      }
    }
    // A new schema, because deleted rows leave pages, and an empty table with pages has other plans.
    await client.query(`DROP SCHEMA ${schema} CASCADE`);
    await sendTheRest();
    for (const statement of sent()) statements.set(statement.name, statement);
    statements.delete('');
    firstColumns = await readFirstColumns();
    const names = namesInSources();
    // The driver rejects a second statement text under a name that its connection has prepared.
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
    const prepared = [...statements.keys()];
    const missing = names.filter((name) => !prepared.some((each) => isVariant(each, name)));
    expect(missing).toEqual([]);
    await client.query(`TRUNCATE ${schema}.instances, ${schema}.history, ${schema}.instance_locks,
      ${schema}.orchestrator_queue, ${schema}.worker_queue, ${schema}.executions, ${schema}.pending_reclaims,
      ${schema}.tombstones, ${schema}.audit, ${schema}.leases, ${schema}.system_records,
      ${schema}.dedupe_keys, ${schema}.schedules, ${schema}.sessions, ${schema}.jobs, ${schema}.chunks,
      ${schema}.streams, ${schema}.stream_chunks, ${schema}.instance_deadlines, ${schema}.event_keys, ${schema}.start_keys,
      ${schema}.deleted_starts; ANALYZE`);
    expect(await badPlans(statements.values())).toEqual([]);
    // No instance is live, so the planner would prefer a partial index of live instances.
    await client.query(`INSERT INTO ${schema}.instances (instance_id, incarnation, definition_key, status, execution_id,
        history_length, input_hash, created_at, ended_at, completed_at)
      SELECT n, '', 1, 'completed', 1, 1, '', 0, 0, 0 FROM generate_series(1, 5000) AS n`);
    await client.query('ANALYZE');
    expect(await badPlans(statements.values())).toEqual([]);
  }, 300_000);
});

describe(`with ${queued.toLocaleString('en')} queued rows`, () => {
  const full = 'crowded';

  beforeAll(async () => {
    const provider = await openPostgres({ url: database.url, schema: full, listen: false });
    await provider.close();
    await fillQueues(database.url, full);
  }, 300_000);

  /** The statements of a fetch that claims 100 rows. */
  async function statementsOf(call: Queue): Promise<readonly SentStatement[]> {
    const sent = watchStatements();
    const provider = await openPostgres({ url: database.url, schema: full, listen: false });
    const fetch = { max: 100, lockMs: 60_000, waitMs: 0 };
    sent();
    const names = ['mine', 'unknown'];
    // Twice: after a claim that found work, the next one uses a single statement.
    for (const _time of [1, 2]) {
      const claimed =
        call !== 'instances'
          ? await provider.fetchWorkItems({
              ...fetch,
              names: call === 'work' ? names : [],
              tasks: call === 'tasks' ? names : [],
            })
          : await provider.fetchOrchestrationItems({
              ...fetch,
              runnable: [{ name: 'mine', version: '1' }],
              buildId: 'this build',
            });
      expect(claimed).toHaveLength(100);
    }
    const statements = sent().filter(({ name }) => name.startsWith('perdure_'));
    await provider.close();
    return statements;
  }

  /** Runs statements, rolls them back, and returns the number of buffers that they read. */
  async function buffersOf(statements: readonly SentStatement[]): Promise<number> {
    await client.query('BEGIN');
    let buffers = 0;
    for (const { name, text, values } of statements) {
      const plan = await explain('ANALYZE, BUFFERS', text, values);
      expect({ name, bad: unbounded(plan) }).toEqual({ name, bad: [] });
      buffers += (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0);
    }
    await client.query('ROLLBACK');
    return buffers;
  }

  it.each(['instances', 'work', 'tasks'] as const)(
    'a claim of %s behind delayed and foreign rows reads under 8,000 buffers',
    async (call) => {
      const statements = await statementsOf(call);
      await client.query('VACUUM');
      expect(await buffersOf(statements)).toBeLessThan(8_000);
    },
    180_000,
  );

  it.each(['work', 'tasks'] as const)(
    'a claim of %s skips 1,000 locked rows within 10,000 buffers',
    async (call) => {
      const other = new pg.Client({ connectionString: database.url });
      await other.connect();
      const statements = await statementsOf(call);
      await other.query('BEGIN');
      await other.query(`SELECT FROM ${full}.worker_queue JOIN ${full}.definitions USING (definition_key)
      WHERE name = 'mine' AND kind = '${call === 'work' ? 'activity' : 'task'}' AND lock_token IS NULL
      ORDER BY priority DESC, next_at, item_key LIMIT 1000 FOR UPDATE OF worker_queue`);
      const buffers = await buffersOf(statements);
      await other.query('ROLLBACK');
      await other.end();
      expect(buffers).toBeLessThan(10_000);
    },
    180_000,
  );

  it.each(['work', 'tasks'] as const)(
    'a claim of %s skips 1,000 held rows within 16,000 buffers',
    async (call) => {
      await client.query(`UPDATE ${full}.worker_queue SET lock_token = 'other', locked_until = 1e15
        WHERE item_key = ANY (ARRAY(
          SELECT item_key FROM ${full}.worker_queue JOIN ${full}.definitions USING (definition_key)
          WHERE name = 'mine' AND kind = '${call === 'work' ? 'activity' : 'task'}' AND lock_token IS NULL
          ORDER BY priority DESC, next_at, item_key LIMIT 1000))`);
      const statements = await statementsOf(call);
      expect(await buffersOf(statements)).toBeLessThan(16_000);
    },
    60_000,
  );

  it('a cancel of 2,000 activities uses indexes and reads under 10,000 buffers', async () => {
    const sent = watchStatements();
    const provider = await openPostgres({ url: database.url, schema: full, listen: false });
    sent();
    const [result] = await provider.requestCancel([
      { instanceId: 'wide', reason: 'x', actor: null, cleanupMs: 60_000 },
    ]);
    expect(result).toMatchObject({ changed: true, status: 'canceling' });
    const statements = sent();
    await provider.close();
    expect(statements.length).toBeLessThan(15);
    for (const { name, text } of statements.filter((one) => one.name !== '')) {
      expect({ name, bad: unbounded(await explainGenerically(text)) }).toEqual({
        name,
        bad: [],
      });
    }
    const lock = statements.filter(({ name }) => name === 'perdure_lock_items_of_instances');
    expect(await buffersOf(lock)).toBeLessThan(10_000);
  }, 180_000);
});
