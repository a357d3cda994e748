import type Database from 'better-sqlite3';
import type { CancelTrigger } from '../../../model/failures/errors.ts';
import type { ActivityCancel } from '../../contract/turn.ts';
import { planItemCancel, type CancelableItem, type CancelScope } from '../../rules/stops.ts';
import type { FlaggedItem } from '../../shared/effects.ts';
import { formatToken } from '../../shared/lock-token.ts';
import { cancelColumns } from './work-items.ts';
import { type CancelColumns, toCancelInfo } from '../../shared/work-item-row.ts';

/** A cancel of all items of an instance. */
interface CancelItems {
  readonly instanceKey: number;
  readonly now: number;
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

/** What a cancel did to the items of an instance. */
export interface CanceledItems {
  /** The number of items that were removed or flagged. */
  readonly count: number;
  /** The flagged items that a worker holds. */
  readonly flagged: readonly FlaggedItem[];
  /** Whether an item that the cancel reached is left. */
  readonly keeps: boolean;
}

interface ItemRow extends CancelableItem {
  readonly itemKey: number;
  readonly executionId: number;
}

interface OperationRow extends ItemRow {
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

/** An item with its request: `[itemKey, isDelivered, trigger, reason]`. Without the last two, those of the statement. */
type Entry = readonly [number, 0 | 1] | readonly [number, 0 | 1, CancelTrigger, string];

/** A batch of entries, as JSON, with the request of those that have none. */
interface EntryParams {
  readonly entries: string;
  readonly now: number;
  readonly trigger: CancelTrigger | null;
  readonly reason: string | null;
}

interface FlaggedRow extends CancelColumns {
  readonly itemKey: number;
  readonly secret: string;
}

/**
 * Cancels rows of `worker_queue` by the rule `planItemCancel`.
 * The number of statements does not depend on the number of items.
 */
export class ItemCancels {
  readonly #selectOperations;
  readonly #selectAll;
  readonly #enqueue;
  readonly #remove;
  readonly #flag;
  readonly #hasAttended;
  readonly #flaggedSince;

  constructor(db: Database.Database) {
    const columns = `item_key AS itemKey, execution_id AS executionId, lock_token AS lockToken,
      locked_until AS lockedUntil, cancellation, shielded, point_of_no_return AS pointOfNoReturn,
      cancel_requested AS cancelRequested, cancel_requested_at AS cancelRequestedAt`;
    // CROSS JOIN fixes the join order: one index search per list entry, never all rows of the instance per entry.
    this.#selectOperations = db.prepare<
      [{ instanceKey: number; executionId: number; cancels: string }],
      OperationRow
    >(
      `SELECT ${columns}, value ->> 1 AS "trigger", value ->> 2 AS reason
       FROM json_each(:cancels) CROSS JOIN worker_queue
         ON instance_key = :instanceKey AND execution_id = :executionId AND operation = value ->> 0`,
    );
    this.#selectAll = db.prepare<[number], ItemRow>(
      `SELECT ${columns} FROM worker_queue WHERE instance_key = ? ORDER BY execution_id, operation`,
    );
    this.#enqueue = db.prepare<[EntryParams]>(
      `INSERT INTO orchestrator_queue (instance_key, visible_at, kind, execution_id, operation, data)
       SELECT instance_key, :now, 'activityCanceled', execution_id, operation,
              json_object('trigger', coalesce(cancel_trigger, value ->> 2, :trigger),
                          'reason', coalesce(cancel_reason, value ->> 3, :reason))
       FROM json_each(:entries) CROSS JOIN worker_queue ON item_key = value ->> 0`,
    );
    this.#remove = db.prepare<[string]>(
      'DELETE FROM worker_queue WHERE item_key IN (SELECT value ->> 0 FROM json_each(?))',
    );
    // LIMIT keeps the planner from flattening the subquery and reading the whole queue first.
    this.#flag = db.prepare<[EntryParams]>(
      `UPDATE worker_queue
       SET cancel_requested = entry ->> 1, cancel_requested_at = :now,
           cancel_trigger = coalesce(entry ->> 2, :trigger), cancel_reason = coalesce(entry ->> 3, :reason)
       FROM (SELECT value AS entry FROM json_each(:entries) LIMIT -1)
       WHERE item_key = entry ->> 0`,
    );
    this.#hasAttended = db
      .prepare<[number], 1>(
        `SELECT 1 FROM worker_queue WHERE instance_key = ? AND cancellation <> 'abandon' LIMIT 1`,
      )
      .pluck();
    // The index has both columns, so only recently flagged rows are read from the table.
    this.#flaggedSince = db.prepare<[number, number], FlaggedRow>(
      `SELECT item_key AS itemKey, lock_token AS secret, ${cancelColumns} FROM worker_queue
       WHERE cancel_requested = 1 AND next_at > ? AND cancel_requested_at >= ? AND lock_token IS NOT NULL`,
    );
  }

  /** Cancels operations of an execution, and enqueues messages for the removed ones. Returns the flagged items. */
  cancelOperations(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly cancels: readonly ActivityCancel[];
    readonly now: number;
  }): readonly FlaggedItem[] {
    const { instanceKey, executionId, now } = options;
    if (options.cancels.length === 0) return [];
    const cancels = toJson(options.cancels);
    const plan = new Plan('operation', now);
    for (const row of this.#selectOperations.all({ instanceKey, executionId, cancels })) {
      const { trigger, reason } = row;
      plan.add(row, { trigger, reason, isNamed: true });
    }
    this.#write(plan, { now, trigger: null, reason: null });
    return plan.delivered;
  }

  /** Applies a cancel request to the items of an instance. Removed items of `executionId` leave a message. */
  cancelRequested(options: CancelItems & { readonly executionId: number }): readonly FlaggedItem[] {
    return this.#cancelAll('request', options, options.executionId).flagged;
  }

  /** Cancels the items of an instance without messages to it. */
  cancelAll(scope: Exclude<CancelScope, 'operation'>, options: CancelItems): CanceledItems {
    return this.#cancelAll(scope, options, null);
  }

  /** Whether an instance has items other than abandoned ones. */
  hasAttended(instanceKey: number): boolean {
    return this.#hasAttended.get(instanceKey) !== undefined;
  }

  /** The held items that were flagged at `time` or later. */
  flaggedSince(time: number, now: number): readonly FlaggedItem[] {
    return this.#flaggedSince.all(now, time).flatMap((row) => {
      const cancel = toCancelInfo(row);
      return cancel === null ? [] : [{ lockToken: formatToken(row.itemKey, row.secret), cancel }];
    });
  }

  #cancelAll(
    scope: CancelScope,
    { instanceKey, now, trigger, reason }: CancelItems,
    executionId: number | null,
  ): CanceledItems {
    const plan = new Plan(scope, now);
    for (const row of this.#selectAll.all(instanceKey)) {
      plan.add(row, { trigger, reason, isAnswered: row.executionId === executionId });
    }
    this.#write(plan, { now, trigger, reason });
    const count = plan.removed.length + plan.flagged.length;
    return { count, flagged: plan.delivered, keeps: plan.keeps };
  }

  #write(
    { answered, removed, flagged }: Plan,
    request: Pick<EntryParams, 'now' | 'trigger' | 'reason'>,
  ): void {
    if (answered.length > 0) this.#enqueue.run({ ...request, entries: JSON.stringify(answered) });
    if (removed.length > 0) this.#remove.run(JSON.stringify(removed));
    if (flagged.length > 0) this.#flag.run({ ...request, entries: JSON.stringify(flagged) });
  }
}

