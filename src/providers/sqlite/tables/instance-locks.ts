import type Database from 'better-sqlite3';
import type { Blocked } from '../../contract/orchestration-queue.ts';
import { isHeldBy, planHoldBack, type FenceOptions } from '../../rules/claims.ts';
import { queueKey } from '../../rules/pauses.ts';
import { parseToken, type Secrets } from '../../shared/lock-token.ts';
import type { Messages } from './messages.ts';

/** A row of `instance_locks`. */
export interface InstanceLock {
  readonly definitionKey: number;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly claims: number;
}

export interface DueInstance {
  readonly instanceKey: number;
  readonly nextAt: number;
  readonly claims: number;
}

/**
 * The rows of `instance_locks`: when an instance can be claimed, and who holds it.
 *
 * L1. An instance with messages has a row. One without messages, lock, claims and hold-back has none.
 * L2. `next_at` is the lock's expiry while locked, else the later of the first message's `visible_at` and `held_until`.
 * L3. `cleanup_at` is set while there is a `cleanupExpired` message. From that time any worker can claim the instance,
 *     unless it is locked.
 * L4. While an instance is paused it has a row, with or without messages, whose definition key is negative.
 */
export class InstanceLocks {
  readonly #messages: Messages;
  readonly #secrets: Secrets;
  readonly #select;
  readonly #touch;
  readonly #selectDue;
  readonly #firstNextAt;
  readonly #selectCleanupDue;
  readonly #firstCleanupAt;
  readonly #selectCanceling;
  readonly #firstCancelingAt;
  readonly #selectBlocked;
  readonly #claim;
  readonly #setNextAt;
  readonly #refresh;
  readonly #release;
  readonly #keep;
  readonly #hold;
  readonly #holdFree;
  readonly #renew;
  readonly #limitCleanup;
  readonly #delete;
  readonly #deleteAll;

