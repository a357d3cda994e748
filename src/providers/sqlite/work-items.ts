import type Database from 'better-sqlite3';
import type { CancelTrigger } from '../../model/errors.ts';
import type { NewWorkItem } from '../turn.ts';
import type { CancelInfo } from '../work-queue.ts';
import { formatToken, newSecret, parseToken } from './lock-token.ts';

interface CancelColumns {
  readonly cancelRequestedAt: number | null;
  readonly cancelTrigger: CancelTrigger | null;
  readonly cancelReason: string | null;
}

/** A held item as the fences read it. */
export interface HeldItem {
  readonly itemKey: number;
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly claims: number;
  readonly cancelRequested: 0 | 1;
  readonly cancelReason: string | null;
}

export interface DueItem {
  readonly itemKey: number;
  readonly nextAt: number;
}

/** A claimed item with what its handler needs to know of its instance. */
export interface ClaimedItem extends CancelColumns {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly operation: number;
  readonly definitionKey: number;
  readonly instanceDefinitionKey: number;
  readonly payload: string | null;
  readonly options: string | null;
  readonly claims: number;
  readonly failures: number;
  readonly heartbeat: string | null;
}

const cancelColumns = `cancel_requested_at AS cancelRequestedAt, cancel_trigger AS cancelTrigger,
  cancel_reason AS cancelReason`;

