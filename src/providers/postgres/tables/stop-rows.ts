import { booleans, numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { instanceColumns, mustChange, type InstanceRow } from './instance-rows.ts';
import { placeOf } from '../driver/columns.ts';

/** An instance that is stopped, with who asked and why. */
export interface StopRow {
  readonly instanceKey: number;
  readonly reason: string;
  readonly actor: string | null;
}

/** An instance that is terminated. */
export interface TerminationRow extends StopRow {
  /** Of a task run: as its item has it. */
  readonly runStartedAt: number | null;
}

/** A child, with the execution of its parent that started it. */
export interface ChildRow extends InstanceRow {
  readonly parentInstanceId: string;
}

/** The writes that stop rows of `instances`; each keeps the first wish, and none touches a terminal state. */
export class StopRows {
  readonly #cancelPending: Statement;
  readonly #requestCancel: Statement;
  readonly #close: Statement;
  readonly #finishClosing: Statement;
  readonly #terminate: Statement;
  readonly #countLeaked: Statement;
  readonly #lockChildren: Statement;

  constructor(schema: string) {
    const table = `${schema}.instances`;
    const stopped = `FROM unnest($1::bigint[], $2::text[], $3::text[]) AS stop (instance_key, reason, actor)
      ${placeOf(table, 'one.instance_key = stop.instance_key')}
      WHERE instance.ctid = found.place`;
    const asked = `cancel_requested_at = $4::bigint, cancel_reason = stop.reason, cancel_actor = stop.actor`;
    this.#cancelPending = {
      name: 'perdure_cancel_pending',
      text: `UPDATE ${table} AS instance
        SET status = 'canceled', ended_at = $4::bigint, canceled_at = $4::bigint, history_length = 1, ${asked}
        ${stopped} AND (status = 'pending') IS TRUE`,
    };
    this.#requestCancel = {
      name: 'perdure_request_cancel',
      text: `UPDATE ${table} AS instance SET status = 'canceling', ${asked} ${stopped}
        AND (status = 'running' OR status = 'pending' AND priority IS NOT NULL) IS TRUE`,
    };
    // One that ends as canceled without having been asked to has its own reason on record.
    this.#close = {
      name: 'perdure_close_instances',
      text: `UPDATE ${table} AS instance
        SET status = 'canceling', closing_reason = closed.reason, cleanup_skipped = closed.cleanup_skipped,
            cancel_requested_at = coalesce(cancel_requested_at, $4::bigint),
            cancel_reason = coalesce(cancel_reason, closed.reason)
        FROM unnest($1::bigint[], $2::text[], $3::boolean[]) AS closed (instance_key, reason, cleanup_skipped)
        ${placeOf(table, 'one.instance_key = closed.instance_key')}
        WHERE instance.ctid = found.place AND ended_at IS NULL`,
    };
    this.#finishClosing = {
      name: 'perdure_finish_closing',
      text: `UPDATE ${table} AS instance
        SET status = 'canceled', ended_at = $2::bigint, canceled_at = $2::bigint, closing_reason = NULL
        WHERE instance_key = ANY ($1::bigint[]) AND ended_at IS NULL AND closing_reason IS NOT NULL
          AND (SELECT 1 FROM ${schema}.worker_queue AS item
               WHERE item.instance_key = instance.instance_key AND item.cancellation <> 'abandon' LIMIT 1) IS NULL
        RETURNING instance_key AS "instanceKey"`,
    };
    this.#terminate = {
      name: 'perdure_terminate_instances',
      text: `UPDATE ${table} AS instance
        SET status = 'terminated', ended_at = $4::bigint, terminated_at = $4::bigint, terminate_reason = stop.reason,
            terminate_actor = stop.actor, history_length = history_length + CASE WHEN priority IS NULL THEN 1 ELSE 0 END,
            started_at = coalesce(started_at, run_started_at)
        FROM unnest($1::bigint[], $2::text[], $3::text[], $5::bigint[])
          AS stop (instance_key, reason, actor, run_started_at)
        ${placeOf(table, 'one.instance_key = stop.instance_key')}
        WHERE instance.ctid = found.place AND ended_at IS NULL AND closing_reason IS NULL`,
    };
    this.#countLeaked = {
      name: 'perdure_count_leaked',
      text: `UPDATE ${table} AS instance SET leaked = leaked + leaks.count
        FROM unnest($1::bigint[], $2::int[]) AS leaks (instance_key, count)
        ${placeOf(table, 'one.instance_key = leaks.instance_key')}
        WHERE instance.ctid = found.place`,
    };
    // The children of later executions have greater keys, so those of thousands of executions before are not read.
    this.#lockChildren = {
      name: 'perdure_lock_children',
      text: `SELECT ${instanceColumns} FROM ${table} WHERE instance_key = ANY (ARRAY(
          SELECT child.instance_key
          FROM unnest($1::text[], $2::int[]) AS parent (instance_id, execution_id)
          CROSS JOIN LATERAL (
            SELECT instance_key FROM ${table} AS one
            WHERE one.parent_instance_id = parent.instance_id AND one.parent_execution_id >= parent.execution_id
              AND one.cancellation <> 'abandon' AND ($3 OR one.ended_at IS NULL)
            OFFSET 0) AS child))
        ORDER BY instance_key FOR NO KEY UPDATE`,
    };
  }

  /** Ends instances that never ran; the history of each is one event. */
  async cancelPending(tx: Transaction, rows: readonly StopRow[], now: number): Promise<void> {
    await this.#stop(tx, this.#cancelPending, { rows, now });
  }

  /** Makes running instances `canceling`. */
  async requestCancel(tx: Transaction, rows: readonly StopRow[], now: number): Promise<void> {
    await this.#stop(tx, this.#requestCancel, { rows, now });
  }

  /** Makes instances `terminated`, with one event more; task runs have none. */
  async terminate(tx: Transaction, rows: readonly TerminationRow[], now: number): Promise<void> {
    const starts = numbers(rows.map(({ runStartedAt }) => runStartedAt));
    await this.#stop(tx, this.#terminate, { rows, now, more: [starts] });
  }

  /** Records that turns end as canceled; the instances stay `canceling` until nothing of them runs. */
  async close(
    tx: Transaction,
    rows: readonly {
      readonly instanceKey: number;
      readonly reason: string;
      readonly cleanupSkipped: boolean;
    }[],
    now: number,
  ): Promise<void> {
    if (rows.length === 0) return;
    const changed = await tx.execute(this.#close, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      texts(rows.map(({ reason }) => reason)),
      booleans(rows.map(({ cleanupSkipped }) => cleanupSkipped)),
      now,
    ]);
    mustChange(changed, rows.length);
  }

  /** Makes those of the instances `canceled` that were closed and have nothing left that is waited for. */
  async finishClosing(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
  ): Promise<readonly number[]> {
    if (instanceKeys.length === 0) return [];
    const rows = await tx.query<{ instanceKey: number }>(this.#finishClosing, [
      numbers(instanceKeys),
      now,
    ]);
    return rows.map(({ instanceKey }) => instanceKey);
  }

  /** Counts handlers that went on past their grace period. */
  async countLeaked(tx: Transaction, leaks: ReadonlyMap<number, number>): Promise<void> {
    if (leaks.size === 0) return;
    await tx.execute(this.#countLeaked, [numbers([...leaks.keys()]), numbers([...leaks.values()])]);
  }

  /** Locks the children that go with their parents, from an execution on: the live ones, or also the ended. */
  async lockChildren(
    tx: Transaction,
    parents: readonly { readonly instanceId: string; readonly executionId: number }[],
    which: 'live' | 'all',
  ): Promise<readonly ChildRow[]> {
    if (parents.length === 0) return [];
    return tx.query<ChildRow>(this.#lockChildren, [
      texts(parents.map(({ instanceId }) => instanceId)),
      numbers(parents.map(({ executionId }) => executionId)),
      which === 'all',
    ]);
  }

  async #stop(
    tx: Transaction,
    statement: Statement,
    {
      rows,
      now,
      more = [],
    }: {
      readonly rows: readonly StopRow[];
      readonly now: number;
      readonly more?: readonly unknown[];
    },
  ): Promise<void> {
    if (rows.length === 0) return;
    const changed = await tx.execute(statement, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      texts(rows.map(({ reason }) => reason)),
      texts(rows.map(({ actor }) => actor)),
      now,
      ...more,
    ]);
    mustChange(changed, rows.length);
  }
}
