import type { Blocked } from '../../contract/orchestration-queue.ts';
import { planHoldBack } from '../../rules/claims.ts';
import { queueKey } from '../../rules/pauses.ts';
import { parseToken } from '../../shared/lock-token.ts';
import { clock, strings, keys, one, rowIdOf, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** A row of `instance_locks`, for fences. */
export interface InstanceLock {
  readonly instanceKey: number;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly claims: number;
  /** Whether a message is visible now. */
  readonly hasVisible: boolean;
}

/** A claim that is released without a turn. */
export interface Hold {
  readonly instanceKey: number;
  readonly delayMs: number;
  readonly giveBackClaim: boolean;
  readonly blocked: Blocked | undefined;
}

interface Release {
  readonly instanceKey: number;
  readonly definitionKey: number;
}

interface TurnRelease extends Release {
  readonly isPaused: boolean;
}

interface FreeHold extends Release {
  readonly delayMs: number;
  readonly blocked: Blocked;
}

interface Touch extends Release {
  readonly visibleAt: number;
}

interface Cleanup extends Release {
  readonly cleanupAt: number;
}

/**
 * The table `instance_locks`: when an instance can be claimed, and by whom it is claimed.
 *
 * L1. An instance with messages has a row. An instance without messages, lock, claims and `held_until` has none.
 * L2. `next_at` is the lock's expiry while locked, else the later of the first message's `visible_at` and `held_until`.
 * L3. `cleanup_at` is set while a `cleanupExpired` message waits. From that time on any worker can claim the instance
 *     unless it is locked.
 * L4. While an instance is paused it has a row, with or without messages, whose definition key is negative.
 */
export class InstanceLocks {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Locks the rows of instances, in key order. */
  async lock(
    tx: Transaction,
    instanceKeys: readonly number[],
    nowParameter: number | null,
  ): Promise<ReadonlyMap<number, InstanceLock>> {
    const rows = await tx.query<InstanceLock>(
      ...this.#sql.lock({ now: nowParameter, instanceKeys }),
    );
    return new Map(rows.map((row) => [row.instanceKey, row]));
  }

  /** Reads the secrets of live claims, and the clock. */
  async readHeld(
    tx: Transaction,
    tokens: readonly { readonly key: number; readonly secret: string }[],
    nowParameter: number | null,
  ): Promise<{ readonly now: number; readonly held: ReadonlyMap<number, string> }> {
    const instanceKeys = tokens.map(({ key }) => key);
    const rows = await tx.query<{ now: number; instanceKey: number; secret: string | null }>(
      ...this.#sql.readHeld({ now: nowParameter, instanceKeys }),
    );
    const held = new Map<number, string>();
    for (const { instanceKey, secret } of rows) if (secret !== null) held.set(instanceKey, secret);
    return { now: rows[0]?.now ?? 0, held };
  }

  /** Locks the rows of instances by id. Waits for claims that are being committed. */
  async lockOf(tx: Transaction, instanceIds: readonly string[]): Promise<void> {
    await tx.execute(...this.#sql.lockById({ instanceIds }));
  }

  /** Recomputes `next_at` after messages were deleted without a turn. */
  async refresh(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.refresh({ instanceKeys }));
  }

  /**
   * Makes instances claimable from `visibleAt` of a new message, unless they are held back or locked. Returns the keys of
   * the locked ones.
   */
  async touch(tx: Transaction, rows: readonly Touch[]): Promise<readonly number[]> {
    if (rows.length === 0) return [];
    const touched = await tx.query<{ instanceKey: number }>(...this.#sql.touch({ rows }));
    if (touched.length === rows.length) return [];
    const keys = new Set(touched.map(({ instanceKey }) => instanceKey));
    return rows.flatMap(({ instanceKey }) => (keys.has(instanceKey) ? [] : [instanceKey]));
  }

  /** Keeps claims after committed turns, as if they had just begun. */
  async keep(tx: Transaction, rows: readonly Release[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.keep({ rows }));
  }

  /** Claims instances whose rows this transaction has locked, and counts the claims. */
  async claim(
    tx: Transaction,
    claims: readonly { readonly instanceKey: number; readonly secret: string }[],
    claim: { readonly now: number; readonly lockedUntil: number; readonly worker: string | null },
  ): Promise<void> {
    await tx.execute(...this.#sql.claim({ claims, ...claim }));
  }

  /** Undoes claims of instances that turned out to have no visible message. */
  async correct(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.correct({ instanceKeys }));
  }

  /** Releases instances after committed turns. Returns when their next messages are visible. */
  async release(
    tx: Transaction,
    rows: readonly TurnRelease[],
  ): Promise<readonly { readonly nextAt: number }[]> {
    if (rows.length === 0) return [];
    const instanceKeys = rows.map(({ instanceKey }) => instanceKey);
    const paused = rows.filter(({ isPaused }) => isPaused);
    const [, released] = await Promise.all([
      tx.execute(...this.#sql.deleteEmpty({ instanceKeys })),
      tx.query<{ nextAt: number; isPaused: boolean }>(...this.#sql.release({ rows })),
      paused.length > 0 &&
        tx.execute(
          ...this.#sql.releaseEmpty({ instanceKeys: paused.map(({ instanceKey }) => instanceKey) }),
        ),
    ]);
    return released.filter(({ isPaused }) => !isPaused);
  }

  /** Releases claims without a turn. The instances can be claimed again after a delay. */
  async hold(tx: Transaction, holds: readonly Hold[], now: number): Promise<void> {
    if (holds.length === 0) return;
    const rows = holds.map((hold) => ({ ...hold, until: planHoldBack(hold, now).heldUntil }));
    await tx.execute(...this.#sql.hold({ rows, now }));
  }

  /** Holds back instances without a live claim, with or without messages. */
  async holdFree(tx: Transaction, holds: readonly FreeHold[], now: number): Promise<void> {
    if (holds.length === 0) return;
    const rows = holds.map((hold) => ({
      ...hold,
      until: planHoldBack(hold, now).heldUntil ?? now,
    }));
    await tx.execute(...this.#sql.holdFree({ rows, now }));
  }

  /** Makes canceling instances claimable immediately, even if held back, and by any worker from `cleanupAt` on. */
  async limitCleanup(tx: Transaction, rows: readonly Cleanup[], now: number): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.limitCleanup({ rows, now }));
  }

  /** Locks the rows of several renewals in key order, which prevents deadlocks between renewals. */
  async lockToRenew(tx: Transaction, lockTokens: readonly string[]): Promise<void> {
    const instanceKeys = lockTokens.map((lockToken) => parseToken(lockToken).key);
    await tx.execute(...this.#sql.lockToRenew({ instanceKeys }));
  }

  /** Extends the leases of current tokens on locked rows. Returns whether each was extended. */
  async renew(
    tx: Transaction,
    lockTokens: readonly string[],
    extendMs: number,
    nowParameter: number | null,
  ): Promise<readonly boolean[]> {
    const tokens = lockTokens.map(parseToken);
    const renewal = { now: nowParameter, tokens, extendMs: Math.ceil(extendMs) };
    const rows = await tx.query<{ instanceKey: number; lockToken: string }>(
      ...this.#sql.renew(renewal),
    );
    const held = new Map(rows.map(({ instanceKey, lockToken }) => [instanceKey, lockToken]));
    return tokens.map(({ key, secret }) => held.get(key) === secret);
  }

  async delete(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.delete({ instanceKeys }));
  }
}

function statements(schema: string) {
  const table = `${schema}.instance_locks`;
  const messages = `${schema}.orchestrator_queue`;
  const instanceKeys = keys();
  const now = one<number>('bigint');
  // One index probe per instance.
  const firstVisibleAt = (key: string) =>
    `(SELECT visible_at FROM ${messages} AS message WHERE message.instance_key = ${key}
        ORDER BY visible_at LIMIT 1)`;
  return {
    lock: prepare(
      'perdure_lock_instance_locks',
      { now: clock, instanceKeys },
      ({ instanceKeys }) => `SELECT instance_key AS "instanceKey", lock_token AS "lockToken",
          locked_until AS "lockedUntil", claims,
          coalesce(${firstVisibleAt('lock.instance_key')} <= ${nowSql}, FALSE) AS "hasVisible"
        FROM ${table} AS lock WHERE instance_key = ANY (${instanceKeys}) ORDER BY instance_key FOR UPDATE`,
    ),
    readHeld: prepare(
      'perdure_read_held_claims',
      { now: clock, instanceKeys },
      ({
        instanceKeys,
      }) => `SELECT ${nowSql} AS now, wanted.instance_key AS "instanceKey", found.lock_token AS secret
        FROM unnest(${instanceKeys}) AS wanted (instance_key) LEFT JOIN LATERAL (
          SELECT lock_token FROM ${table} AS lock
          WHERE lock.instance_key = wanted.instance_key AND locked_until > ${nowSql} LIMIT 1) AS found ON TRUE`,
    ),
    lockById: prepare(
      'perdure_lock_instance_locks_by_id',
      { instanceIds: strings() },
      ({ instanceIds }) => `SELECT FROM ${table} WHERE instance_key = ANY (ARRAY(
          SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY (${instanceIds})))
        ORDER BY instance_key FOR UPDATE`,
    ),
    touch: prepare(
      'perdure_touch_instances',
      {
        rows: rowsOf<Touch>()({
          instance_key: ['bigint', (row) => row.instanceKey],
          definition_key: ['int', (row) => row.definitionKey],
          next_at: ['bigint', (row) => row.visibleAt],
        }),
      },
      ({ rows }) => `INSERT INTO ${table} AS lock (${rows.names}, claims)
        SELECT ${rows.names}, 0 FROM ${rows.as('touched')}
        ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE
        SET next_at = least(coalesce(lock.next_at, excluded.next_at), greatest(excluded.next_at, lock.held_until))
        WHERE lock.lock_token IS NULL
        RETURNING instance_key AS "instanceKey"`,
    ),
    keep: prepare(
      'perdure_keep_claims',
      {
        rows: rowsOf<Release>()({
          instance_key: ['bigint', (row) => row.instanceKey],
          definition_key: ['int', (row) => row.definitionKey],
        }),
      },
      ({ rows }) => `UPDATE ${table} AS lock
        SET definition_key = kept.definition_key, claims = 0,
            blocked_reason = NULL, blocked_build = NULL, blocked_at = NULL, blocked_details = NULL
        FROM ${rows.as('kept')}
        ${rowIdOf(table, 'one.instance_key = kept.instance_key')}
        WHERE lock.ctid = found.row_id`,
    ),
    claim: prepare(
      'perdure_claim_instances',
      {
        claims: rowsOf<{ readonly instanceKey: number; readonly secret: string }>()({
          instance_key: ['bigint', (claim) => claim.instanceKey],
          secret: ['text', (claim) => claim.secret],
        }),
        lockedUntil: one<number>('bigint'),
        worker: one<string | null>('text'),
        now,
      },
      ({ claims, lockedUntil, worker, now }) => `UPDATE ${table} AS lock
        SET lock_token = claimed.secret, locked_until = ${lockedUntil}, next_at = ${lockedUntil}, claims = claims + 1,
            held_until = NULL, claimed_by = ${worker}, claimed_at = ${now}
        FROM ${claims.as('claimed')}
        ${rowIdOf(table, 'one.instance_key = claimed.instance_key')}
        WHERE lock.ctid = found.row_id`,
    ),
    correct: prepare(
      'perdure_correct_instance_locks',
      { instanceKeys },
      ({ instanceKeys }) => `UPDATE ${table} AS lock
        SET lock_token = NULL, locked_until = NULL, next_at = ${firstVisibleAt('lock.instance_key')},
            claims = greatest(claims - 1, 0), cleanup_at = NULL
        WHERE instance_key = ANY (${instanceKeys})`,
    ),
    deleteEmpty: prepare(
      'perdure_delete_empty_locks',
      { instanceKeys },
      ({ instanceKeys }) => `DELETE FROM ${table} AS lock
        WHERE instance_key = ANY (${instanceKeys})
          AND definition_key > 0 AND ${firstVisibleAt('lock.instance_key')} IS NULL`,
    ),
    // A paused instance keeps its row without messages.
    releaseEmpty: prepare(
      'perdure_release_empty_locks',
      { instanceKeys },
      ({ instanceKeys }) => `UPDATE ${table} AS lock
        SET next_at = NULL, held_until = NULL, lock_token = NULL, locked_until = NULL, claims = 0,
            blocked_reason = NULL, blocked_build = NULL, blocked_at = NULL
        WHERE instance_key = ANY (${instanceKeys}) AND ${firstVisibleAt('lock.instance_key')} IS NULL`,
    ),
    // Recomputes `cleanup_at`, so that an instance whose `cleanupExpired` message is gone is not claimable by every worker.
    release: prepare(
      'perdure_release_instances',
      {
        rows: rowsOf<TurnRelease>()({
          instance_key: ['bigint', (row) => row.instanceKey],
          definition_key: ['int', (row) => queueKey(row.definitionKey, row.isPaused)],
        }),
      },
      ({ rows }) => `INSERT INTO ${table} AS lock (instance_key, definition_key, next_at, claims)
        SELECT released.instance_key, released.definition_key, first.visible_at, 0
        FROM ${rows.as('released')}
        CROSS JOIN LATERAL ${firstVisibleAt('released.instance_key')} AS first
        ON CONFLICT (instance_key) DO UPDATE
        SET definition_key = excluded.definition_key, next_at = excluded.next_at, held_until = NULL,
            lock_token = NULL, locked_until = NULL, claims = 0,
            cleanup_at = CASE WHEN lock.cleanup_at IS NOT NULL THEN
              (SELECT min(visible_at) FROM ${messages} AS message
               WHERE message.instance_key = lock.instance_key AND kind = 'cleanupExpired') END,
            blocked_reason = NULL, blocked_build = NULL, blocked_at = NULL, blocked_details = NULL
        RETURNING next_at AS "nextAt", definition_key < 0 AS "isPaused"`,
    ),
    hold: prepare(
      'perdure_hold_instances',
      {
        rows: rowsOf<Hold & { readonly until: number | null }>()({
          instance_key: 'bigint',
          until: 'bigint',
          claims_back: ['int', ({ giveBackClaim }) => (giveBackClaim ? 1 : 0)],
          reason: ['text', ({ blocked }) => blocked?.reason ?? null],
          build_id: ['text', ({ blocked }) => blocked?.buildId ?? null],
          details: ['text', ({ blocked }) => blocked?.details ?? null],
        }),
        now,
      },
      ({ rows, now }) => `UPDATE ${table} AS lock
        SET lock_token = NULL, locked_until = NULL, held_until = held.until,
            next_at = (SELECT greatest(first.visible_at, held.until)
                       FROM ${firstVisibleAt('lock.instance_key')} AS first),
            cleanup_at = CASE WHEN cleanup_at <= ${now} THEN greatest(cleanup_at, held.until) ELSE cleanup_at END,
            claims = greatest(claims - held.claims_back, 0),
            blocked_reason = coalesce(held.reason, blocked_reason),
            blocked_build = coalesce(held.build_id, blocked_build),
            blocked_details = CASE WHEN held.reason IS NULL THEN blocked_details ELSE held.details END,
            blocked_at = coalesce(blocked_at, CASE WHEN held.reason IS NOT NULL THEN ${now} END)
        FROM ${rows.as('held')}
        ${rowIdOf(table, 'one.instance_key = held.instance_key')}
        WHERE lock.ctid = found.row_id`,
    ),
    // Inserts a row even without messages: its `next_at` then delays messages that arrive during the hold.
    holdFree: prepare(
      'perdure_hold_free_instances',
      {
        rows: rowsOf<FreeHold & { readonly until: number }>()({
          instance_key: 'bigint',
          definition_key: 'int',
          until: 'bigint',
          reason: ['text', ({ blocked }) => blocked.reason],
          build_id: ['text', ({ blocked }) => blocked.buildId],
          details: ['text', ({ blocked }) => blocked.details ?? null],
        }),
        now,
      },
      ({ rows, now }) => `INSERT INTO ${table} AS lock (instance_key, definition_key, next_at,
          held_until, claims,
          blocked_reason, blocked_build, blocked_details, blocked_at)
        SELECT instance_key, definition_key, until, until, 0, reason, build_id, details, ${now} FROM ${rows.as('held')}
        ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE
        SET lock_token = NULL, locked_until = NULL, next_at = excluded.next_at, held_until = excluded.held_until,
            cleanup_at = CASE WHEN lock.cleanup_at <= ${now} THEN greatest(lock.cleanup_at, excluded.held_until)
              ELSE lock.cleanup_at END,
            blocked_reason = excluded.blocked_reason, blocked_build = excluded.blocked_build,
            blocked_details = excluded.blocked_details,
            blocked_at = coalesce(lock.blocked_at, excluded.blocked_at)`,
    ),
    lockToRenew: prepare(
      'perdure_lock_instances_to_renew',
      { instanceKeys },
      ({ instanceKeys }) =>
        `SELECT FROM ${table} WHERE instance_key = ANY (${instanceKeys}) ORDER BY instance_key FOR UPDATE`,
    ),
    renew: prepare(
      'perdure_renew_instances',
      {
        now: clock,
        tokens: rowsOf<{ readonly key: number; readonly secret: string }>()({
          instance_key: ['bigint', (token) => token.key],
          secret: ['text', (token) => token.secret],
        }),
        extendMs: one<number>('bigint'),
      },
      ({ tokens, extendMs }) => `UPDATE ${table} AS lock
        SET locked_until = ${nowSql} + ${extendMs}, next_at = ${nowSql} + ${extendMs}
        FROM ${tokens.as('token')}
        ${rowIdOf(table, `one.instance_key = token.instance_key AND lock_token = secret AND locked_until > ${nowSql}`)}
        WHERE lock.ctid = found.row_id
        RETURNING lock.instance_key AS "instanceKey", lock_token AS "lockToken"`,
    ),
    limitCleanup: prepare(
      'perdure_limit_cleanup',
      {
        rows: rowsOf<Cleanup>()({
          instance_key: 'bigint',
          definition_key: 'int',
          cleanup_at: 'bigint',
        }),
        now,
      },
      ({ rows, now }) => `INSERT INTO ${table} AS lock (${rows.names}, next_at, claims)
        SELECT ${rows.names}, ${now}, 0 FROM ${rows.as('asked')}
        ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE
        SET definition_key = abs(lock.definition_key), cleanup_at = excluded.cleanup_at,
            next_at = CASE WHEN lock.lock_token IS NULL THEN least(lock.next_at, ${now}) ELSE lock.next_at END`,
    ),
    refresh: prepare(
      'perdure_refresh_instance_locks',
      { instanceKeys },
      ({ instanceKeys }) => `UPDATE ${table} AS lock
        SET next_at = (SELECT greatest(first.visible_at, held_until)
                       FROM ${firstVisibleAt('lock.instance_key')} AS first)
        WHERE instance_key = ANY (${instanceKeys}) AND lock_token IS NULL`,
    ),
    delete: prepare(
      'perdure_delete_instance_locks',
      { instanceKeys },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
