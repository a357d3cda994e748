import type Database from 'better-sqlite3';
import type { Debounce } from '../../../model/admission-options.ts';
import { debounceExpiry, maxSwept, windowEnd, type StartKeyKind } from '../../rules/start-keys.ts';

/** A key of one kind. */
interface Key {
  readonly definitionKey: number;
  readonly key: string;
}

/** The run of a debounce key. */
export interface DebouncedRun {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly createdAt: number;
  readonly requestKey: string;
}

interface KeyRow {
  readonly definitionKey: number;
  readonly kind: StartKeyKind;
  readonly key: string;
  readonly instanceKey: number;
  readonly expiresAt: number;
  readonly requestKey: string | null;
}

interface ExpiredKey {
  readonly definitionKey: number;
  readonly kind: StartKeyKind;
  readonly key: string;
  /** Whether it belongs to a debounced run that has not ended its wait. */
  readonly isPending: 0 | 1;
}

/** The rows of `start_keys`: windows of dedupe keys, and debounced runs. Starts without such a key have none. */
export class StartKeys {
  readonly #selectWindow;
  readonly #selectDebounced;
  readonly #set;
  readonly #move;
  readonly #selectExpired;
  readonly #delete;
  readonly #postpone;

  constructor(db: Database.Database) {
    this.#selectWindow = db
      .prepare<[number, string, number], string>(
        `SELECT instance_id FROM start_keys JOIN instances USING (instance_key)
         WHERE start_keys.definition_key = ? AND kind = 'dedupe' AND start_key = ? AND start_keys.expires_at > ?`,
      )
      .pluck();
    this.#selectDebounced = db.prepare<[number, string], DebouncedRun>(
      `SELECT instance_key AS instanceKey, instance_id AS instanceId, created_at AS createdAt, request_key AS requestKey
       FROM start_keys JOIN instances USING (instance_key)
       WHERE start_keys.definition_key = ? AND kind = 'debounce' AND start_key = ?`,
    );
    this.#set = db.prepare<[KeyRow]>(
      `INSERT INTO start_keys (definition_key, kind, start_key, instance_key, expires_at, moves, request_key)
       VALUES (:definitionKey, :kind, :key, :instanceKey, :expiresAt, 0, :requestKey)
       ON CONFLICT DO UPDATE SET instance_key = excluded.instance_key, expires_at = excluded.expires_at, moves = 0,
         request_key = excluded.request_key`,
    );
    this.#move = db.prepare<[string, number, number, string]>(
      `UPDATE start_keys SET moves = moves + 1, request_key = ?, expires_at = ?
       WHERE definition_key = ? AND kind = 'debounce' AND start_key = ?`,
    );
    this.#selectExpired = db.prepare<[number, number], ExpiredKey>(
      `SELECT start_keys.definition_key AS definitionKey, kind, start_key AS key,
              kind = 'debounce' AND EXISTS (
                SELECT 1 FROM instances WHERE instance_key = start_keys.instance_key AND status = 'pending') AS isPending
       FROM start_keys WHERE expires_at <= ? ORDER BY expires_at LIMIT +?`,
    );
    this.#delete = db.prepare<[number, StartKeyKind, string]>(
      'DELETE FROM start_keys WHERE definition_key = ? AND kind = ? AND start_key = ?',
    );
    this.#postpone = db.prepare<[number, number, StartKeyKind, string]>(
      'UPDATE start_keys SET expires_at = ? WHERE definition_key = ? AND kind = ? AND start_key = ?',
    );
  }

  /** The id of the run whose dedupe window has not ended. */
  windowOf(definitionKey: number, key: string, now: number): string | undefined {
    return this.#selectWindow.get(definitionKey, key, now);
  }

  /** Opens the dedupe window of a new run. */
  addWindow(run: Key & { readonly instanceKey: number }, dedupeMs: number, now: number): void {
    this.#sweep(now);
    const expiresAt = windowEnd(now, dedupeMs);
    this.#set.run({ ...run, kind: 'dedupe', expiresAt, requestKey: null });
  }

  /** The run of a debounce key, started or not. */
  debounced(definitionKey: number, key: string): DebouncedRun | undefined {
    return this.#selectDebounced.get(definitionKey, key);
  }

  /** Records the new run of a debounce key. */
  addDebounced(
    definitionKey: number,
    { key, requestKey }: Debounce,
    run: { readonly instanceKey: number; readonly startsAt: number; readonly now: number },
  ): void {
    const { instanceKey, startsAt, now } = run;
    this.#sweep(now);
    const expiresAt = debounceExpiry(startsAt);
    this.#set.run({ definitionKey, kind: 'debounce', key, instanceKey, expiresAt, requestKey });
  }

  /** Records a move of the run of a debounce key. */
  moved(definitionKey: number, { key, requestKey }: Debounce, startsAt: number): void {
    this.#move.run(requestKey, debounceExpiry(startsAt), definitionKey, key);
  }

  /** Deletes some of the expired keys. Keeps those of debounced runs that still wait (K5). */
  #sweep(now: number): void {
    for (const { definitionKey, kind, key, isPending } of this.#selectExpired.all(now, maxSwept)) {
      if (isPending === 0) this.#delete.run(definitionKey, kind, key);
      else this.#postpone.run(debounceExpiry(now), definitionKey, kind, key);
    }
  }
}