/** Collects what a cancel does to items. */
class Plan {
  readonly removed: Entry[] = [];
  /** The removed items that leave a message. */
  readonly answered: Entry[] = [];
  readonly flagged: Entry[] = [];
  /** The flagged items whose workers get the request. */
  readonly delivered: FlaggedItem[] = [];
  keeps = false;
  readonly #scope: CancelScope;
  readonly #now: number;

  constructor(scope: CancelScope, now: number) {
    this.#scope = scope;
    this.#now = now;
  }

  add(
    row: ItemRow,
    request: {
      readonly trigger: CancelTrigger;
      readonly reason: string;
      /** Whether the execution gets a message if the item is removed. */
      readonly isAnswered?: boolean;
      /** Whether the request is the item's own; implies `isAnswered`. */
      readonly isNamed?: boolean;
    },
  ): void {
    const plan = planItemCancel(row, this.#scope, this.#now);
    if (plan === 'ignore') return;
    const { trigger, reason, isNamed = false, isAnswered = isNamed } = request;
    const entry = (isDelivered: 0 | 1): Entry =>
      isNamed ? [row.itemKey, isDelivered, trigger, reason] : [row.itemKey, isDelivered];
    if (plan === 'remove') {
      this.removed.push(entry(0));
      if (isAnswered) this.answered.push(entry(0));
      return;
    }
    this.keeps = true;
    if (plan === 'keep') return;
    this.flagged.push(entry(plan === 'flag' ? 1 : 0));
    if (plan !== 'flag' || row.lockToken === null) return;
    const cancel = { trigger, reason: reason.toWellFormed(), requestedAt: this.#now };
    this.delivered.push({ lockToken: formatToken(row.itemKey, row.lockToken), cancel });
  }
}

/** The first cancel of each operation, as `[operation, trigger, reason]`. */
function toJson(cancels: readonly ActivityCancel[]): string {
  const first = new Map<number, ActivityCancel>();
  for (const cancel of cancels) {
    if (!first.has(cancel.operation)) first.set(cancel.operation, cancel);
  }
  // Well-formed, because SQLite would decode an escaped lone surrogate to invalid UTF-8.
  return JSON.stringify(
    Array.from(first.values(), ({ operation, trigger, reason }) => [
      operation,
      trigger,
      reason.toWellFormed(),
    ]),
  );
}
