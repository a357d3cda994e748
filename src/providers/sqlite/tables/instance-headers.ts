import type Database from 'better-sqlite3';

/** The column `headers` of `instances`. Apart from the inserts, which do not pay for starts without headers. */
export class InstanceHeaders {
  readonly #set;
  readonly #select;

  constructor(db: Database.Database) {
    this.#set = db.prepare<[string, number]>(
      'UPDATE instances SET headers = ? WHERE instance_key = ?',
    );
    this.#select = db.prepare<[string], { instanceKey: number; headers: string }>(
      `SELECT instance_key AS instanceKey, headers FROM instances
       WHERE instance_key IN (SELECT value FROM json_each(?)) AND headers IS NOT NULL`,
    );
  }

  /** Stores the headers of a new instance, if it has any. */
  add(instanceKey: number, headers: string | undefined): void {
    if (headers !== undefined) this.#set.run(headers, instanceKey);
  }

  /** Returns the headers of instances, in order; `null` for none. */
  read(instanceKeys: readonly number[]): readonly (string | null)[] {
    const found = this.#select.all(JSON.stringify(instanceKeys));
    const byKey = new Map(found.map(({ instanceKey, headers }) => [instanceKey, headers]));
    return instanceKeys.map((key) => byKey.get(key) ?? null);
  }
}