  constructor(db: Database.Database, messages: Messages, secrets: Secrets) {
    this.#messages = messages;
    this.#secrets = secrets;
    this.#select = db.prepare<[number], InstanceLock>(
      `SELECT definition_key AS definitionKey, lock_token AS lockToken, locked_until AS lockedUntil, claims
       FROM instance_locks WHERE instance_key = ?`,
    );
    this.#touch = db.prepare<[number, number, number]>(
      `INSERT INTO instance_locks (instance_key, definition_key, next_at, claims) VALUES (?, ?, ?, 0)
       ON CONFLICT (instance_key) DO UPDATE
       SET next_at = min(coalesce(next_at, excluded.next_at), max(excluded.next_at, coalesce(held_until, 0)))
       WHERE lock_token IS NULL`,
    );
    // The index has exactly these rows in this order, so other rows do not add to the cost.
    this.#selectDue = db.prepare<[number, 0 | 1, number, number], DueInstance>(
      `SELECT instance_key AS instanceKey, next_at AS nextAt, claims FROM instance_locks
       WHERE definition_key = ? AND (claims > 1) = ? AND next_at <= ? AND next_at IS NOT NULL
       ORDER BY next_at, instance_key LIMIT +?`,
    );
    this.#firstNextAt = db
      .prepare<[number, 0 | 1], number | null>(
        'SELECT min(next_at) FROM instance_locks WHERE definition_key = ? AND (claims > 1) = ? AND next_at IS NOT NULL',
      )
      .pluck();
    const cleanupDue = 'max(cleanup_at, coalesce(locked_until, 0))';
    this.#selectCleanupDue = db.prepare<[number, number], DueInstance>(
      `SELECT instance_key AS instanceKey, ${cleanupDue} AS nextAt, claims FROM instance_locks
       WHERE cleanup_at IS NOT NULL AND ${cleanupDue} <= ? ORDER BY ${cleanupDue}, instance_key LIMIT +?`,
    );
    this.#firstCleanupAt = db
      .prepare<[], number | null>(
        `SELECT min(${cleanupDue}) FROM instance_locks WHERE cleanup_at IS NOT NULL`,
      )
      .pluck();
    // `+` keeps the planner from the index of all due instances of the definitions.
    this.#selectCanceling = db.prepare<[{ now: number; keys: string; max: number }], DueInstance>(
      `SELECT instance_key AS instanceKey, next_at AS nextAt, claims FROM instance_locks
       WHERE cleanup_at IS NOT NULL AND ${cleanupDue} > :now AND next_at <= :now
         AND +definition_key IN (SELECT value FROM json_each(:keys))
       ORDER BY ${cleanupDue}, instance_key LIMIT +:max`,
    );
    this.#firstCancelingAt = db
      .prepare<[string], number | null>(
        `SELECT min(next_at) FROM instance_locks
         WHERE cleanup_at IS NOT NULL AND +definition_key IN (SELECT value FROM json_each(?))`,
      )
      .pluck();
    const blockedBy = (comparison: '<' | '>') =>
      `SELECT instance_key, next_at, claims FROM instance_locks AS lock
       WHERE definition_key = :definitionKey AND blocked_build ${comparison} :buildId AND lock_token IS NULL
         AND EXISTS (SELECT 1 FROM orchestrator_queue
                     WHERE instance_key = lock.instance_key AND visible_at <= :now)`;
    this.#selectBlocked = db.prepare<
      [{ definitionKey: number; buildId: string; now: number; max: number }],
      DueInstance
    >(
      `SELECT instance_key AS instanceKey, next_at AS nextAt, claims
       FROM (${blockedBy('<')} UNION ALL ${blockedBy('>')}) LIMIT +:max`,
    );
    this.#claim = db.prepare<
      [{ secret: string; until: number; now: number; worker: string | null; keys: string }]
    >(
      `UPDATE instance_locks
       SET lock_token = :secret, locked_until = :until, next_at = :until, claims = claims + 1, held_until = NULL,
           claimed_by = :worker, claimed_at = :now
       WHERE instance_key IN (SELECT value FROM json_each(:keys))`,
    );
    // Recomputed, so that an instance without such a message is no longer offered to all workers.
    const cleanupAt = `cleanup_at = iif(cleanup_at IS NULL, NULL,
      (SELECT min(visible_at) FROM orchestrator_queue
       WHERE instance_key = instance_locks.instance_key AND kind = 'cleanupExpired'))`;
    this.#setNextAt = db.prepare<[number | null, number]>(
      `UPDATE instance_locks SET lock_token = NULL, locked_until = NULL, next_at = ?, ${cleanupAt}
       WHERE instance_key = ?`,
    );
    this.#refresh = db.prepare<[number]>(
      `UPDATE instance_locks
       SET next_at = (SELECT max(min(visible_at), coalesce(held_until, 0)) FROM orchestrator_queue
                      WHERE instance_key = instance_locks.instance_key)
       WHERE instance_key = ? AND lock_token IS NULL`,
    );
    this.#release = db.prepare<[number, number, number | null]>(
      `INSERT INTO instance_locks (instance_key, definition_key, next_at, claims) VALUES (?, ?, ?, 0)
       ON CONFLICT (instance_key) DO UPDATE
       SET definition_key = excluded.definition_key, next_at = excluded.next_at, held_until = NULL,
           lock_token = NULL, locked_until = NULL, claims = 0, ${cleanupAt},
           blocked_reason = NULL, blocked_build = NULL, blocked_at = NULL, blocked_details = NULL`,
    );
    // The turns after the first of a claim change nothing here.
    this.#keep = db.prepare<[number, number]>(
      `UPDATE instance_locks
       SET definition_key = ?, claims = 0,
           blocked_reason = NULL, blocked_build = NULL, blocked_at = NULL, blocked_details = NULL
       WHERE instance_key = ? AND claims > 0`,
    );
    this.#hold = db.prepare<
      [
        {
          instanceKey: number;
          nextAt: number | null;
          heldUntil: number | null;
          claimsBack: number;
          reason: string | null;
          buildId: string | null;
          details: string | null;
          now: number;
        },
      ]
    >(
      `UPDATE instance_locks
       SET lock_token = NULL, locked_until = NULL, next_at = :nextAt, held_until = :heldUntil,
           cleanup_at = iif(cleanup_at <= :now, max(cleanup_at, coalesce(:heldUntil, 0)), cleanup_at),
           claims = max(claims - :claimsBack, 0),
           blocked_reason = coalesce(:reason, blocked_reason),
           blocked_build = coalesce(:buildId, blocked_build),
           blocked_details = iif(:reason IS NULL, blocked_details, :details),
           blocked_at = coalesce(blocked_at, iif(:reason IS NULL, NULL, :now))
       WHERE instance_key = :instanceKey`,
    );
    // Also without messages: `next_at` keeps new ones from being offered before the end of the hold-back.
    this.#holdFree = db.prepare<
      [
        {
          instanceKey: number;
          definitionKey: number;
          heldUntil: number;
          reason: string;
          buildId: string;
          details: string | null;
          now: number;
        },
      ]
    >(
      `INSERT INTO instance_locks (instance_key, definition_key, next_at, held_until, claims,
                                   blocked_reason, blocked_build, blocked_details, blocked_at)
       VALUES (:instanceKey, :definitionKey, :heldUntil, :heldUntil, 0, :reason, :buildId, :details, :now)
       ON CONFLICT (instance_key) DO UPDATE
       SET lock_token = NULL, locked_until = NULL, next_at = excluded.next_at, held_until = excluded.held_until,
           cleanup_at = iif(cleanup_at <= :now, max(cleanup_at, :heldUntil), cleanup_at),
           blocked_reason = excluded.blocked_reason, blocked_build = excluded.blocked_build,
           blocked_details = excluded.blocked_details,
           blocked_at = coalesce(blocked_at, excluded.blocked_at)`,
    );
    this.#renew = db.prepare<[number, number, number, string, number]>(
      `UPDATE instance_locks SET locked_until = ?, next_at = ?
       WHERE instance_key = ? AND lock_token = ? AND locked_until > ?`,
    );
    this.#limitCleanup = db.prepare<
      [{ instanceKey: number; definitionKey: number; now: number; cleanupAt: number }]
    >(
      `INSERT INTO instance_locks (instance_key, definition_key, next_at, claims, cleanup_at)
       VALUES (:instanceKey, :definitionKey, :now, 0, :cleanupAt)
       ON CONFLICT (instance_key) DO UPDATE
       SET definition_key = abs(definition_key), cleanup_at = excluded.cleanup_at,
           next_at = iif(lock_token IS NULL, min(coalesce(next_at, :now), :now), next_at)`,
    );
    this.#delete = db.prepare<[number]>('DELETE FROM instance_locks WHERE instance_key = ?');
    this.#deleteAll = db.prepare<[string]>(
      'DELETE FROM instance_locks WHERE instance_key IN (SELECT value FROM json_each(?))',
    );
  }

  get(instanceKey: number): InstanceLock | undefined {
    return this.#select.get(instanceKey);
  }

  /** Returns the key of the instance that a token holds, or `undefined`. */
  heldBy(token: string, now: number, options?: FenceOptions): number | undefined {
    const { key, secret } = parseToken(token);
    return isHeldBy(this.#select.get(key), secret, now, options) ? key : undefined;
  }

  /**
   * Makes the instance claimable when a message becomes visible, unless it is held back or locked. Returns whether it is
   * locked.
   */
  touch(instanceKey: number, definitionKey: number, visibleAt: number): boolean {
    return this.#touch.run(instanceKey, definitionKey, visibleAt).changes === 0;
  }

  /** Keeps the claim after a committed turn, as if it had just begun. */
  keep(instanceKey: number, definitionKey: number): void {
    this.#keep.run(definitionKey, instanceKey);
  }

  /** Due instances of a definition, longest due first. `suspect`: claimed twice without a turn. */
  selectDue(options: {
    readonly definitionKey: number;
    readonly suspect: boolean;
    readonly now: number;
    readonly max: number;
  }): readonly DueInstance[] {
    const { definitionKey, suspect, now, max } = options;
    return this.#selectDue.all(definitionKey, suspect ? 1 : 0, now, max);
  }

  /** Instances with visible messages that another build has blocked, regardless of their delay. */
  selectBlocked(options: {
    readonly definitionKey: number;
    readonly buildId: string;
    readonly now: number;
    readonly max: number;
  }): readonly DueInstance[] {
    return this.#selectBlocked.all(options);
  }

  /** Instances that any worker can claim in order to end them, because their clean-up limit has passed. */
  selectCleanupDue(now: number, max: number): readonly DueInstance[] {
    return this.#selectCleanupDue.all(now, max);
  }

  /**
   * Due canceling instances of definitions whose clean-up limit has not passed. Reads the index of all canceling instances, so use it only for definitions
   * that are paused: a cancel passes a pause.
   */
  selectCanceling(definitionKeys: readonly number[], now: number, max: number): DueInstance[] {
    if (definitionKeys.length === 0) return [];
    return this.#selectCanceling.all({ now, keys: JSON.stringify(definitionKeys), max });
  }

  /** When the first canceling instance of definitions is due. */
  firstCancelingAt(definitionKeys: readonly number[]): number {
    if (definitionKeys.length === 0) return Infinity;
    return this.#firstCancelingAt.get(JSON.stringify(definitionKeys)) ?? Infinity;
  }

  firstCleanupAt(): number {
    return this.#firstCleanupAt.get() ?? Infinity;
  }

  firstNextAt(definitionKey: number): number {
    return Math.min(
      this.#firstNextAt.get(definitionKey, 0) ?? Infinity,
      this.#firstNextAt.get(definitionKey, 1) ?? Infinity,
    );
  }

  /** Locks instances and counts the claims. Returns the secret of their tokens, which differ by key. */
  claim(
    instanceKeys: readonly number[],
    claim: { readonly now: number; readonly until: number; readonly worker: string | null },
  ): string {
    const secret = this.#secrets.next();
    this.#claim.run({ secret, ...claim, keys: JSON.stringify(instanceKeys) });
    return secret;
  }

  /** Corrects a row whose instance has no visible message. */
  correct(instanceKey: number): void {
    this.#setNextAt.run(this.#messages.firstVisibleAt(instanceKey), instanceKey);
  }

  /** Recomputes `next_at` after messages were changed without a turn. */
  refresh(instanceKey: number): void {
    this.#refresh.run(instanceKey);
  }

  /** Releases after a committed turn. Returns when the instance can be claimed, or Infinity. */
  release(instanceKey: number, definitionKey: number, isPaused: 0 | 1): number {
    const nextAt = this.#messages.firstVisibleAt(instanceKey);
    if (nextAt === null && isPaused === 0) this.#delete.run(instanceKey);
    else this.#release.run(instanceKey, queueKey(definitionKey, isPaused), nextAt);
    return isPaused === 1 ? Infinity : (nextAt ?? Infinity);
  }

  /** Releases a claim without a turn, and holds the instance back. Returns when it can be claimed. */
  hold(options: {
    readonly instanceKey: number;
    readonly delayMs: number;
    readonly giveBackClaim: boolean;
    readonly blocked: Blocked | undefined;
    readonly now: number;
  }): number {
    const { instanceKey, giveBackClaim, blocked, now } = options;
    const firstVisibleAt = this.#messages.firstVisibleAt(instanceKey);
    const { heldUntil, dueAt } = planHoldBack(options, now);
    this.#hold.run({
      instanceKey,
      nextAt: firstVisibleAt === null ? null : Math.max(firstVisibleAt, heldUntil ?? 0),
      heldUntil,
      claimsBack: giveBackClaim ? 1 : 0,
      reason: blocked?.reason ?? null,
      buildId: blocked?.buildId ?? null,
      details: blocked?.details ?? null,
      now,
    });
    return dueAt;
  }

  /** Holds back an instance that no worker holds, with or without messages. Returns when it can be claimed. */
  holdFree(options: {
    readonly instanceKey: number;
    readonly definitionKey: number;
    readonly delayMs: number;
    readonly blocked: Blocked;
    readonly now: number;
  }): number {
    const { instanceKey, definitionKey, blocked, now } = options;
    const { heldUntil, dueAt } = planHoldBack(options, now);
    this.#holdFree.run({
      instanceKey,
      definitionKey,
      heldUntil: heldUntil ?? now,
      reason: blocked.reason,
      buildId: blocked.buildId,
      details: blocked.details ?? null,
      now,
    });
    return dueAt;
  }

  /** Makes a canceling instance claimable now, even if held back, and by any worker from `cleanupAt`. */
  limitCleanup(options: {
    readonly instanceKey: number;
    readonly definitionKey: number;
    readonly now: number;
    readonly cleanupAt: number;
  }): void {
    this.#limitCleanup.run(options);
  }

  renew(token: string, now: number, lockedUntil: number): boolean {
    const { key, secret } = parseToken(token);
    return this.#renew.run(lockedUntil, lockedUntil, key, secret, now).changes === 1;
  }

  delete(instanceKey: number): void {
    this.#delete.run(instanceKey);
  }

  deleteAll(instanceKeys: readonly number[]): void {
    const [first, second] = instanceKeys;
    if (first !== undefined && second === undefined) this.#delete.run(first);
    else this.#deleteAll.run(JSON.stringify(instanceKeys));
  }
}
