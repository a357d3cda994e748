import type Database from 'better-sqlite3';
import {
  deletedStartKey,
  type DeletedStart,
  type RepeatableStart,
} from '../../shared/deleted-starts.ts';

/** The rows of `deleted_starts`: starts that a client may repeat although their instances were deleted. */
export class DeletedStarts {
  readonly #insert;
  readonly #has;
  readonly #hasLive;
  readonly #purge;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<[DeletedStart]>(
      `INSERT INTO deleted_starts (start_key, expires_at) VALUES (:startKey, :expiresAt)
       ON CONFLICT DO UPDATE SET expires_at = excluded.expires_at`,
    );
    this.#has = db.prepare<[string], 1>('SELECT 1 FROM deleted_starts WHERE start_key = ?').pluck();
    this.#hasLive = db
      .prepare<[string, number], 1>(
        'SELECT 1 FROM deleted_starts WHERE start_key = ? AND expires_at > ?',
      )
      .pluck();
    this.#purge = db.prepare<[number]>('DELETE FROM deleted_starts WHERE expires_at <= ?');
  }

  /** Records starts of instances that are about to be deleted. Deletes the expired ones. */
  add(starts: readonly DeletedStart[], now: number): void {
    if (starts.length === 0) return;
    this.purge(now);
    for (const start of starts) this.#insert.run(start);
  }

  /** Whether a start repeats one whose instance was deleted. Reads nothing for a start that is no repeat. */
  has(start: RepeatableStart): boolean {
    return start.isRepeat === true && this.#has.get(deletedStartKey(start)) !== undefined;
  }

  /** Whether a key was recorded and has not expired. */
  hasLiveKey(startKey: string, now: number): boolean {
    return this.#hasLive.get(startKey, now) !== undefined;
  }

  /** Deletes the starts that no client repeats any more. */
  purge(now: number): void {
    this.#purge.run(now);
  }
}
