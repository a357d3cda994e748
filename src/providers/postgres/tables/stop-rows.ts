import type { CancelDetails } from '../../../model/cancel.ts';
import { keys, one, rowIdOf, prepare, rowsOf, type Bind } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import {
  instanceColumns,
  mustChange,
  type InstanceRow,
  listEnd,
  removeLive,
} from './instance-rows.ts';

/** An instance to stop, with the actor and the reason. */
export interface StopRow extends CancelDetails {
  readonly instanceKey: number;
}

/** An instance to terminate. */
export interface TerminationRow extends StopRow {
  /** The start time of a task run, copied from its work item. */
  readonly runStartedAt: number | null;
}

/** An instance with a parent. */
export interface ChildRow extends InstanceRow {
  readonly parentInstanceId: string;
}

interface Closing {
  readonly instanceKey: number;
  readonly reason: string;
  readonly cleanupSkipped: boolean;
}

interface Parent {
  readonly instanceId: string;
  readonly executionId: number;
}

/** The table `instances`: cancels and terminations. Each keeps the first request; none changes a terminal state. */
export class StopRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Ends instances that never ran. The history of each has one event. */
  async cancelPending(tx: Transaction, rows: readonly StopRow[], now: number): Promise<void> {
    await write(tx, this.#sql.cancelPending, rows, now);
  }

  /** Makes running instances and pending task runs `canceling`. */
  async requestCancel(tx: Transaction, rows: readonly StopRow[], now: number): Promise<void> {
    await write(tx, this.#sql.requestCancel, rows, now);
  }

  /** Makes instances `terminated` and counts one more event, except for task runs, which have no history. */
  async terminate(tx: Transaction, rows: readonly TerminationRow[], now: number): Promise<void> {
    await write(tx, this.#sql.terminate, rows, now);
  }

  /** Records that a turn ended as canceled. The instance stays `canceling` until its work has stopped. */
  async close(tx: Transaction, rows: readonly Closing[], now: number): Promise<void> {
    await write(tx, this.#sql.close, rows, now);
  }

  /** Makes closed instances `canceled` if no work item that they wait for is left. Returns their keys. */
  async finishClosing(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
  ): Promise<readonly number[]> {
    if (instanceKeys.length === 0) return [];
    const rows = await tx.query<{ instanceKey: number }>(
      ...this.#sql.finishClosing({ instanceKeys, now }),
    );
    return rows.map(({ instanceKey }) => instanceKey);
  }

  /** Adds to the number of leaked handlers, by instance key. */
  async countLeaked(tx: Transaction, leaks: ReadonlyMap<number, number>): Promise<void> {
    if (leaks.size > 0) await tx.execute(...this.#sql.countLeaked({ leaks: [...leaks] }));
  }

  /**
   * Locks and reads the children that the given executions, and later ones of the same parents, have started. Excludes
   * children with the cancellation mode `abandon` and, for `'live'`, children that have ended.
   */
  async lockChildren(
    tx: Transaction,
    parents: readonly Parent[],
    which: 'live' | 'all',
  ): Promise<readonly ChildRow[]> {
    if (parents.length === 0) return [];
    return tx.query<ChildRow>(...this.#sql.lockChildren({ parents, ended: which === 'all' }));
  }
}

async function write<Row>(
  tx: Transaction,
  statement: Bind<{ readonly rows: readonly Row[]; readonly now: number }>,
  rows: readonly Row[],
  now: number,
): Promise<void> {
  if (rows.length === 0) return;
  mustChange(await tx.execute(...statement({ rows, now })), rows.length);
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  const now = one<number>('bigint');
  const stops = rowsOf<StopRow>()({
    instance_key: 'bigint',
    reason: 'text',
    actor: 'text',
    trigger: ['text', ({ trigger }) => trigger ?? null],
  });
  const requested = (now: string) =>
    `cancel_requested_at = ${now}, cancel_reason = stop.reason, cancel_actor = stop.actor,
      cancel_cause = stop.trigger`;
  const fromStops = (list: string) => `FROM ${list}
        ${rowIdOf(table, 'one.instance_key = stop.instance_key')}
        WHERE instance.ctid = found.row_id`;
  return {
    cancelPending: prepare(
      'perdure_cancel_pending',
      { rows: stops, now },
      ({ rows, now }) => `WITH ${removeLive(schema, rows.column('instance_key'))}
        UPDATE ${table} AS instance
        SET status = 'canceled', ${listEnd("'canceled'")}, ended_at = ${now}, canceled_at = ${now}, history_length = 1,
          ${requested(now)}
        ${fromStops(rows.as('stop'))} AND (status = 'pending') IS TRUE`,
    ),
    requestCancel: prepare(
      'perdure_request_cancel',
      { rows: stops, now },
      ({ rows, now }) => `UPDATE ${table} AS instance SET status = 'canceling', ${requested(now)}
        ${fromStops(rows.as('stop'))} AND (status = 'running' OR status = 'pending' AND priority IS NOT NULL) IS TRUE`,
    ),
    terminate: prepare(
      'perdure_terminate_instances',
      {
        rows: rowsOf<TerminationRow>()({
          instance_key: 'bigint',
          reason: 'text',
          actor: 'text',
          run_started_at: 'bigint',
        }),
        now,
      },
      ({ rows, now }) => `WITH ${removeLive(schema, rows.column('instance_key'))}
        UPDATE ${table} AS instance
        SET status = 'terminated', ${listEnd("'terminated'")}, ended_at = ${now}, terminated_at = ${now}, terminate_reason = stop.reason,
            terminate_actor = stop.actor, history_length = history_length + CASE WHEN priority IS NULL THEN 1 ELSE 0 END,
            started_at = coalesce(started_at, run_started_at)
        ${fromStops(rows.as('stop'))} AND ended_at IS NULL AND closing_reason IS NULL`,
    ),
    // An instance that ends as canceled without a request records its own reason.
    close: prepare(
      'perdure_close_instances',
      {
        rows: rowsOf<Closing>()({
          instance_key: 'bigint',
          reason: 'text',
          cleanup_skipped: 'boolean',
        }),
        now,
      },
      ({ rows, now }) => `UPDATE ${table} AS instance
        SET status = 'canceling', closing_reason = stop.reason, cleanup_skipped = stop.cleanup_skipped,
            cancel_requested_at = coalesce(cancel_requested_at, ${now}),
            cancel_reason = coalesce(cancel_reason, stop.reason)
        ${fromStops(rows.as('stop'))} AND ended_at IS NULL`,
    ),
    finishClosing: prepare(
      'perdure_finish_closing',
      { instanceKeys: keys(), now },
      ({ instanceKeys, now }) => `WITH ended AS (
          UPDATE ${table} AS instance
          SET status = 'canceled', ${listEnd("'canceled'")}, ended_at = ${now}, canceled_at = ${now}, closing_reason = NULL
          WHERE instance_key = ANY (${instanceKeys}) AND ended_at IS NULL AND closing_reason IS NOT NULL
            AND (SELECT 1 FROM ${schema}.worker_queue AS item
                 WHERE item.instance_key = instance.instance_key AND item.cancellation <> 'abandon' LIMIT 1) IS NULL
          RETURNING instance_key
        ), ${removeLive(schema, 'ARRAY(SELECT instance_key FROM ended)')}
        SELECT instance_key AS "instanceKey" FROM ended`,
    ),
    countLeaked: prepare(
      'perdure_count_leaked',
      {
        leaks: rowsOf<readonly [instanceKey: number, count: number]>()({
          instance_key: ['bigint', ([instanceKey]) => instanceKey],
          count: ['int', ([, count]) => count],
        }),
      },
      ({ leaks }) => `UPDATE ${table} AS instance SET leaked = leaked + leaks.count
        FROM ${leaks.as('leaks')}
        ${rowIdOf(table, 'one.instance_key = leaks.instance_key')}
        WHERE instance.ctid = found.row_id`,
    ),
    // The index by parent and execution excludes the children of earlier executions.
    lockChildren: prepare(
      'perdure_lock_children',
      {
        parents: rowsOf<Parent>()({ instance_id: 'text', execution_id: 'int' }),
        ended: one<boolean>('boolean'),
      },
      ({
        parents,
        ended,
      }) => `SELECT ${instanceColumns(schema)} FROM ${table} WHERE instance_key = ANY
          (ARRAY(
          SELECT child.instance_key
          FROM ${parents.as('parent')}
          CROSS JOIN LATERAL (
            SELECT instance_key FROM ${table} AS one
            WHERE one.parent_instance_id = parent.instance_id AND one.parent_execution_id >= parent.execution_id
              AND one.cancellation <> 'abandon' AND (${ended} OR one.ended_at IS NULL)
            OFFSET 0) AS child))
        ORDER BY instance_key FOR NO KEY UPDATE`,
    ),
  };
}
