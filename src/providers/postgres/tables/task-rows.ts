import type { TerminalStatus } from '../../../model/status.ts';
import type { Payload } from '../../../model/values/payload.ts';
import type { OnFailState, NewTask } from '../../contract/tasks.ts';
import { booleans, numbers, texts } from '../driver/arrays.ts';
import { placeOf } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import { mustChange } from './instance-rows.ts';
import { onFailOperation, taskOperation } from './work-items.ts';

/** How a task run ends. */
export interface RunEnd {
  readonly instanceKey: number;
  readonly status: Exclude<TerminalStatus, 'terminated' | 'expired'>;
  /** As its item has it. */
  readonly startedAt: number | null;
  readonly output?: Payload | null;
  readonly failure?: string;
  /** What the worker knows to do about the failure. */
  readonly onFail?: { readonly options: string | null } | undefined;
  /** On record where it ends as canceled without having been asked to. */
  readonly reason?: string;
  readonly actor?: string | null;
}

/** How the handler for the failure of a run has ended. */
export interface OnFailEnd {
  readonly instanceKey: number;
  readonly state: OnFailState;
  readonly failure: string | null;
}

// The highest: what has failed is dealt with before more is begun, also by a worker that takes few because they fail.
const onFailPriority = 100;

// Bounds how long one claim is kept by runs that nobody came for.
const maxExpiredAtOnce = 500;

/** The writes to rows of `instances` that are task runs; none touches a terminal state. */
export class TaskRows {
  readonly #insert: Statement;
  readonly #end: Statement;
  readonly #enqueueOnFail: Statement;
  readonly #endOnFail: Statement;
  readonly #countFailures: Statement;
  readonly #expire: Statement;
  readonly #unstart: Statement;