/** The rows of `worker_queue`. `next_at` is the lock's expiry while locked, else when the item may be claimed. */
export class WorkItems {
  readonly #insert;
  readonly #selectHeld;
  readonly #selectDue;
  readonly #selectFlagged;
  readonly #firstNextAt;
  readonly #firstFlaggedAt;
  readonly #claim;
  readonly #selectClaimed;
  readonly #delete;
  readonly #renew;
  readonly #renewWithHeartbeat;
  readonly #handBack;
  readonly #hasAny;
  readonly #deleteUnclaimed;
  readonly #flagClaimed;
  readonly #deleteUnclaimedOne;
  readonly #flagClaimedOne;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<
      [
        number,
        number,
        number,
        number,
        number,
        string | null,
        number | null,
        number,
        number,
        string | null,
        string | null,
      ]
    >(
      `INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, next_at, lock_token,
                                 locked_until, claims, failures, created_at, options, payload)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?)`,
    );
    this.#selectHeld = db.prepare<[number, string, number], HeldItem>(
      `SELECT item_key AS itemKey, instance_key AS instanceKey, execution_id AS executionId, operation, claims,
              cancel_requested AS cancelRequested, cancel_reason AS cancelReason
       FROM worker_queue WHERE item_key = ? AND lock_token = ? AND locked_until > ?`,
    );
    this.#selectDue = db.prepare<[number, 0 | 1, number, number], DueItem>(
      `SELECT item_key AS itemKey, next_at AS nextAt FROM worker_queue
       WHERE definition_key = ? AND (claims > 1) = ? AND next_at <= ? AND cancel_requested = 0
       ORDER BY next_at, item_key LIMIT ?`,
    );
    this.#selectFlagged = db.prepare<[number, number], DueItem>(
      `SELECT item_key AS itemKey, next_at AS nextAt FROM worker_queue
       WHERE cancel_requested = 1 AND next_at <= ? ORDER BY next_at, item_key LIMIT ?`,
    );
    this.#firstNextAt = db
      .prepare<[number, 0 | 1], number | null>(
        'SELECT min(next_at) FROM worker_queue WHERE definition_key = ? AND (claims > 1) = ?',
      )
      .pluck();
    this.#firstFlaggedAt = db
      .prepare<[], number | null>(
        'SELECT min(next_at) FROM worker_queue WHERE cancel_requested = 1',
      )
      .pluck();
    this.#claim = db.prepare<[string, number, number, number]>(
      `UPDATE worker_queue SET lock_token = ?, locked_until = ?, next_at = ?, claims = claims + 1
       WHERE item_key = ?`,
    );
    this.#selectClaimed = db.prepare<[number], ClaimedItem>(
      `SELECT item.instance_key AS instanceKey, instance_id AS instanceId, incarnation,
              item.execution_id AS executionId, operation, item.definition_key AS definitionKey,
              instances.definition_key AS instanceDefinitionKey, payload, options, claims, failures, heartbeat,
              item.cancel_requested_at AS cancelRequestedAt, cancel_trigger AS cancelTrigger,
              item.cancel_reason AS cancelReason
       FROM worker_queue AS item JOIN instances ON instances.instance_key = item.instance_key
       WHERE item_key = ?`,
    );
    this.#delete = db.prepare<[number]>('DELETE FROM worker_queue WHERE item_key = ?');
    const renew = (assignment: string) =>
      `UPDATE worker_queue SET locked_until = :until, next_at = :until ${assignment}
       WHERE item_key = :key AND lock_token = :secret AND locked_until > :now RETURNING ${cancelColumns}`;
    this.#renew = db.prepare<
      [{ key: number; secret: string; now: number; until: number }],
      CancelColumns
    >(renew(''));
    this.#renewWithHeartbeat = db.prepare<
      [{ key: number; secret: string; now: number; until: number; heartbeat: string | null }],
      CancelColumns
    >(renew(', heartbeat = :heartbeat'));
    this.#handBack = db.prepare<
      [
        {
          itemKey: number;
          nextAt: number;
          claims: number;
          failures: number;
          failure: string | null;
        },
      ]
    >(
      `UPDATE worker_queue
       SET lock_token = NULL, locked_until = NULL, next_at = :nextAt, claims = :claims,
           failures = failures + :failures, last_failure = coalesce(:failure, last_failure)
       WHERE item_key = :itemKey`,
    );
    this.#hasAny = db
      .prepare<[number], 1>('SELECT 1 FROM worker_queue WHERE instance_key = ? LIMIT 1')
      .pluck();
    const flag = `UPDATE worker_queue
       SET cancel_requested = 1, cancel_requested_at = :now, cancel_trigger = :trigger, cancel_reason = :reason
       WHERE instance_key = :instanceKey AND cancel_requested = 0`;
    const flagged =
      'RETURNING item_key AS itemKey, lock_token AS secret, locked_until AS lockedUntil';
    const unclaimed = '(lock_token IS NULL OR locked_until <= :now)';
    this.#deleteUnclaimed = db.prepare<[{ instanceKey: number; now: number }]>(
      `DELETE FROM worker_queue WHERE instance_key = :instanceKey AND ${unclaimed}`,
    );
    this.#flagClaimed = db.prepare<[FlagParams], FlaggedRow>(`${flag} ${flagged}`);
    const one = 'AND execution_id = :executionId AND operation = :operation';
    this.#deleteUnclaimedOne = db.prepare<
      [{ instanceKey: number; executionId: number; operation: number; now: number }]
    >(`DELETE FROM worker_queue WHERE instance_key = :instanceKey ${one} AND ${unclaimed}`);
    this.#flagClaimedOne = db.prepare<
      [FlagParams & { executionId: number; operation: number }],
      FlaggedRow
    >(`${flag} ${one} ${flagged}`);
  }

  /** Inserts an item, claimed already where it says so; returns its lock token then. */
  insert(options: {
    readonly instanceKey: number;
    readonly executionId: number;
    readonly definitionKey: number;
    readonly item: NewWorkItem;
    readonly now: number;
  }): string | undefined {
    const { instanceKey, executionId, definitionKey, item, now } = options;
    const { operation, claimMs } = item;
    const secret = claimMs === undefined ? null : newSecret();
    const lockedUntil = claimMs === undefined ? null : now + Math.ceil(claimMs);
    const { lastInsertRowid } = this.#insert.run(
      instanceKey,
      executionId,
      operation,
      definitionKey,
      lockedUntil ?? now,
      secret,
      lockedUntil,
      secret === null ? 0 : 1,
      now,
      item.options,
      item.payload,
    );
    return secret === null ? undefined : formatToken(Number(lastInsertRowid), secret);
  }

  /** The item that a token holds now; `undefined` if it holds none. */
  heldBy(token: string, now: number): HeldItem | undefined {
    const { key, secret } = parseToken(token);
    return this.#selectHeld.get(key, secret, now);
  }

  /** What is due of an activity, the longest due first. `suspect`: what was claimed twice and never settled. */
  selectDue(options: {
    readonly definitionKey: number;
    readonly suspect: boolean;
    readonly now: number;
    readonly max: number;
  }): readonly DueItem[] {
    const { definitionKey, suspect, now, max } = options;
    return this.#selectDue.all(definitionKey, suspect ? 1 : 0, now, max);
  }

  /** Items asked to stop whose claims have lapsed, of any activity. */
  selectFlagged(now: number, max: number): readonly DueItem[] {
    return this.#selectFlagged.all(now, max);
  }

  firstNextAt(definitionKeys: readonly number[]): number {
    let first = this.#firstFlaggedAt.get() ?? Infinity;
    for (const key of definitionKeys) {
      first = Math.min(
        first,
        this.#firstNextAt.get(key, 0) ?? Infinity,
        this.#firstNextAt.get(key, 1) ?? Infinity,
      );
    }
    return first;
  }

  /** Locks an item and counts the claim; `undefined`, and the item deleted, when its instance is gone. */
  claim(
    itemKey: number,
    lockedUntil: number,
  ): { readonly lockToken: string; readonly row: ClaimedItem } | undefined {
    const secret = newSecret();
    this.#claim.run(secret, lockedUntil, lockedUntil, itemKey);
    const row = this.#selectClaimed.get(itemKey);
    if (row === undefined) {
      this.#delete.run(itemKey);
      return undefined;
    }
    return { lockToken: formatToken(itemKey, secret), row };
  }

  delete(itemKey: number): void {
    this.#delete.run(itemKey);
  }

  /** Extends a lock; answers the cancel request, `null` when there is none, `undefined` when not held. */
  renew(options: {
    readonly lockToken: string;
    readonly now: number;
    readonly until: number;
    readonly heartbeat: string | null | undefined;
  }): CancelInfo | null | undefined {
    const { now, until, heartbeat } = options;
    const { key, secret } = parseToken(options.lockToken);
    const row =
      heartbeat === undefined
        ? this.#renew.get({ key, secret, now, until })
        : this.#renewWithHeartbeat.get({ key, secret, now, until, heartbeat });
    return row === undefined ? undefined : toCancelInfo(row);
  }

  /** Back to the queue, perhaps with one failure more. */
  handBack(options: {
    readonly itemKey: number;
    readonly nextAt: number;
    readonly claims: number;
    readonly failure: string | undefined;
  }): void {
    const { itemKey, nextAt, claims, failure } = options;
    const failures = failure === undefined ? 0 : 1;
    this.#handBack.run({ itemKey, nextAt, claims, failures, failure: failure ?? null });
  }

  /** Removes the items of an instance that nobody holds, flags the others and returns these. */
  cancelAll(options: FlagParams): readonly FlaggedItem[] {
    if (this.#hasAny.get(options.instanceKey) === undefined) return [];
    const { instanceKey, now } = options;
    this.#deleteUnclaimed.run({ instanceKey, now });
    return this.#flagClaimed.all(options).map(toFlagged);
  }

  /** The same for one item; an item that is gone has nothing to cancel. */
  cancelOne(
    options: FlagParams & { readonly executionId: number; readonly operation: number },
  ): readonly FlaggedItem[] {
    const { instanceKey, executionId, operation, now } = options;
    this.#deleteUnclaimedOne.run({ instanceKey, executionId, operation, now });
    return this.#flagClaimedOne.all(options).map(toFlagged);
  }
}

interface FlagParams {
  readonly instanceKey: number;
  readonly now: number;
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

interface FlaggedRow {
  readonly itemKey: number;
  readonly secret: string;
  readonly lockedUntil: number;
}

/** An item that is asked to stop while somebody holds it. */
export interface FlaggedItem {
  readonly lockToken: string;
  readonly lockedUntil: number;
}

const toFlagged = ({ itemKey, secret, lockedUntil }: FlaggedRow): FlaggedItem => ({
  lockToken: formatToken(itemKey, secret),
  lockedUntil,
});

export function toCancelInfo(row: CancelColumns): CancelInfo | null {
  return row.cancelRequestedAt === null || row.cancelTrigger === null
    ? null
    : {
        reason: row.cancelReason ?? '',
        requestedAt: row.cancelRequestedAt,
        trigger: row.cancelTrigger,
      };
}
