import type Database from 'better-sqlite3';

/** The rows of `dedupe_keys`. A run that has lost its key cannot free the one that another run has meanwhile. */
export class DedupeKeys {
  readonly #holder;
  readonly #take;
  readonly #free;
  readonly #freeOfInstances;

  constructor(db: Database.Database) {
    this.#holder = db
      .prepare<[number, string], string>(
        `SELECT instance_id FROM dedupe_keys JOIN instances USING (instance_key)
         WHERE dedupe_keys.definition_key = ? AND dedupe_keys.dedupe_key = ?`,
      )
      .pluck();
    // Replaces a row without a process, which a damaged file may have.
    this.#take = db.prepare<[number, string, number]>(
      `INSERT INTO dedupe_keys (definition_key, dedupe_key, instance_key) VALUES (?, ?, ?)
       ON CONFLICT DO UPDATE SET instance_key = excluded.instance_key`,
    );
    this.#free = db.prepare<[number, string, number]>(
      `DELETE FROM dedupe_keys
       WHERE definition_key = ? AND dedupe_key = ? AND instance_key = ?`,
    );
    this.#freeOfInstances = db.prepare<[string]>(
      `DELETE FROM dedupe_keys WHERE (definition_key, dedupe_key, instance_key) IN
         (SELECT definition_key, dedupe_key, instance_key
          FROM json_each(?) CROSS JOIN instances ON instance_key = value
          WHERE dedupe_key IS NOT NULL)`,
    );
  }

  /** The id of the run that has a key. */
  holderOf(definitionKey: number, dedupeKey: string): string | undefined {
    return this.#holder.get(definitionKey, dedupeKey);
  }

  /** Gives a free key to a run. */
  take(definitionKey: number, dedupeKey: string, instanceKey: number): void {
    this.#take.run(definitionKey, dedupeKey, instanceKey);
  }

  /** Frees the key of a run, if it has one. */
  free(run: {
    readonly instanceKey: number;
    readonly definitionKey: number;
    readonly dedupeKey: string | null;
  }): void {
    if (run.dedupeKey === null) return;
    this.#free.run(run.definitionKey, run.dedupeKey, run.instanceKey);
  }

  /** Frees the keys of instances that are about to be deleted. */
  freeOfInstances(instanceKeys: readonly number[]): void {
    this.#freeOfInstances.run(JSON.stringify(instanceKeys));
  }
}
