import type Database from 'better-sqlite3';

/** Reads who is whose child. */
export class InstanceFamily {
  readonly #children;
  readonly #parent;

  constructor(db: Database.Database) {
    this.#children = db
      .prepare<[string], string>(
        'SELECT instance_id FROM instances WHERE parent_instance_id = ? ORDER BY instance_key',
      )
      .pluck();
    this.#parent = db
      .prepare<[string], string | null>(
        'SELECT parent_instance_id FROM instances WHERE instance_id = ?',
      )
      .pluck();
  }

  childrenOf(instanceId: string): readonly string[] {
    return this.#children.all(instanceId);
  }

  /** `null` for a root, `undefined` for an unknown id. */
  parentOf(instanceId: string): string | null | undefined {
    return this.#parent.get(instanceId);
  }
}
