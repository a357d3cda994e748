import type Database from 'better-sqlite3';
import type { CancelTrigger } from '../../../model/failures/errors.ts';
import type { FlaggedItem } from '../../shared/effects.ts';
import { formatToken } from '../../shared/lock-token.ts';
import type { ActivityCancel } from '../../contract/turn.ts';
import { cancelColumns, toCancelInfo, type CancelColumns } from './work-items.ts';

/**
 * Whom the end of an instance reaches. A cancel request spares what was scheduled in a shield, a terminate reaches
 * also what is past its point of no return; nothing reaches what was scheduled to be abandoned.
 */
export type Reach = 'request' | 'end' | 'terminate';

interface CancelItems {
  readonly instanceKey: number;
  readonly now: number;
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

/** What a cancel did to the items of an instance. */
export interface CanceledItems {
  /** How many were removed or flagged. */
  readonly count: number;
  readonly flagged: readonly FlaggedItem[];
  /** Whether items stay besides those that the instance left to themselves. */
  readonly keeps: boolean;
}

interface Holdings {
  readonly items: number;
  readonly unclaimed: number;
  readonly attended: number;
}

interface CancelOperations {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly cancels: string;
  readonly now: number;
}

interface FlaggedRow extends CancelColumns {
  readonly itemKey: number;
  readonly secret: string | null;
  readonly cancelRequested: 0 | 1;
}

const enqueue = `INSERT INTO orchestrator_queue (instance_key, visible_at, kind, execution_id, operation, data)
  SELECT instance_key, :now, 'activityCanceled', execution_id, operation,`;
const flaggedColumns = `item_key AS itemKey, lock_token AS secret, cancel_requested AS cancelRequested, ${cancelColumns}`;
const flagged = `RETURNING ${flaggedColumns}`;
const unclaimed = '(lock_token IS NULL OR locked_until <= :now)';
const attended = `cancellation <> 'abandon'`;
const stoppable = 'point_of_no_return = 0';
const unasked = 'cancel_requested_at IS NULL';

/** Which items a cancel removes when nobody holds them, which it flags, and whether those are told. */
const reaches: Readonly<
  Record<Reach, { readonly removed: string; readonly flagged: string; readonly told: string }>
> = {
  request: {
    removed: `${attended} AND ${stoppable} AND shielded = 0`,
    flagged: `${attended} AND ${unasked} AND shielded = 0`,
    told: '1 - point_of_no_return',
  },
  end: {
    removed: `${attended} AND ${stoppable}`,
    flagged: `${attended} AND ${unasked}`,
    told: '1 - point_of_no_return',
  },
  terminate: {
    removed: attended,
    flagged: `${attended} AND cancel_requested = 0`,
    told: '1',
  },
};

const none: Holdings = { items: 0, unclaimed: 0, attended: 0 };

/**
 * Cancels rows of `worker_queue`: those that nobody holds are removed, the others flagged, the first request kept.
 * Each way takes the same few statements for one item and for thousands.
 */
export class ItemCancels {
  readonly #enqueueOperations;
  readonly #removeOperations;
  readonly #flagOperations;
  readonly #enqueueAll;
  readonly #removeAll: Readonly<Record<Reach, Database.Statement<[CancelItems]>>>;
  readonly #flagAll: Readonly<Record<Reach, Database.Statement<[CancelItems], FlaggedRow>>>;
  readonly #holdings;
  readonly #hasAttended;
  readonly #flaggedSince;

