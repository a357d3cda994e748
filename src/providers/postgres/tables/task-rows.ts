import type { TerminalStatus } from '../../../model/status.ts';
import type { Payload } from '../../../model/values/payload.ts';
import type { NewTask, OnFailState } from '../../contract/tasks.ts';
import { clock, keys, one, rowIdOf, prepare, rowsOf, type Column } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { mustChange, listEnd } from './instance-rows.ts';
import { limitedAmong } from './work-items.ts';
import { onFailOperation, taskOperation } from '../../shared/work-item-row.ts';

/** A task run to insert. */
export interface TaskRow {
  readonly task: NewTask;
  readonly definitionKey: number;
}

/** The result of inserting one `TaskRow`. */
export interface InsertedTask {
  readonly instanceKey: number;
  readonly isCreated: boolean;
  /** Whether the run took its dedupe key. */
  readonly hasKey: boolean;
  /** When the run can start or expires, whichever is first. A time in the past means now. */
  readonly dueAt: number;
}

/** The end of a task run. */
export interface RunEnd {
  readonly instanceKey: number;
  readonly status: Exclude<TerminalStatus, 'terminated' | 'expired'>;
  /** Copied from the work item. */
  readonly startedAt: number | null;
  readonly output?: Payload | null;
  readonly failure?: string;
  /** The on-fail handler that the worker's definition has. */
  readonly onFail?: { readonly options: string | null } | undefined;
  /** Recorded as the cancel reason of a run that ends as canceled without a cancel request. */
  readonly reason?: string;
  readonly actor?: string | null;
  readonly trigger?: 'timeout' | undefined;
}

/** The end of a run's on-fail handler. */
export interface OnFailEnd {
  readonly instanceKey: number;
  readonly state: OnFailState;
  readonly failure: string | null;
}

// The highest priority: on-fail handlers run before new work, even in a worker whose circuit breaker limits its claims.
const onFailPriority = 100;

// Bounds how long one claim spends on expired runs.
const maxExpiredPerCall = 500;

