import type Database from 'better-sqlite3';

/** The rows of `concurrency_keys`. A run that has lost its key cannot free the one that another run has meanwhile. */
export class ConcurrencyKeys {
  readonly #holder;
  readonly #take;
  readonly #free;
  readonly #freeOfInstances;

  constructor(db: Database.Database) {
    this.#holder = db
      .prepare<[number, string], string>(
        `SELECT instance_id FROM concurrency_keys JOIN instances USING (instance_key)
         WHERE concurrency_keys.definition_key = ? AND concurrency_keys.concurrency_key = ?`,
      )
      .pluck();
    // Replaces a row that nobody is behind any more, as a damaged file may have it.
    this.#take = db.prepare<[number, string, number]>(
      `INSERT INTO concurrency_keys (definition_key, concurrency_key, instance_key) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET instance_key = excluded.instance_key`,
    );
    this.#free = db.prepare<[number, string, number]>(
      `DELETE FROM concurrency_keys
       WHERE definition_key = ? AND concurrency_key = ? AND instance_key = ?`,
    );
    this.#freeOfInstances = db.prepare<[string]>(
      `DELETE FROM concurrency_keys WHERE (definition_key, concurrency_key, instance_key) IN
         (SELECT definition_key, concurrency_key, instance_key
          FROM json_each(?) CROSS JOIN instances ON instance_key = value
          WHERE concurrency_key IS NOT NULL)`,
    );
  }

  /** The id of the run that has a key. */
  holderOf(definitionKey: number, concurrencyKey: string): string | undefined {
    return this.#holder.get(definitionKey, concurrencyKey);
  }

  /** Gives a free key to a run. */
  take(definitionKey: number, concurrencyKey: string, instanceKey: number): void {
    this.#take.run(definitionKey, concurrencyKey, instanceKey);
  }

  /** Frees the key of a run, if it has one. */
  free(run: {
    readonly instanceKey: number;
    readonly definitionKey: number;
    readonly concurrencyKey: string | null;
  }): void {
    if (run.concurrencyKey === null) return;
    this.#free.run(run.definitionKey, run.concurrencyKey, run.instanceKey);
  }

  /** Frees the keys of instances that are about to be deleted. */
  freeOfInstances(instanceKeys: readonly number[]): void {
    this.#freeOfInstances.run(JSON.stringify(instanceKeys));
  }
}
