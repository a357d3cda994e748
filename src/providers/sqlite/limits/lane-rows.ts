import type Database from 'better-sqlite3';
import { taskActivityName } from '../../../model/task-call.ts';
import type { Lane } from '../../contract/limits.ts';

/** A lane that may have items and a place. */
export interface ReadyLane {
  readonly lane: string;
  readonly weight: number;
  readonly vtime: number;
  readonly running: number;
  readonly tatUs: number;
}

/** An item of a lane without a place, in the order of claims. */
export interface LaneItem {
  readonly itemKey: number;
  readonly definitionKey: number;
  readonly nextAt: number;
  readonly priority: number;
  readonly expiresAt: number | null;
}

/** What a claim leaves of a lane. */
export interface LaneState {
  readonly count: number;
  readonly vtime: number;
  readonly tatUs: number;
  readonly more: boolean;
  readonly ready: boolean;
  readonly wakeAt: number | null;
}

/** SQL text: the key of the calls of a task by orchestrations, or NULL. */
export function callsOf(definitionKey: string): string {
  return `(SELECT call.definition_key FROM definitions AS task JOIN definitions AS call
       ON call.kind = 'activity' AND call.version = '' AND call.name = '${taskActivityName('')}' || task.name
     WHERE task.definition_key = ${definitionKey} AND task.kind = 'task')`;
}

/** The condition of the index `worker_queue_lanes`. */
export const isWaiting = 'lane IS NOT NULL AND place = 0 AND cancel_requested = 0';

/** The rows of `lanes`, and the items of lanes in `worker_queue`. */
export class LaneRows {
  readonly #touch;
  readonly #delay;
  readonly #wake;
  readonly #wakeAll;
  readonly #makeReady;
  readonly #boundTats;
  readonly #ready;
  readonly #hasReady;
  readonly #nextWake;
  readonly #items;
  readonly #update;
  readonly #lapsed;
  readonly #firstLapse;
  readonly #revoke;
  readonly #suspects;
  readonly #prune;
  readonly #slice;
  readonly #convert;
  readonly #addRunning;
  readonly #addRun;
  readonly #selectRun;
  readonly #deleteRuns;

