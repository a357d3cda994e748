import type Database from 'better-sqlite3';
import {
  applyTags,
  decodeTags,
  encodeTags,
  type RecordedTagChanges,
  type Tags,
} from '../../../model/values/tags.ts';

/** The tags of instances: the column `tags`, and its index `instance_tags`. */
export class InstanceTags {
  readonly #select;
  readonly #update;
  readonly #insert;
  readonly #delete;
  readonly #deleteOfInstances;

  constructor(db: Database.Database) {
    this.#select = db
      .prepare<[number], string | null>('SELECT tags FROM instances WHERE instance_key = ?')
      .pluck();
    this.#update = db.prepare<[string | null, number]>(
      'UPDATE instances SET tags = ? WHERE instance_key = ?',
    );
    this.#insert = db.prepare<[string, string, number]>(
      'INSERT INTO instance_tags (name, value, instance_key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
    );
    this.#delete = db.prepare<[string, string, number]>(
      'DELETE FROM instance_tags WHERE name = ? AND value = ? AND instance_key = ?',
    );
    // The column names the entries, so that the index needs no second index by instance.
    this.#deleteOfInstances = db.prepare<[string]>(
      `DELETE FROM instance_tags WHERE (name, value, instance_key) IN (
         SELECT json_each.key, json_each.value, instance_key FROM instances, json_each(instances.tags)
         WHERE tags IS NOT NULL AND instance_key IN (SELECT value FROM json_each(?)))`,
    );
  }

  /** Writes the tags of a new instance. */
  add(instanceKey: number, tags: Tags | undefined): void {
    if (tags === undefined) return;
    this.#update.run(encodeTags(tags), instanceKey);
    for (const [name, value] of Object.entries(tags)) this.#insert.run(name, value, instanceKey);
  }

  /** Replaces the tags of an instance. */
  replace(instanceKey: number, tags: Tags | undefined): void {
    this.deleteOfInstances(JSON.stringify([instanceKey]));
    this.#update.run(null, instanceKey);
    this.add(instanceKey, tags);
  }

  merge(instanceKey: number, changes: RecordedTagChanges): void {
    const before = decodeTags(this.#select.get(instanceKey) ?? null);
    const after = applyTags(before, changes);
    this.#update.run(encodeTags(after), instanceKey);
    for (const [name, value] of Object.entries(before)) {
      if (after[name] !== value) this.#delete.run(name, value, instanceKey);
    }
    for (const [name, value] of Object.entries(after)) {
      if (before[name] !== value) this.#insert.run(name, value, instanceKey);
    }
  }

  /** Call it before the rows of the instances are deleted. */
  deleteOfInstances(instanceKeys: string): void {
    this.#deleteOfInstances.run(instanceKeys);
  }
}
