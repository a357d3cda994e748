import type { Payload } from '../../../model/values/payload.ts';
import type { TerminalStatus } from '../../../model/status.ts';
import type { OnFailState } from '../../contract/tasks.ts';
import { booleans, numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { mustChange } from './instance-rows.ts';
import {
  insertTasksText,
  insertTasksValues,
  type InsertedTask,
  type TaskRow,
} from './new-tasks.ts';
import { placeOf } from '../driver/lateral-lookup.ts';
import { nowSql } from '../driver/scope.ts';
import { onFailOperation } from './work-items.ts';

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
