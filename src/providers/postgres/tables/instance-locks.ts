import type { Blocked } from '../../contract/orchestration-queue.ts';
import { numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { parseToken } from '../../shared/lock-token.ts';
import { placeOf } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';

/** A row of `instance_locks` as the fences read it. */
export interface InstanceLock {
  readonly instanceKey: number;
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
  readonly claims: number;
  /** Whether a message waits that is visible now. */
  readonly hasVisible: boolean;
}

/** A claim that is given up without a turn. */
export interface Hold {
  readonly instanceKey: number;
  readonly delayMs: number;
  readonly giveBackClaim: boolean;
  readonly blocked: Blocked | undefined;
}

/**
 * The rows of `instance_locks`: which instance may be claimed, when, and who holds it.
 *
 * L1. An instance with messages has a row; one without messages, lock, claims and hold-back has none.
 * L2. `next_at` is the lock's expiry while locked, else the later of the first message's `visible_at` and `held_until`.
 * L3. `cleanup_at` is set while a `cleanupExpired` message waits. From then on anyone may claim the instance, unless
 *     it is locked.
 */
export class InstanceLocks {
  readonly #lock: Statement;
  readonly #lockOf: Statement;
  readonly #touch: Statement;
  readonly #claim: Statement;
  readonly #correct: Statement;
  readonly #deleteEmpty: Statement;
  readonly #release: Statement;
  readonly #hold: Statement;
  readonly #holdFree: Statement;
  readonly #lockToRenew: Statement;
  readonly #renew: Statement;
  readonly #limitCleanup: Statement;
  readonly #refresh: Statement;
  readonly #delete: Statement;

  constructor(schema: string) {
    const table = `${schema}.instance_locks`;
    const messages = `${schema}.orchestrator_queue`;
    // A bounded look into the index, for each instance alone.
    const firstVisibleAt = (key: string) =>
      `(SELECT visible_at FROM ${messages} AS message WHERE message.instance_key = ${key}
        ORDER BY visible_at LIMIT 1)`;
    this.#lock = {
      name: 'perdure_lock_instance_locks',
      text: `SELECT instance_key AS "instanceKey", lock_token AS "lockToken", locked_until AS "lockedUntil", claims,
          coalesce(${firstVisibleAt('lock.instance_key')} <= ${nowSql}, FALSE) AS "hasVisible"
        FROM ${table} AS lock WHERE instance_key = ANY ($2::bigint[]) ORDER BY instance_key FOR UPDATE`,
    };
    this.#lockOf = {
      name: 'perdure_lock_instance_locks_by_id',
      text: `SELECT FROM ${table} WHERE instance_key = ANY (ARRAY(
          SELECT instance_key FROM ${schema}.instances WHERE instance_id = ANY ($1::text[])))
        ORDER BY instance_key FOR UPDATE`,
    };
    this.#touch = {
      name: 'perdure_touch_instances',
      text: `INSERT INTO ${table} AS lock (instance_key, definition_key, next_at, claims)
        SELECT instance_key, definition_key, next_at, 0
        FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS touched (instance_key, definition_key, next_at)
        ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE
        SET next_at = least(coalesce(lock.next_at, excluded.next_at), greatest(excluded.next_at, lock.held_until))
        WHERE lock.lock_token IS NULL`,
    };
    this.#claim = {
      name: 'perdure_claim_instances',
      text: `UPDATE ${table} AS lock
        SET lock_token = claimed.secret, locked_until = $3::bigint, next_at = $3::bigint, claims = claims + 1, held_until = NULL
        FROM unnest($1::bigint[], $2::text[]) AS claimed (instance_key, secret)
        ${placeOf(table, 'one.instance_key = claimed.instance_key')}
        WHERE lock.ctid = found.place`,
    };
    this.#correct = {
      name: 'perdure_correct_instance_locks',
      text: `UPDATE ${table} AS lock
        SET lock_token = NULL, locked_until = NULL, next_at = ${firstVisibleAt('lock.instance_key')},
            claims = greatest(claims - 1, 0), cleanup_at = NULL
        WHERE instance_key = ANY ($1::bigint[])`,
    };
    this.#deleteEmpty = {
      name: 'perdure_delete_empty_locks',
      text: `DELETE FROM ${table} AS lock
        WHERE instance_key = ANY ($1::bigint[])
          AND ${firstVisibleAt('lock.instance_key')} IS NULL`,
    };
    // The clean-up is read anew, so that an instance whose message is gone is not offered to everyone for ever.
    this.#release = {
      name: 'perdure_release_instances',
      text: `INSERT INTO ${table} AS lock (instance_key, definition_key, next_at, claims)
        SELECT released.instance_key, released.definition_key, first.visible_at, 0
        FROM unnest($1::bigint[], $2::int[]) AS released (instance_key, definition_key)
        CROSS JOIN LATERAL ${firstVisibleAt('released.instance_key')} AS first
        ON CONFLICT (instance_key) DO UPDATE
        SET definition_key = excluded.definition_key, next_at = excluded.next_at, held_until = NULL,
            lock_token = NULL, locked_until = NULL, claims = 0,
            cleanup_at = CASE WHEN lock.cleanup_at IS NOT NULL THEN
              (SELECT min(visible_at) FROM ${messages} AS message
               WHERE message.instance_key = lock.instance_key AND kind = 'cleanupExpired') END,
            blocked_reason = NULL, blocked_build = NULL, blocked_at = NULL
        RETURNING next_at AS "nextAt"`,
    };
    this.#hold = {
      name: 'perdure_hold_instances',
      text: `UPDATE ${table} AS lock
        SET lock_token = NULL, locked_until = NULL, held_until = held.until,
            next_at = (SELECT greatest(first.visible_at, held.until)
                       FROM ${firstVisibleAt('lock.instance_key')} AS first),
            cleanup_at = CASE WHEN cleanup_at <= $6 THEN greatest(cleanup_at, held.until) ELSE cleanup_at END,
            claims = greatest(claims - held.claims_back, 0),
            blocked_reason = coalesce(held.reason, blocked_reason),
            blocked_build = coalesce(held.build_id, blocked_build),
            blocked_at = coalesce(blocked_at, CASE WHEN held.reason IS NOT NULL THEN $6::bigint END)
        FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::text[], $5::text[])
          AS held (instance_key, until, claims_back, reason, build_id)
        ${placeOf(table, 'one.instance_key = held.instance_key')}
        WHERE lock.ctid = found.place`,
    };
    // Also without messages: `next_at` then keeps those that come from being offered before the hold-back ends.
    this.#holdFree = {
      name: 'perdure_hold_free_instances',
      text: `INSERT INTO ${table} AS lock (instance_key, definition_key, next_at, held_until, claims,
          blocked_reason, blocked_build, blocked_at)
        SELECT instance_key, definition_key, until, until, 0, reason, build_id, $6::bigint
        FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::text[])
          AS held (instance_key, definition_key, until, reason, build_id)
        ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE
        SET lock_token = NULL, locked_until = NULL, next_at = excluded.next_at, held_until = excluded.held_until,
            cleanup_at = CASE WHEN lock.cleanup_at <= $6 THEN greatest(lock.cleanup_at, excluded.held_until)
              ELSE lock.cleanup_at END,
            blocked_reason = excluded.blocked_reason, blocked_build = excluded.blocked_build,
            blocked_at = coalesce(lock.blocked_at, excluded.blocked_at)`,
    };
    this.#lockToRenew = {
      name: 'perdure_lock_instances_to_renew',
      text: `SELECT FROM ${table} WHERE instance_key = ANY ($1::bigint[]) ORDER BY instance_key FOR UPDATE`,
    };
    this.#renew = {
      name: 'perdure_renew_instances',
      text: `UPDATE ${table} AS lock SET locked_until = ${nowSql} + $4::bigint, next_at = ${nowSql} + $4::bigint
        FROM unnest($2::bigint[], $3::text[]) AS token (instance_key, secret)
        ${placeOf(table, `one.instance_key = token.instance_key AND lock_token = secret AND locked_until > ${nowSql}`)}
        WHERE lock.ctid = found.place
        RETURNING lock.instance_key AS "instanceKey", lock_token AS "lockToken"`,
    };
    this.#limitCleanup = {
      name: 'perdure_limit_cleanup',
      text: `INSERT INTO ${table} AS lock (instance_key, definition_key, next_at, claims, cleanup_at)
        SELECT instance_key, definition_key, $4::bigint, 0, cleanup_at
        FROM unnest($1::bigint[], $2::int[], $3::bigint[]) AS asked (instance_key, definition_key, cleanup_at)
        ORDER BY instance_key
        ON CONFLICT (instance_key) DO UPDATE
        SET cleanup_at = excluded.cleanup_at,
            next_at = CASE WHEN lock.lock_token IS NULL THEN least(lock.next_at, $4) ELSE lock.next_at END`,
    };
    this.#refresh = {
      name: 'perdure_refresh_instance_locks',
      text: `UPDATE ${table} AS lock
        SET next_at = (SELECT greatest(first.visible_at, held_until)
                       FROM ${firstVisibleAt('lock.instance_key')} AS first)
        WHERE instance_key = ANY ($1::bigint[]) AND lock_token IS NULL`,
    };
    this.#delete = {
      name: 'perdure_delete_instance_locks',
      text: `DELETE FROM ${table} WHERE instance_key = ANY ($1::bigint[])`,
    };
  }

  /** Locks the rows of instances, in the order of their keys. */
  async lock(
    tx: Transaction,
    instanceKeys: readonly number[],
    nowParameter: number | null,
  ): Promise<ReadonlyMap<number, InstanceLock>> {
    const rows = await tx.query<InstanceLock>(this.#lock, [nowParameter, numbers(instanceKeys)]);
    return new Map(rows.map((row) => [row.instanceKey, row]));
  }

  /** Locks the rows of instances that are locked already: whoever is claiming them has done so. */
  async lockOf(tx: Transaction, instanceIds: readonly string[]): Promise<void> {
    await tx.execute(this.#lockOf, [texts(instanceIds)]);
  }

  /** Messages were taken away without a turn: whoever waits for the instances need not look for them. */
  async refresh(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(this.#refresh, [numbers(instanceKeys)]);
  }

  /** Messages become visible at a time: their instances may be claimed then, if not held back or locked. */
  async touch(
    tx: Transaction,
    rows: readonly {
      readonly instanceKey: number;
      readonly definitionKey: number;
      readonly visibleAt: number;
    }[],
  ): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#touch, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ definitionKey }) => definitionKey)),
      numbers(rows.map(({ visibleAt }) => visibleAt)),
    ]);
  }

  /** Gives rows that are locked already to their claimers, and counts the claims. */
  async claim(
    tx: Transaction,
    claims: readonly { readonly instanceKey: number; readonly secret: string }[],
    lockedUntil: number,
  ): Promise<void> {
    await tx.execute(this.#claim, [
      numbers(claims.map(({ instanceKey }) => instanceKey)),
      texts(claims.map(({ secret }) => secret)),
      lockedUntil,
    ]);
  }

  /** Takes back claims of instances that turned out to have no visible message. */
  async correct(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(this.#correct, [numbers(instanceKeys)]);
  }

  /** Releases after committed turns; answers when the next messages are visible. */
  async release(
    tx: Transaction,
    rows: readonly { readonly instanceKey: number; readonly definitionKey: number }[],
  ): Promise<readonly { readonly nextAt: number }[]> {
    if (rows.length === 0) return [];
    const keys = numbers(rows.map(({ instanceKey }) => instanceKey));
    const [, released] = await Promise.all([
      tx.execute(this.#deleteEmpty, [keys]),
      tx.query<{ nextAt: number }>(this.#release, [
        keys,
        numbers(rows.map(({ definitionKey }) => definitionKey)),
      ]),
    ]);
    return released;
  }

  /** Releases without a turn: claimable again after a delay, perhaps with the reason why it is held back. */
  async hold(tx: Transaction, holds: readonly Hold[], now: number): Promise<void> {
    if (holds.length === 0) return;
    await tx.execute(this.#hold, [
      numbers(holds.map(({ instanceKey }) => instanceKey)),
      numbers(holds.map(({ delayMs }) => (delayMs > 0 ? now + Math.ceil(delayMs) : null))),
      numbers(holds.map(({ giveBackClaim }) => (giveBackClaim ? 1 : 0))),
      texts(holds.map(({ blocked }) => blocked?.reason ?? null)),
      texts(holds.map(({ blocked }) => blocked?.buildId ?? null)),
      now,
    ]);
  }

  /** Holds back instances without a live claim, whether or not they have messages. */
  async holdFree(
    tx: Transaction,
    holds: readonly {
      readonly instanceKey: number;
      readonly definitionKey: number;
      readonly delayMs: number;
      readonly blocked: Blocked;
    }[],
    now: number,
  ): Promise<void> {
    if (holds.length === 0) return;
    await tx.execute(this.#holdFree, [
      numbers(holds.map(({ instanceKey }) => instanceKey)),
      numbers(holds.map(({ definitionKey }) => definitionKey)),
      numbers(holds.map(({ delayMs }) => now + Math.ceil(delayMs))),
      texts(holds.map(({ blocked }) => blocked.reason)),
      texts(holds.map(({ blocked }) => blocked.buildId)),
      now,
    ]);
  }

  /** Instances were asked to stop: they may be claimed at once, also when held back, and later by anyone. */
  async limitCleanup(
    tx: Transaction,
    rows: readonly {
      readonly instanceKey: number;
      readonly definitionKey: number;
      readonly cleanupAt: number;
    }[],
    now: number,
  ): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#limitCleanup, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ definitionKey }) => definitionKey)),
      numbers(rows.map(({ cleanupAt }) => cleanupAt)),
      now,
    ]);
  }

  /** Locks rows before several renewals of them: all at once, in the order of their keys. */
  async lockToRenew(tx: Transaction, lockTokens: readonly string[]): Promise<void> {
    const keys = lockTokens.map((lockToken) => parseToken(lockToken).key);
    await tx.execute(this.#lockToRenew, [numbers(keys)]);
  }

  /** Extends the locks of tokens that are held; answers which. The rows are locked. */
  async renew(
    tx: Transaction,
    lockTokens: readonly string[],
    extendMs: number,
    nowParameter: number | null,
  ): Promise<readonly boolean[]> {
    const tokens = lockTokens.map(parseToken);
    const keys = numbers(tokens.map(({ key }) => key));
    const rows = await tx.query<{ instanceKey: number; lockToken: string }>(this.#renew, [
      nowParameter,
      keys,
      texts(tokens.map(({ secret }) => secret)),
      Math.ceil(extendMs),
    ]);
    const held = new Map(rows.map(({ instanceKey, lockToken }) => [instanceKey, lockToken]));
    return tokens.map(({ key, secret }) => held.get(key) === secret);
  }

  async delete(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(this.#delete, [numbers(instanceKeys)]);
  }
}

/** Says whether a lock is held and has not expired. */
export function isLive(
  lock: { readonly lockToken: string | null; readonly lockedUntil: number | null },
  now: number,
): boolean {
  return lock.lockToken !== null && lock.lockedUntil !== null && lock.lockedUntil > now;
}
