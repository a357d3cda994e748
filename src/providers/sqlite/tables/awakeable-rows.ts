import type Database from 'better-sqlite3';
import type { AwakeableChanges } from '../../contract/updates.ts';

/** An awakeable as stored. */
export interface AwakeableRow {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly operation: number;
  readonly answerKey: string | null;
}

/** The rows of `awakeables`. */
export class AwakeableRows {
  readonly #select;
  readonly #insert;
  readonly #withdraw;
  readonly #close;
  readonly #answer;
  readonly #deleteOf;

  constructor(db: Database.Database) {
    this.#select = db.prepare<[string], AwakeableRow>(
      `SELECT instance_key AS instanceKey, execution_id AS executionId, operation, answer_key AS answerKey
       FROM awakeables WHERE token_hash = ?`,
    );
    // A retry creates the awakeables again that its kept events wait for. A fork has the tokens of its original.
    this.#insert = db.prepare<[string, number, number, number]>(
      `INSERT INTO awakeables (token_hash, instance_key, execution_id, operation) VALUES (?, ?, ?, ?)
       ON CONFLICT (token_hash) DO UPDATE SET execution_id = excluded.execution_id, answer_key = NULL
         WHERE instance_key = excluded.instance_key`,
    );
    this.#withdraw = db.prepare<[number, number, string]>(
      `DELETE FROM awakeables WHERE instance_key = ? AND execution_id = ?
         AND operation IN (SELECT value FROM json_each(?)) AND answer_key IS NULL`,
    );
    this.#close = db.prepare<[number, number]>(
      'DELETE FROM awakeables WHERE instance_key = ? AND (answer_key IS NULL OR execution_id < ?)',
    );
    this.#answer = db.prepare<[string, string]>(
      'UPDATE awakeables SET answer_key = ? WHERE token_hash = ?',
    );
    this.#deleteOf = db.prepare<[{ keys: string }]>(
      'DELETE FROM awakeables WHERE instance_key IN (SELECT value FROM json_each(:keys))',
    );
  }

  find(tokenHash: string): AwakeableRow | undefined {
    return this.#select.get(tokenHash);
  }

  /** Writes the changes of a turn. */
  change(
    target: { readonly instanceKey: number; readonly executionId: number },
    { created, withdrawn, closes }: AwakeableChanges,
  ): void {
    const { instanceKey, executionId } = target;
    for (const { operation, tokenHash } of created) {
      this.#insert.run(tokenHash, instanceKey, executionId, operation);
    }
    if (withdrawn.length > 0) {
      this.#withdraw.run(instanceKey, executionId, JSON.stringify(withdrawn));
    }
    if (closes) this.#close.run(instanceKey, executionId);
  }

  answer(tokenHash: string, answerKey: string): void {
    this.#answer.run(answerKey, tokenHash);
  }

  /** Deletes the awakeables of instances: `keys` is a JSON array. */
  deleteOfInstances(keys: string): void {
    this.#deleteOf.run({ keys });
  }
}