  constructor(db: Database.Database) {
    const touched = `INSERT INTO lanes (definition_key, lane, weight, vtime, more, ready, wake_at)
       SELECT :definitionKey, :lane, coalesce(:weight, 1), vclock`;
    const conflict = `FROM limits WHERE definition_key = :definitionKey
       ON CONFLICT (definition_key, lane) DO UPDATE SET weight = coalesce(:weight, weight)`;
    // A lane that is known to have due items is not written.
    this.#touch = db.prepare<[Touch]>(
      `${touched}, 1, 1, NULL ${conflict}, more = 1, ready = iif(more, ready, 1), vtime = max(vtime, excluded.vtime)
       WHERE more = 0 OR weight <> coalesce(:weight, weight)`,
    );
    this.#delay = db.prepare<[Touch & { wakeAt: number }]>(
      `${touched}, 0, 0, :wakeAt ${conflict}, wake_at = min(coalesce(wake_at, excluded.wake_at), excluded.wake_at)
       WHERE wake_at IS NULL OR wake_at > excluded.wake_at OR weight <> coalesce(:weight, weight)`,
    );
    this.#wake = db.prepare<[number, number, number]>(
      `UPDATE lanes SET more = 1, ready = 1, wake_at = NULL WHERE (definition_key, lane) IN (
         SELECT definition_key, lane FROM lanes WHERE definition_key = ? AND wake_at <= ? ORDER BY wake_at LIMIT +?)`,
    );
    this.#wakeAll = db.prepare(
      'UPDATE lanes SET more = 1, ready = 1, wake_at = NULL WHERE wake_at IS NOT NULL',
    );
    this.#makeReady = db.prepare<[number]>(
      'UPDATE lanes SET ready = 1 WHERE definition_key = ? AND more = 1 AND ready = 0',
    );
    this.#boundTats = db.prepare<[{ definitionKey: number; latest: number }]>(
      'UPDATE lanes SET tat = :latest WHERE definition_key = :definitionKey AND tat > :latest',
    );
    this.#ready = db.prepare<[number, number], ReadyLane>(
      `SELECT lane, weight, vtime, running, tat AS tatUs FROM lanes WHERE definition_key = ? AND ready = 1
       ORDER BY vtime, lane LIMIT +?`,
    );
    this.#hasReady = db
      .prepare<[number], 1>('SELECT 1 FROM lanes WHERE definition_key = ? AND ready = 1 LIMIT 1')
      .pluck();
    this.#nextWake = db
      .prepare<[number], number | null>(
        'SELECT min(wake_at) FROM lanes WHERE definition_key = ? AND wake_at IS NOT NULL',
      )
      .pluck();
    // Arrays: a claim reads many rows.
    this.#items = db
      .prepare<
        [number, string, number, number],
        [
          itemKey: number,
          definitionKey: number,
          nextAt: number,
          priority: number,
          expiresAt: number | null,
        ]
      >(
        `SELECT item_key, definition_key, next_at, priority, expires_at FROM worker_queue
         WHERE limit_key = ? AND lane = ? AND (claims > 1) = 0 AND ${isWaiting} AND priority < ?
         ORDER BY priority DESC, next_at, item_key LIMIT +?`,
      )
      .raw();
    this.#update = db.prepare<
      [number, number, number, 0 | 1, 0 | 1, number | null, number, string]
    >(
      `UPDATE lanes SET running = running + ?, vtime = ?, tat = ?, more = ?, ready = ?, wake_at = ?
       WHERE definition_key = ? AND lane = ?`,
    );
    this.#lapsed = db.prepare<[number, number], { itemKey: number }>(
      `SELECT item_key AS itemKey FROM worker_queue
       WHERE place = 1 AND locked_until <= ? ORDER BY locked_until LIMIT +?`,
    );
    this.#firstLapse = db
      .prepare<[], number | null>('SELECT min(locked_until) FROM worker_queue WHERE place = 1')
      .pluck();
    // The trigger frees the place, because the token changes. Time 0: the lease is not valid again after the clock was
    // set back.
    this.#revoke = db.prepare<[string, number]>(
      'UPDATE worker_queue SET lock_token = ?, locked_until = 0 WHERE item_key = ?',
    );
    this.#suspects = db.prepare<[number, number], SuspectRow>(
      `SELECT item_key AS itemKey, item.definition_key AS definitionKey, next_at AS nextAt, priority,
              expires_at AS expiresAt, item.lane,
              coalesce(weight, 1) AS weight, coalesce(vtime, 0) AS vtime, coalesce(running, 0) AS running,
              coalesce(tat, 0) AS tatUs
       FROM worker_queue AS item LEFT JOIN lanes AS own ON own.definition_key = item.limit_key AND own.lane = item.lane
       WHERE item.limit_key = ? AND claims > 1 AND item.lane IS NOT NULL AND place = 0 AND cancel_requested = 0
       ORDER BY next_at, item_key LIMIT +?`,
    );
    this.#prune = db.prepare<[number, number, number]>(
      `DELETE FROM lanes WHERE (definition_key, lane) IN (
         SELECT definition_key, lane FROM lanes
         WHERE definition_key = ? AND running = 0 AND more = 0 AND wake_at IS NULL AND tat <= ? LIMIT +?)`,
    );
    this.#slice = db.prepare<[number, number, number], { end: number | null; rows: number }>(
      `SELECT max(item_key) AS end, count(*) AS rows FROM (
         SELECT item_key FROM worker_queue WHERE item_key >= ? AND item_key <= ? ORDER BY item_key LIMIT +?)`,
    );
    // An item that a worker holds has a place, even if its lease has expired: the sweep revokes it.
    this.#convert = db
      .prepare<[{ from: number; end: number; definitionKey: number }], 0 | 1>(
        `UPDATE worker_queue SET lane = '', place = lock_token IS NOT NULL,
           limit_key = iif(definition_key < 0, -:definitionKey, :definitionKey)
         WHERE item_key BETWEEN :from AND :end AND lane IS NULL
           AND abs(definition_key) IN (:definitionKey, ${callsOf(':definitionKey')}) RETURNING place`,
      )
      .pluck();
    this.#addRunning = db.prepare<[number, number]>(
      `UPDATE lanes SET running = running + ? WHERE definition_key = ? AND lane = ''`,
    );
    this.#addRun = db.prepare<[number, string, number]>(
      `INSERT INTO run_lanes (instance_key, lane, weight) VALUES (?, ?, ?)`,
    );
    this.#selectRun = db.prepare<[number], Lane>(
      'SELECT lane AS key, weight FROM run_lanes WHERE instance_key = ?',
    );
    this.#deleteRuns = db.prepare<[string]>(
      'DELETE FROM run_lanes WHERE instance_key IN (SELECT value FROM json_each(?))',
    );
  }

  /** Records that a lane has a due item. `weight: null` keeps the weight. */
  touch(definitionKey: number, lane: string, weight: number | null): void {
    this.#touch.run({ definitionKey, lane, weight });
  }

  /** Records that a lane has an item that is due later. */
  delay(definitionKey: number, lane: string, weight: number | null, wakeAt: number): void {
    this.#delay.run({ definitionKey, lane, weight, wakeAt });
  }

  /** Makes lanes ready whose time has come. */
  wake(definitionKey: number, now: number, max: number): void {
    this.#wake.run(definitionKey, now, max);
  }

  /** Makes all lanes ready that wait for a time, after the clock was set back. */
  wakeAll(): void {
    this.#wakeAll.run();
  }

  /** Makes all lanes of a definition with due items ready, after its limits were changed. */
  makeReady(definitionKey: number): void {
    this.#makeReady.run(definitionKey);
  }

  /** Bounds the theoretical arrival times of all lanes, also of those without items. */
  boundTats(definitionKey: number, latest: number): void {
    this.#boundTats.run({ definitionKey, latest });
  }

  /** Ready lanes by virtual time. */
  ready(definitionKey: number, max: number): readonly ReadyLane[] {
    return this.#ready.all(definitionKey, max);
  }

  hasReady(definitionKey: number): boolean {
    return this.#hasReady.get(definitionKey) !== undefined;
  }

  nextWake(definitionKey: number): number {
    return this.#nextWake.get(definitionKey) ?? Infinity;
  }

  /** Trusted items of a lane with a priority below the given one, due or not: by priority, then by due time. */
  items(definitionKey: number, lane: string, below: number, max: number): readonly LaneItem[] {
    return this.#items
      .all(definitionKey, lane, below, max)
      .map(([itemKey, definitionKey, nextAt, priority, expiresAt]) => ({
        itemKey,
        definitionKey,
        nextAt,
        priority,
        expiresAt,
      }));
  }

  update(definitionKey: number, lane: string, state: LaneState): void {
    const { count, vtime, tatUs, more, ready, wakeAt } = state;
    this.#update.run(count, vtime, tatUs, more ? 1 : 0, ready ? 1 : 0, wakeAt, definitionKey, lane);
  }

  /** Items with places whose leases have expired, of any definition. */
  lapsed(now: number, max: number) {
    return this.#lapsed.all(now, max);
  }

  /** When the first lease of an item with a place expires. */
  firstLapse(): number {
    return this.#firstLapse.get() ?? Infinity;
  }

  /** Replaces the token of an item. The trigger frees its place. */
  revoke(itemKey: number, secret: string): void {
    this.#revoke.run(secret, itemKey);
  }

  /** Items of a definition without places that were claimed twice without an outcome, due or not, with their lanes. */
  suspects(definitionKey: number, max: number): readonly SuspectRow[] {
    return this.#suspects.all(definitionKey, max);
  }

  /** Deletes lanes without claimable items whose rate is full again. Paused items and suspects need no lane. */
  prune(definitionKey: number, now: number, max: number): void {
    this.#prune.run(definitionKey, now * 1_000, max);
  }

  /**
   * Gives the items of a slice their lane. Returns where the next slice begins, `null` for none, and how many items have
   * places.
   */
  convert(
    definitionKey: number,
    from: number,
    to: number,
    max: number,
  ): { readonly next: number | null; readonly places: number } {
    const { end, rows } = this.#slice.get(from, to, max) ?? { end: null, rows: 0 };
    if (end === null) return { next: null, places: 0 };
    const converted = this.#convert.all({ from, end, definitionKey });
    const places = converted.filter((place) => place === 1).length;
    if (converted.length > 0) {
      this.touch(definitionKey, '', null);
      this.#addRunning.run(places, definitionKey);
    }
    return { next: rows < max ? null : end + 1, places };
  }

  /** Stores the key of a task run, for its `onFail` handler and its reruns. */
  addRun(instanceKey: number, { key, weight }: Lane): void {
    this.#addRun.run(instanceKey, key, weight);
  }

  runOf(instanceKey: number): Lane | undefined {
    return this.#selectRun.get(instanceKey);
  }

  deleteRuns(instanceKeys: string): void {
    this.#deleteRuns.run(instanceKeys);
  }
}

/** A suspect item with its lane. */
export interface SuspectRow extends LaneItem, ReadyLane {}

interface Touch {
  readonly definitionKey: number;
  readonly lane: string;
  readonly weight: number | null;
}
