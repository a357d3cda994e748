import type Database from 'better-sqlite3';
import { isGeneratedKey, staleKeys } from '../../../model/event-key.ts';

/** The rows of `event_keys`: the keys of messages that instances have got. */
export class EventKeys {
  readonly #insert;
  readonly #has;
  readonly #purge;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<[number, string]>(
      'INSERT INTO event_keys (instance_key, event_key) VALUES (?, ?)',
    );
    this.#has = db
      .prepare<[number, string], 1>(
        'SELECT 1 FROM event_keys WHERE instance_key = ? AND event_key = ?',
      )
      .pluck();
    this.#purge = db.prepare<[number, string, string]>(
      'DELETE FROM event_keys WHERE instance_key = ? AND event_key >= ? AND event_key < ?',
    );
  }

  has(instanceKey: number, key: string): boolean {
    return this.#has.get(instanceKey, key) !== undefined;
  }

  /** Records a key. Generated ones that are too old to be repeated are deleted. */
  add(instanceKey: number, key: string, now: number): void {
    this.#insert.run(instanceKey, key);
    if (!isGeneratedKey(key)) return;
    const { from, before } = staleKeys(now);
    this.#purge.run(instanceKey, from, before);
  }
}