  constructor(schema: string) {
    const table = `${schema}.instances`;
    const items = `${schema}.worker_queue`;
    this.#insert = {
      name: 'perdure_create_tasks',
      text: insertTasksText(schema, { strict: false }),
    };
    const endedAt = (status: RunEnd['status']) =>
      `${status}_at = CASE WHEN ended.status = '${status}' THEN $10::bigint END`;
    // The first wish stays; one that ends as canceled without having been asked to has its own reason on record.
    this.#end = {
      name: 'perdure_end_runs',
      text: `UPDATE ${table} AS run
        SET status = ended.status, started_at = ended.started_at, ended_at = $10::bigint, ${endedAt('completed')}, ${endedAt('failed')},
            ${endedAt('canceled')}, ${endedAt('skipped')}, output = ended.output, failure = ended.failure,
            failures = failures + CASE WHEN ended.status = 'failed' THEN 1 ELSE 0 END,
            on_fail = CASE WHEN ended.status = 'failed' AND (on_fail = 'ready' OR ended.brings_on_fail) THEN 'queued'
              ELSE on_fail END,
            on_fail_options = CASE WHEN on_fail IS NULL THEN ended.on_fail_options ELSE run.on_fail_options END,
            cancel_actor = CASE WHEN ended.status = 'canceled' AND cancel_requested_at IS NULL THEN ended.actor
              ELSE cancel_actor END,
            cancel_reason = CASE WHEN ended.status = 'canceled' THEN coalesce(cancel_reason, ended.reason)
              ELSE cancel_reason END,
            cancel_requested_at = CASE WHEN ended.status = 'canceled' THEN coalesce(cancel_requested_at, $10::bigint)
              ELSE cancel_requested_at END
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::text[], $8::text[],
            $9::bigint[])
          AS ended (instance_key, status, output, failure, brings_on_fail, on_fail_options, reason, actor, started_at)
        ${placeOf(table, 'one.instance_key = ended.instance_key')}
        WHERE run.ctid = found.place AND ended_at IS NULL`,
    };
    this.#enqueueOnFail = {
      name: 'perdure_enqueue_on_fail',
      text: `INSERT INTO ${items} (instance_key, execution_id, operation, definition_key, priority, next_at, claims,
          created_at, options)
        SELECT instance_key, 1, ${onFailOperation}, definition_key, ${onFailPriority}, $2::bigint, 0, $2::bigint, on_fail_options
        FROM ${table} WHERE instance_key = ANY ($1::bigint[]) AND on_fail = 'queued'`,
    };
    this.#endOnFail = {
      name: 'perdure_end_on_fail',
      text: `UPDATE ${table} AS run SET on_fail = ended.state, on_fail_failure = ended.failure
        FROM unnest($1::bigint[], $2::text[], $3::text[]) AS ended (instance_key, state, failure)
        ${placeOf(table, 'one.instance_key = ended.instance_key')}
        WHERE run.ctid = found.place`,
    };
    this.#countFailures = {
      name: 'perdure_count_failures',
      text: `UPDATE ${table} SET failures = failures + 1 WHERE instance_key = ANY ($1::bigint[])`,
    };
    // Its first claim started it, at that very moment.
    this.#unstart = {
      name: 'perdure_unstart_runs',
      text: `UPDATE ${items} AS item SET started_at = NULL, expires_at = (
          SELECT run.expires_at FROM ${table} AS run WHERE run.instance_key = item.instance_key AND ended_at IS NULL)
        WHERE item_key = ANY ($1::bigint[]) AND started_at = claimed_at AND item.cancel_requested_at IS NULL
        RETURNING expires_at AS "expiresAt"`,
    };
    // Waits for nobody: whoever holds a run, or its item, ends it or has it canceled.
    this.#expire = {
      name: 'perdure_expire_runs',
      text: `WITH due AS MATERIALIZED (
          SELECT item_key, instance_key FROM ${items} WHERE expires_at <= ${nowSql}
          ORDER BY expires_at LIMIT ${maxExpiredAtOnce} FOR UPDATE SKIP LOCKED
        ), runs AS MATERIALIZED (
          SELECT instance_key FROM ${table}
          WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM due)) AND ended_at IS NULL
          FOR NO KEY UPDATE SKIP LOCKED
        ), settled AS (
          DELETE FROM ${items} WHERE item_key = ANY (ARRAY(
            SELECT item_key FROM due WHERE instance_key IN (SELECT instance_key FROM runs)
              OR (SELECT 1 FROM ${table} AS live WHERE live.instance_key = due.instance_key AND ended_at IS NULL) IS NULL))
        ), freed AS (
          DELETE FROM ${schema}.dedupe_keys WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM runs))
        )
        UPDATE ${table} SET status = 'expired', ended_at = ${nowSql}, expired_at = ${nowSql}
        WHERE instance_key = ANY (ARRAY(SELECT instance_key FROM runs))
        RETURNING instance_id AS "instanceId"`,
    };
  }

  /** Inserts runs with their items and keys, as far as their ids and keys are free; no two have the same. */
  insert(tx: Transaction, rows: readonly TaskRow[], now: number): Promise<readonly InsertedTask[]> {
    return tx.query<InsertedTask>(this.#insert, [now, ...insertTasksValues(rows)]);
  }

  /** Ends runs that are locked and live; where one fails, its handler for that is enqueued. */
  async end(tx: Transaction, ends: readonly RunEnd[], now: number): Promise<void> {
    if (ends.length === 0) return;
    const failed = ends.filter(({ status }) => status === 'failed');
    const [changed] = await Promise.all([
      tx.execute(this.#end, [
        numbers(ends.map(({ instanceKey }) => instanceKey)),
        texts(ends.map(({ status }) => status)),
        texts(ends.map(({ output }) => output ?? null)),
        texts(ends.map(({ failure }) => failure ?? null)),
        booleans(ends.map(({ onFail }) => onFail !== undefined)),
        texts(ends.map(({ onFail }) => onFail?.options ?? null)),
        texts(ends.map(({ reason }) => reason ?? null)),
        texts(ends.map(({ actor }) => actor ?? null)),
        numbers(ends.map(({ startedAt }) => startedAt)),
        now,
      ]),
      failed.length === 0
        ? undefined
        : tx.execute(this.#enqueueOnFail, [
            numbers(failed.map(({ instanceKey }) => instanceKey)),
            now,
          ]),
    ]);
    mustChange(changed, ends.length);
  }

  /** Records how handlers for failures have ended. */
  async endOnFail(tx: Transaction, ends: readonly OnFailEnd[]): Promise<void> {
    if (ends.length === 0) return;
    await tx.execute(this.#endOnFail, [
      numbers(ends.map(({ instanceKey }) => instanceKey)),
      texts(ends.map(({ state }) => state)),
      texts(ends.map(({ failure }) => failure)),
    ]);
  }

  /** Counts one more failed attempt for each run. */
  async countFailures(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(this.#countFailures, [numbers(instanceKeys)]);
  }

  /** Makes items unstarted again that their last claim started; answers when their runs expire. */
  async unstart(tx: Transaction, itemKeys: readonly number[]): Promise<readonly number[]> {
    if (itemKeys.length === 0) return [];
    const rows = await tx.query<{ expiresAt: number | null }>(this.#unstart, [numbers(itemKeys)]);
    return rows.flatMap(({ expiresAt }) => expiresAt ?? []);
  }

  /** Ends runs that were to have started by now; some stay for the next call where there are many. Answers their ids. */
  async expire(tx: Transaction, nowParameter: number | null): Promise<readonly string[]> {
    const rows = await tx.query<{ instanceId: string }>(this.#expire, [nowParameter]);
    return rows.map(({ instanceId }) => instanceId);
  }
}

/** A task run to be inserted. */
export interface TaskRow {
  readonly task: NewTask;
  readonly definitionKey: number;
}

/** What became of one row, in the order of the rows. */
export interface InsertedTask {
  readonly instanceKey: number;
  readonly isCreated: boolean;
  /** It has taken its dedupe key. */
  readonly hasKey: boolean;
  /** When something is to be done about it; the past means now. */
  readonly dueAt: number;
}

/**
 * The statement that inserts runs with their items and keys. `strict` fails as a whole when an id or a key is taken, and
 * needs no look at either; otherwise such a run is left out, though it may have taken its key. `$1` is the clock's.
 */
export function insertTasksText(schema: string, { strict }: { readonly strict: boolean }): string {
  const unless = (columns: string) => (strict ? '' : `ON CONFLICT (${columns}) DO NOTHING`);
  const isNew = `(SELECT 1 FROM ${schema}.instances AS known WHERE known.instance_id = new.instance_id LIMIT 1) IS NULL`;
  return `WITH new AS MATERIALIZED (
      SELECT nextval('${schema}.instances_instance_key_seq') AS instance_key, one.*,
        coalesce(start_at, clock.now + delay_ms) AS run_at,
        coalesce(end_at, greatest(start_at, clock.now + delay_ms, clock.now) + expires_in_ms) AS expires_at
      FROM unnest($2::text[], $3::text[], $4::int[], $5::text[], $6::smallint[], $7::text[], $8::text[], $9::bigint[],
          $10::bigint[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[]) WITH ORDINALITY
        AS one (instance_id, incarnation, definition_key, input_hash, priority, input, options, start_at, end_at,
          dedupe_key, on_fail, on_fail_options, delay_ms, expires_in_ms, place)
      CROSS JOIN ${nowSql} AS clock (now)
    ), keyed AS (
      INSERT INTO ${schema}.dedupe_keys (definition_key, dedupe_key, instance_key)
      SELECT definition_key, dedupe_key, instance_key FROM new
      WHERE dedupe_key IS NOT NULL ${strict ? '' : `AND ${isNew}`}
      ORDER BY definition_key, dedupe_key ${unless('definition_key, dedupe_key')}
      RETURNING instance_key
    ), created AS (
      INSERT INTO ${schema}.instances (instance_key, instance_id, incarnation, definition_key, status, execution_id,
        history_length, input_hash, created_at, priority, input, options, run_at, expires_at, dedupe_key, failures,
        on_fail, on_fail_options)
      OVERRIDING SYSTEM VALUE
      SELECT instance_key, instance_id, incarnation, definition_key, 'pending', 1, 0, input_hash, ${nowSql}, priority,
        input, options, run_at, expires_at, dedupe_key, 0, on_fail, on_fail_options
      FROM new ${strict ? '' : 'WHERE dedupe_key IS NULL OR instance_key IN (SELECT instance_key FROM keyed)'}
      ORDER BY place ${unless('instance_id')}
      RETURNING instance_key
    ), queued AS (
      INSERT INTO ${schema}.worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at,
        expires_at, claims, created_at)
      SELECT instance_key, 1, ${taskOperation}, definition_key, priority, greatest(run_at, ${nowSql}), expires_at, 0,
        ${nowSql}
      FROM new ${strict ? '' : 'WHERE instance_key IN (SELECT instance_key FROM created)'}
      ORDER BY place
    )
    SELECT instance_key AS "instanceKey", least(coalesce(run_at, 0), expires_at) AS "dueAt", ${
      strict
        ? `TRUE AS "isCreated", dedupe_key IS NOT NULL AS "hasKey"`
        : `instance_key IN (SELECT instance_key FROM created) AS "isCreated",
           instance_key IN (SELECT instance_key FROM keyed) AS "hasKey"`
    } FROM new ORDER BY place`;
}

/** The values of the statement, after that of the clock. */
export function insertTasksValues(rows: readonly TaskRow[]): readonly unknown[] {
  const tasks = rows.map(({ task }) => task);
  return [
    texts(tasks.map(({ instanceId }) => instanceId)),
    texts(tasks.map(({ incarnation }) => incarnation)),
    numbers(rows.map(({ definitionKey }) => definitionKey)),
    texts(tasks.map(({ inputHash }) => inputHash)),
    numbers(tasks.map(({ priority }) => priority)),
    texts(tasks.map(({ payload }) => payload)),
    texts(tasks.map(({ options }) => options)),
    numbers(tasks.map(({ runAt }) => wholeOrNull(runAt))),
    numbers(tasks.map(({ expiresAt }) => wholeOrNull(expiresAt))),
    texts(tasks.map(({ dedupeKey }) => dedupeKey ?? null)),
    texts(tasks.map(({ onFail }) => (onFail === undefined ? null : 'ready'))),
    texts(tasks.map(({ onFail }) => onFail?.options ?? null)),
    numbers(tasks.map(({ delayMs }) => wholeOrNull(delayMs))),
    numbers(tasks.map(({ expiresInMs }) => wholeOrNull(expiresInMs))),
  ];
}

function wholeOrNull(time: number | undefined): number | null {
  return time === undefined ? null : Math.ceil(time);
}

/**
 * How far a task run has come, while it is not over. Its row says `pending` from its creation to its end, or to a request to
 * stop; whether and when it has started stands in its item. So a claim writes one row, and waits for nobody.
 * Each is an expression over a row of `instances` of the given name.
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

  /** When any instance has started. */
  startedAt(instance: string): string {
    return `coalesce(${instance}.started_at, CASE WHEN ${instance}.priority IS NOT NULL AND ${instance}.ended_at IS NULL
        THEN ${this.#itemStartedAt(instance, taskOperation)} END)`;
  }

  /** When the current execution of any instance has started: the only one that a run has. */
  executionStartedAt(instance: string): string {
    return `CASE WHEN ${instance}.priority IS NULL THEN ${instance}.execution_started_at ELSE ${this.startedAt(instance)} END`;
  }

  /** How far the handler for failures of a run has come. */
  onFail(instance: string): string {
    return `CASE WHEN ${instance}.on_fail = 'queued' AND ${this.#itemStartedAt(instance, onFailOperation)} IS NOT NULL
        THEN 'running' ELSE ${instance}.on_fail END`;
  }

  #itemStartedAt(instance: string, operation: number): string {
    return `(SELECT item.started_at FROM ${this.#items} AS item
        WHERE item.instance_key = ${instance}.instance_key AND item.execution_id = 1 AND item.operation = ${operation})`;
  }
}