/** The table `instances`: task runs. No write changes a terminal state. */
export class TaskRows {
  readonly #insert: (rows: readonly TaskRow[]) => InsertTasks;
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#insert = insertTasks(schema, { name: 'perdure_create_tasks', strict: false });
    this.#sql = statements(schema);
  }

  /** Inserts runs whose ids and dedupe keys are free, with their work items. All ids and keys must differ. */
  insert(tx: Transaction, rows: readonly TaskRow[], now: number): Promise<readonly InsertedTask[]> {
    return tx.query<InsertedTask>(...this.#insert(rows)({ now, rows }));
  }

  /** Ends live runs that this transaction has locked. Enqueues the on-fail handlers of failed runs. */
  async end(tx: Transaction, ends: readonly RunEnd[], now: number): Promise<void> {
    if (ends.length === 0) return;
    const failed = ends.filter(({ status }) => status === 'failed');
    const failedKeys = failed.map(({ instanceKey }) => instanceKey);
    const [changed] = await Promise.all([
      tx.execute(...this.#sql.end({ ends, now })),
      failed.length > 0 &&
        tx.execute(...this.#sql.enqueueOnFail({ instanceKeys: failedKeys, now })),
    ]);
    mustChange(changed, ends.length);
  }

  /** Records the ends of on-fail handlers. */
  async endOnFail(tx: Transaction, ends: readonly OnFailEnd[]): Promise<void> {
    if (ends.length > 0) await tx.execute(...this.#sql.endOnFail({ ends }));
  }

  /** Adds one failed attempt to each run. */
  async countFailures(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.countFailures({ instanceKeys }));
  }

  /** Resets items that their current claim started to unstarted. Returns when their runs expire. */
  async unstart(tx: Transaction, itemKeys: readonly number[]): Promise<readonly number[]> {
    if (itemKeys.length === 0) return [];
    const rows = await tx.query<{ expiresAt: number | null }>(...this.#sql.unstart({ itemKeys }));
    return rows.flatMap(({ expiresAt }) => expiresAt ?? []);
  }

  /** Ends runs whose time to start has passed, at most 500 per call. Returns their ids. */
  async expire(tx: Transaction, nowParameter: number | null): Promise<readonly string[]> {
    const rows = await tx.query<{ instanceId: string }>(...this.#sql.expire({ now: nowParameter }));
    return rows.map(({ instanceId }) => instanceId);
  }
}

const shortColumns = {
  instance_id: ['text', ({ task }) => task.instanceId],
  incarnation: ['text', ({ task }) => task.incarnation],
  definition_key: ['int', ({ definitionKey }) => definitionKey],
  input_hash: ['text', ({ task }) => task.inputHash],
  priority: ['smallint', ({ task }) => task.priority],
  input: ['text', ({ task }) => task.payload],
} as const satisfies Record<string, Column<TaskRow>>;

const taskColumns = {
  ...shortColumns,
  options: ['text', ({ task }) => task.options],
  start_at: ['bigint', ({ task }) => wholeOrNull(task.runAt)],
  end_at: ['bigint', ({ task }) => wholeOrNull(task.expiresAt)],
  dedupe_key: ['text', ({ task }) => task.dedupeKey ?? null],
  on_fail: ['text', ({ task }) => (task.onFail === undefined ? null : 'ready')],
  on_fail_options: ['text', ({ task }) => task.onFail?.options ?? null],
  delay_ms: ['bigint', ({ task }) => wholeOrNull(task.delayMs)],
  expires_in_ms: ['bigint', ({ task }) => wholeOrNull(task.expiresInMs)],
} as const satisfies Record<string, Column<TaskRow>>;

/** The columns that a statement inserts: `short` has no options, times, keys and on-fail handlers. */
type RunColumns = 'short' | 'all' | 'lanes';

// Sent only if a run needs them, so that other runs do not pay for the columns. Short rows take 0.81 × the server's CPU time.
const rowLists = {
  short: rowsOf<TaskRow>()(shortColumns),
  all: rowsOf<TaskRow>()(taskColumns),
  lanes: rowsOf<TaskRow>()({
    ...taskColumns,
    new_lane: ['text', ({ task }) => task.lane?.key ?? null],
    new_weight: ['smallint', ({ task }) => task.lane?.weight ?? null],
  }),
} as const;

function columnsOf(rows: readonly TaskRow[]): RunColumns {
  if (rows.some(({ task }) => task.lane !== undefined)) return 'lanes';
  const isShort = rows.every(
    ({ task }) =>
      task.options === null &&
      task.runAt === undefined &&
      task.delayMs === undefined &&
      task.expiresAt === undefined &&
      task.expiresInMs === undefined &&
      task.dedupeKey === undefined &&
      task.onFail === undefined,
  );
  return isShort ? 'short' : 'all';
}

/** The statement that inserts task runs with their work items and dedupe keys. */
export type InsertTasks = ReturnType<typeof insertStatement>;

interface InsertOptions {
  readonly name: string;
  readonly strict: boolean;
}

/** The result of a `strict` insert: one row. */
export interface InsertedTasks {
  /** Separated by commas, in the order of the tasks. */
  readonly instanceKeys: string;
  /** When the first run can start or expires. A time in the past means now. */
  readonly dueAt: number;
}

/**
 * Prepares the statements that insert task runs, one per list of columns. If an id or dedupe key is taken, a `strict`
 * statement fails as a whole, and one that is not `strict` skips the run. A skipped run may have taken its dedupe key. A `strict`
 * one returns an `InsertedTasks`, the other an `InsertedTask` per task.
 */
export function insertTasks(
  schema: string,
  { name, strict }: InsertOptions,
): (rows: readonly TaskRow[]) => InsertTasks {
  const byColumns = {
    short: insertStatement(schema, { name, strict, columns: 'short' }),
    all: insertStatement(schema, { name: `${name}_with_options`, strict, columns: 'all' }),
    lanes: insertStatement(schema, { name: `${name}_with_lanes`, strict, columns: 'lanes' }),
  };
  return (rows) => byColumns[columnsOf(rows)];
}

function insertStatement(
  schema: string,
  { name, strict, columns }: InsertOptions & { readonly columns: RunColumns },
) {
  const [isShort, hasLanes] = [columns === 'short', columns === 'lanes'];
  const isLimited = `definition_key = ANY ((SELECT keys FROM limited)::int[])`;
  const lane = hasLanes
    ? `CASE WHEN ${isLimited} THEN coalesce(new_lane, '') END, CASE WHEN ${isLimited} THEN definition_key END, new_weight`
    : `CASE WHEN ${isLimited} THEN '' END, CASE WHEN ${isLimited} THEN definition_key END, NULL`;
  const unless = (columns: string) => (strict ? '' : `ON CONFLICT (${columns}) DO NOTHING`);
  const isNew = `(SELECT 1 FROM ${schema}.instances AS known WHERE known.instance_id = new.instance_id LIMIT 1) IS NULL`;
  // The columns of `instances` that short rows leave NULL.
  const more = isShort ? '' : ', options, run_at, expires_at, dedupe_key, on_fail, on_fail_options';
  const times = isShort
    ? ''
    : `, coalesce(start_at, clock.now + delay_ms) AS run_at,
        coalesce(end_at, greatest(start_at, clock.now + delay_ms, clock.now) + expires_in_ms) AS expires_at`;
  const keyed = isShort
    ? ''
    : `keyed AS (
      INSERT INTO ${schema}.dedupe_keys (definition_key, dedupe_key, instance_key)
      SELECT definition_key, dedupe_key, instance_key FROM new
      WHERE dedupe_key IS NOT NULL ${strict ? '' : `AND ${isNew}`}
      ORDER BY definition_key, dedupe_key ${unless('definition_key, dedupe_key')}
      RETURNING instance_key
    ), `;
  const hasKey =
    strict || isShort
      ? ''
      : 'WHERE dedupe_key IS NULL OR instance_key IN (SELECT instance_key FROM keyed)';
  const dueAt = isShort ? '0::bigint' : 'least(coalesce(run_at, 0), expires_at)';
  return prepare(
    name,
    { now: clock, rows: rowLists[columns] },
    ({ rows }) => `WITH limited AS MATERIALIZED (
      SELECT ${limitedAmong(schema, rows.column('definition_key'))} AS keys
    ), new AS MATERIALIZED (
      SELECT nextval('${schema}.instances_instance_key_seq') AS instance_key, one.*${times}
      FROM ${rows.withPlace('one')}
      CROSS JOIN ${nowSql} AS clock (now)
    ), ${keyed}created AS (
      INSERT INTO ${schema}.instances (instance_key, instance_id, incarnation, definition_key, status, execution_id,
        history_length, input_hash, created_at, failures, priority, input${more})
      OVERRIDING SYSTEM VALUE
      SELECT instance_key, instance_id, incarnation, definition_key, 'pending', 1, 0, input_hash, ${nowSql}, 0, priority,
        input${more}
      FROM new ${hasKey}
      ORDER BY place ${unless('instance_id')}
      ${strict ? '' : 'RETURNING instance_key'}
    ), queued AS (
      INSERT INTO ${schema}.worker_queue (instance_key, execution_id, operation, definition_key, priority, claims,
        created_at, next_at${isShort ? '' : ', expires_at'}, lane, limit_key, weight)
      SELECT instance_key, 1, ${taskOperation}, definition_key, priority, 0, ${nowSql},
        ${isShort ? nowSql : `greatest(run_at, ${nowSql}), expires_at`}, ${lane}
      FROM new ${strict ? '' : 'WHERE instance_key IN (SELECT instance_key FROM created)'}
      ORDER BY place
    )${
      hasLanes
        ? `, kept AS (
      INSERT INTO ${schema}.run_lanes (instance_key, lane, weight)
      SELECT instance_key, new_lane, new_weight FROM new
      WHERE new_lane IS NOT NULL ${strict ? '' : 'AND instance_key IN (SELECT instance_key FROM created)'}
    )`
        : ''
    }
    ${
      strict
        ? `SELECT coalesce(string_agg(instance_key::text, ',' ORDER BY place), '') AS "instanceKeys", min(${dueAt}) AS "dueAt" FROM new`
        : `SELECT instance_key AS "instanceKey", ${dueAt} AS "dueAt",
        instance_key IN (SELECT instance_key FROM created) AS "isCreated",
        ${isShort ? 'FALSE' : 'instance_key IN (SELECT instance_key FROM keyed)'} AS "hasKey" FROM new ORDER BY place`
    }`,
  );
}

/** The lane, the limit key and the weight of a new item of a task run, over a row of `instances` with this alias. */
export function laneOfRun(schema: string, run: string): string {
  const kept = (column: string) =>
    `(SELECT ${column} FROM ${schema}.run_lanes AS kept WHERE kept.instance_key = ${run}.instance_key)`;
  const isLimited = `(SELECT '' FROM ${schema}.limits AS limited WHERE limited.definition_key = abs(${run}.definition_key))`;
  return `coalesce(${kept('lane')}, ${isLimited}), CASE WHEN ${isLimited} IS NOT NULL THEN ${run}.definition_key END, ${kept('weight')}`;
}

function wholeOrNull(time: number | undefined): number | null {
  return time === undefined ? null : Math.ceil(time);
}

const endRows = rowsOf<RunEnd>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  status: ['text', ({ status }) => status],
  output: ['text', ({ output }) => output ?? null],
  failure: ['text', ({ failure }) => failure ?? null],
  brings_on_fail: ['boolean', ({ onFail }) => onFail !== undefined],
  on_fail_options: ['text', ({ onFail }) => onFail?.options ?? null],
  reason: ['text', ({ reason }) => reason ?? null],
  actor: ['text', ({ actor }) => actor ?? null],
  trigger: ['text', ({ trigger }) => trigger ?? null],
  started_at: ['bigint', ({ startedAt }) => startedAt],
});

function statements(schema: string) {
  const [runs, items] = [`${schema}.instances`, `${schema}.worker_queue`];
  const endedAt = (status: RunEnd['status'], now: string) =>
    `${status}_at = CASE WHEN ended.status = '${status}' THEN ${now} END`;
  const instanceKeys = keys();
  const now = one<number>('bigint');
  return {
    // The first cancel request stays. A run that ends as canceled without a request records its own reason.
    end: prepare(
      'perdure_end_runs',
      { ends: endRows, now },
      ({ ends, now }) => `UPDATE ${runs} AS run
        SET status = ended.status, ${listEnd('ended.status')}, started_at = ended.started_at, ended_at = ${now}, ${endedAt('completed', now)},
            ${endedAt('failed', now)}, ${endedAt('canceled', now)}, ${endedAt('skipped', now)}, output = ended.output,
            failure = ended.failure, failures = failures + CASE WHEN ended.status = 'failed' THEN 1 ELSE 0 END,
            on_fail = CASE WHEN ended.status = 'failed' AND (on_fail = 'ready' OR ended.brings_on_fail) THEN 'queued'
              ELSE on_fail END,
            on_fail_options = CASE WHEN on_fail IS NULL THEN ended.on_fail_options ELSE run.on_fail_options END,
            cancel_actor = CASE WHEN ended.status = 'canceled' AND cancel_requested_at IS NULL THEN ended.actor
              ELSE cancel_actor END,
            cancel_cause = CASE WHEN ended.status = 'canceled' AND cancel_requested_at IS NULL THEN ended.trigger
              ELSE cancel_cause END,
            cancel_reason = CASE WHEN ended.status = 'canceled' THEN coalesce(cancel_reason, ended.reason)
              ELSE cancel_reason END,
            cancel_requested_at = CASE WHEN ended.status = 'canceled' THEN coalesce(cancel_requested_at, ${now})
              ELSE cancel_requested_at END
        FROM ${ends.as('ended')}
        ${rowIdOf(runs, 'one.instance_key = ended.instance_key')}
        WHERE run.ctid = found.row_id AND ended_at IS NULL`,
    ),
    enqueueOnFail: prepare(
      'perdure_enqueue_on_fail',
      { instanceKeys, now },
      ({ instanceKeys, now }) => `INSERT INTO ${items} (instance_key, execution_id, operation,
          definition_key, priority,
          next_at, claims, created_at, options, lane, limit_key, weight)
        SELECT instance_key, 1, ${onFailOperation}, definition_key, ${onFailPriority}, ${now}, 0, ${now}, on_fail_options,
          ${laneOfRun(schema, 'run')}
        FROM ${runs} AS run WHERE instance_key = ANY (${instanceKeys}) AND on_fail = 'queued'`,
    ),
    endOnFail: prepare(
      'perdure_end_on_fail',
      {
        ends: rowsOf<OnFailEnd>()({
          instance_key: 'bigint',
          state: ['text', ({ state }) => state],
          failure: 'text',
        }),
      },
      ({ ends }) => `UPDATE ${runs} AS run SET on_fail = ended.state, on_fail_failure =
          ended.failure
        FROM ${ends.as('ended')}
        ${rowIdOf(runs, 'one.instance_key = ended.instance_key')}
        WHERE run.ctid = found.row_id`,
    ),
    countFailures: prepare(
      'perdure_count_failures',
      { instanceKeys },
      ({ instanceKeys }) =>
        `UPDATE ${runs} SET failures = failures + 1 WHERE instance_key = ANY (${instanceKeys})`,
    ),
    // The first claim sets `started_at` and `claimed_at` to the same time.
    unstart: prepare(
      'perdure_unstart_runs',
      { itemKeys: keys() },
      ({ itemKeys }) => `UPDATE ${items} AS item SET started_at = NULL, expires_at = (
          SELECT run.expires_at FROM ${runs} AS run WHERE run.instance_key = item.instance_key AND ended_at IS NULL)
        WHERE item_key = ANY (${itemKeys}) AND started_at = claimed_at AND item.cancel_requested_at IS NULL
        RETURNING expires_at AS "expiresAt"`,
    ),
    // Skips locked rows: the transaction that holds a run or its item claims or ends it.
    expire: prepare(
      'perdure_expire_runs',
      { now: clock },
      () => `WITH due AS MATERIALIZED (
          SELECT item_key, instance_key FROM ${items} WHERE expires_at <= ${nowSql}
          ORDER BY expires_at LIMIT ${maxExpiredPerCall} FOR UPDATE SKIP LOCKED
        ), runs AS MATERIALIZED (
          SELECT instance_key FROM ${runs}
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM due)) AND ended_at IS NULL
          FOR NO KEY UPDATE SKIP LOCKED
        ), settled AS (
          DELETE FROM ${items} WHERE item_key = ANY (ARRAY(
            SELECT item_key FROM due WHERE instance_key IN (SELECT instance_key FROM runs)
              OR (SELECT 1 FROM ${runs} AS live WHERE live.instance_key = due.instance_key AND ended_at IS NULL) IS NULL))
        ), freed AS (
          DELETE FROM ${schema}.dedupe_keys WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM runs))
        )
        UPDATE ${runs} SET status = 'expired', ${listEnd("'expired'")}, ended_at = ${nowSql}, expired_at = ${nowSql}, paused_at = NULL,
          paused_reason = NULL, paused_actor = NULL, paused_tree = NULL
        WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM runs))
        RETURNING instance_id AS "instanceId"`,
    ),
  };
}

/**
 * SQL expressions for the status of task runs, over a row of `instances` with the given alias.
 *
 * The row of a live run keeps the status `pending` until it ends or is asked to stop. Whether it has started is stored in
 * its work item only, so that a claim writes a single row and does not wait for a lock on the instance.
 */
export class RunState {
  readonly #items: string;

  constructor(schema: string) {
    this.#items = `${schema}.worker_queue`;
  }

  /** The status of any instance. */
  status(instance: string): string {
    return `CASE WHEN ${instance}.status = 'pending' AND ${instance}.priority IS NOT NULL
        AND ${this.#itemStartedAt(instance, taskOperation)} IS NOT NULL THEN 'running' ELSE ${instance}.status END`;
  }

  /** The start time of any instance. */
  startedAt(instance: string): string {
    return `coalesce(${instance}.started_at, CASE WHEN ${instance}.priority IS NOT NULL AND ${instance}.ended_at IS NULL
        THEN ${this.#itemStartedAt(instance, taskOperation)} END)`;
  }

  /** The start time of the current execution of any instance. A task run has only one execution. */
  executionStartedAt(instance: string): string {
    return `CASE WHEN ${instance}.priority IS NULL THEN ${instance}.execution_started_at ELSE ${this.startedAt(instance)} END`;
  }

  /** The state of a run's on-fail handler. */
  onFail(instance: string): string {
    return `CASE WHEN ${instance}.on_fail = 'queued' AND ${this.#itemStartedAt(instance, onFailOperation)} IS NOT NULL
        THEN 'running' ELSE ${instance}.on_fail END`;
  }

  #itemStartedAt(instance: string, operation: number): string {
    return `(SELECT item.started_at FROM ${this.#items} AS item
        WHERE item.instance_key = ${instance}.instance_key AND item.execution_id = 1 AND item.operation = ${operation})`;
  }
}
