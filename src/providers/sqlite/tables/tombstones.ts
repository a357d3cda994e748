import type Database from 'better-sqlite3';
import { formatToken, parseToken } from '../../shared/lock-token.ts';

interface Claim {
  readonly itemKey: number;
  readonly secret: string;
}

/** The rows of `tombstones`: claims on deleted items, kept until their leases would have expired. */
export class Tombstones {
  readonly #ofInstances;
  readonly #ofExecutions;
  readonly #has;
  readonly #since;
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
    this.#purge = db.prepare<[number]>('DELETE FROM tombstones WHERE locked_until <= ?');
  }

  /** Records the claims on items of instances that are about to be deleted. Returns their tokens. */
  addOfInstances(instanceKeys: readonly number[], now: number): readonly string[] {
    this.purge(now);
    return toTokens(this.#ofInstances.all({ keys: JSON.stringify(instanceKeys), now }));
  }

  /** Records the claims on items of executions that are about to be pruned. Returns their tokens. */
  addOfExecutions(
    instanceKey: number,
    executionIds: readonly number[],
    now: number,
  ): readonly string[] {
    this.purge(now);
    const executions = JSON.stringify(executionIds);
    return toTokens(this.#ofExecutions.all({ instanceKey, executions, now }));
  }

  /** Whether the item of a token was deleted while the token held it. */
  has(token: string, now: number): boolean {
    const { key, secret } = parseToken(token);
    return this.#has.get(key, secret, now) !== undefined;
  }

  /** Tokens of items that were deleted at `time` or later and would still be held. */
  since(time: number, now: number): readonly string[] {
    return toTokens(this.#since.all(now, time));
  }

  /** Deletes rows whose leases would have expired. */
  purge(now: number): void {
    this.#purge.run(now);
  }
}

function toTokens(claims: readonly Claim[]): readonly string[] {
  return claims.map(({ itemKey, secret }) => formatToken(itemKey, secret));
}