  constructor(db: Database.Database) {
    // CROSS JOIN: from the list to the rows, never through all rows of the instance for each entry of the list.
    const named = `json_each(:cancels) CROSS JOIN worker_queue
      ON instance_key = :instanceKey AND execution_id = :executionId AND operation = value ->> 0`;
    const removedOperation = `${unclaimed} AND ${attended} AND ${stoppable}`;
    this.#enqueueOperations = db.prepare<[CancelOperations]>(
      `${enqueue} json_object('trigger', coalesce(cancel_trigger, value ->> 1),
                              'reason', coalesce(cancel_reason, value ->> 2))
       FROM ${named} WHERE ${removedOperation}`,
    );
    this.#removeOperations = db.prepare<[CancelOperations]>(
      `DELETE FROM worker_queue
       WHERE item_key IN (SELECT item_key FROM ${named} WHERE ${removedOperation})`,
    );
    // LIMIT: the planner takes the subquery as it is, instead of reading the whole queue in front of it.
    this.#flagOperations = db.prepare<[CancelOperations], FlaggedRow>(
      `UPDATE worker_queue
       SET cancel_requested = 1 - point_of_no_return, cancel_requested_at = :now,
           cancel_trigger = cancel ->> 1, cancel_reason = cancel ->> 2
       FROM (SELECT item_key AS found_key, value AS cancel FROM ${named} WHERE ${attended} AND ${unasked}
             LIMIT -1)
       WHERE item_key = found_key ${flagged}`,
    );
    this.#enqueueAll = db.prepare<[CancelItems & { readonly executionId: number }]>(
      `${enqueue} json_object('trigger', coalesce(cancel_trigger, :trigger),
                              'reason', coalesce(cancel_reason, :reason))
       FROM worker_queue
       WHERE instance_key = :instanceKey AND execution_id = :executionId
         AND ${unclaimed} AND ${reaches.request.removed}`,
    );
    const removeAll = (reach: Reach) =>
      db.prepare<[CancelItems]>(
        `DELETE FROM worker_queue
         WHERE instance_key = :instanceKey AND ${unclaimed} AND ${reaches[reach].removed}`,
      );
    const flagAll = (reach: Reach) =>
      db.prepare<[CancelItems], FlaggedRow>(
        `UPDATE worker_queue
         SET cancel_requested = ${reaches[reach].told}, cancel_requested_at = :now,
             cancel_trigger = :trigger, cancel_reason = :reason
         WHERE instance_key = :instanceKey AND ${reaches[reach].flagged} ${flagged}`,
      );
    this.#removeAll = {
      request: removeAll('request'),
      end: removeAll('end'),
      terminate: removeAll('terminate'),
    };
    this.#flagAll = {
      request: flagAll('request'),
      end: flagAll('end'),
      terminate: flagAll('terminate'),
    };
    this.#holdings = db.prepare<[CancelItems], Holdings>(
      `SELECT count(*) AS items, count(*) FILTER (WHERE ${unclaimed}) AS unclaimed,
              count(*) FILTER (WHERE ${attended}) AS attended
       FROM worker_queue WHERE instance_key = :instanceKey`,
    );
    this.#hasAttended = db
      .prepare<[number], 1>(
        `SELECT 1 FROM worker_queue WHERE instance_key = ? AND cancellation <> 'abandon' LIMIT 1`,
      )
      .pluck();
    // The index has both columns: only what was flagged lately is read from the table.
    this.#flaggedSince = db.prepare<[number, number], FlaggedRow>(
      `SELECT ${flaggedColumns} FROM worker_queue
       WHERE cancel_requested = 1 AND next_at > ? AND cancel_requested_at >= ?`,
    );
  }

  /** Cancels operations of an execution, and tells it of those that never start; returns the flagged. */
  cancelOperations(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly cancels: readonly ActivityCancel[];
    readonly now: number;
  }): readonly FlaggedItem[] {
    if (options.cancels.length === 0) return [];
    const { instanceKey, executionId, now } = options;
    const params = { instanceKey, executionId, cancels: toJson(options.cancels), now };
    this.#enqueueOperations.run(params);
    this.#removeOperations.run(params);
    return toFlagged(this.#flagOperations.all(params));
  }

  /** What a cancel request does to the items of an instance; the current execution is told of those that never start. */
  cancelRequested(options: CancelItems & { readonly executionId: number }): readonly FlaggedItem[] {
    this.#enqueueAll.run(options);
    return this.cancelAll('request', options).flagged;
  }

  /** Cancels the items of an instance without a word to it. */
  cancelAll(reach: Reach, options: CancelItems): CanceledItems {
    // Asked first, because every end of an instance comes here, and nearly always there is nothing.
    const { items, unclaimed, attended } = this.#holdings.get(options) ?? none;
    if (items === 0) return { count: 0, flagged: [], keeps: false };
    const removed = unclaimed === 0 ? 0 : this.#removeAll[reach].run(options).changes;
    const rows = this.#flagAll[reach].all(options);
    const keeps = removed === 0 ? attended > 0 : this.hasAttended(options.instanceKey);
    return { count: removed + rows.length, flagged: toFlagged(rows), keeps };
  }

  /** Says whether an instance has items besides those that it left to themselves. */
  hasAttended(instanceKey: number): boolean {
    return this.#hasAttended.get(instanceKey) !== undefined;
  }

  /** The items that are held and were flagged at a time or later. */
  flaggedSince(time: number, now: number): readonly FlaggedItem[] {
    return toFlagged(this.#flaggedSince.all(now, time));
  }
}

/** The first cancel of each operation, as `[operation, trigger, reason]`. */
function toJson(cancels: readonly ActivityCancel[]): string {
  const first = new Map<number, ActivityCancel>();
  for (const cancel of cancels) {
    if (!first.has(cancel.operation)) first.set(cancel.operation, cancel);
  }
  // Well-formed, because an escaped half of a surrogate pair would come out as bytes that are no text.
  return JSON.stringify(
    Array.from(first.values(), ({ operation, trigger, reason }) => [
      operation,
      trigger,
      reason.toWellFormed(),
    ]),
  );
}

// What is past its point of no return is flagged for the record alone, and nobody holds what is between attempts.
function toFlagged(rows: readonly FlaggedRow[]): readonly FlaggedItem[] {
  const items: FlaggedItem[] = [];
  for (const row of rows) {
    const cancel = row.cancelRequested === 1 ? toCancelInfo(row) : null;
    if (row.secret === null || cancel === null) continue;
    items.push({ lockToken: formatToken(row.itemKey, row.secret), cancel });
  }
  return items;
}
