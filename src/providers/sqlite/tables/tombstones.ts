import type Database from 'better-sqlite3';
import { formatToken, parseToken } from '../../shared/lock-token.ts';

interface Claim {
  readonly itemKey: number;
  readonly secret: string;
}

/** The rows of `tombstones`: claims whose items were deleted under them, until their leases would have ended. */
export class Tombstones {
  readonly #ofInstances;
  readonly #ofExecutions;
  readonly #has;
  readonly #since;
  readonly #hasExpired;
  readonly #purge;

  constructor(db: Database.Database) {
    const insert = (where: string) =>
      `INSERT INTO tombstones (item_key, lock_token, deleted_at, locked_until)
       SELECT item_key, lock_token, :now, locked_until FROM worker_queue
       WHERE ${where} AND locked_until > :now
       RETURNING item_key AS itemKey, lock_token AS secret`;
    this.#ofInstances = db.prepare<[{ keys: string; now: number }], Claim>(
      insert('instance_key IN (SELECT value FROM json_each(:keys))'),
    );
    this.#ofExecutions = db.prepare<
      [{ instanceKey: number; executions: string; now: number }],
      Claim
    >(
      insert(
        'instance_key = :instanceKey AND execution_id IN (SELECT value FROM json_each(:executions))',
      ),
    );
    this.#has = db
      .prepare<[number, string, number], 1>(
        'SELECT 1 FROM tombstones WHERE item_key = ? AND lock_token = ? AND locked_until > ?',
      )
      .pluck();
    this.#since = db.prepare<[number, number], Claim>(
      `SELECT item_key AS itemKey, lock_token AS secret FROM tombstones
       WHERE locked_until > ? AND deleted_at >= ?`,
    );
    this.#hasExpired = db
      .prepare<[number], 1>('SELECT 1 FROM tombstones WHERE locked_until <= ? LIMIT 1')
      .pluck();
    this.#purge = db.prepare<[number]>('DELETE FROM tombstones WHERE locked_until <= ?');
  }

  /** Remembers the claims on items of instances that are about to be deleted; returns their tokens. */
  addOfInstances(instanceKeys: readonly number[], now: number): readonly string[] {
    this.purge(now);
    return toTokens(this.#ofInstances.all({ keys: JSON.stringify(instanceKeys), now }));
  }

  /** Remembers the claims on items of executions that are about to be pruned; returns their tokens. */
  addOfExecutions(
    instanceKey: number,
    executionIds: readonly number[],
    now: number,
  ): readonly string[] {
    this.purge(now);
    const executions = JSON.stringify(executionIds);
    return toTokens(this.#ofExecutions.all({ instanceKey, executions, now }));
  }

  /** Says whether the item of a token was deleted while the token held it. */
  has(token: string, now: number): boolean {
    const { key, secret } = parseToken(token);
    return this.#has.get(key, secret, now) !== undefined;
  }

  /** The tokens of items that were deleted at a time or later and would still be held. */
  since(time: number, now: number): readonly string[] {
    return toTokens(this.#since.all(now, time));
  }

  /** Says whether there is something to forget. */
  hasExpired(now: number): boolean {
    return this.#hasExpired.get(now) !== undefined;
  }

  /** Forgets the claims that would have ended by now. */
  purge(now: number): void {
    this.#purge.run(now);
  }
}

function toTokens(claims: readonly Claim[]): readonly string[] {
  return claims.map(({ itemKey, secret }) => formatToken(itemKey, secret));
}
