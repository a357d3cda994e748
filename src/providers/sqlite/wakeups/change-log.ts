import type Database from 'better-sqlite3';
import type { Effects } from '../../shared/effects.ts';
import { randomInteger } from '../../../model/values/random-id.ts';

/** The commits of other processes. */
export interface ForeignChanges {
  readonly finished: readonly string[];
  readonly statusSet: readonly string[];
  /** Whether entries were pruned before this process read them, or were too long to write. */
  readonly missed: boolean;
}

interface Row {
  readonly changeKey: number;
  readonly origin: number;
  readonly finished: string | null;
  readonly statusSet: string | null;
}

const keptRows = 1_024;
const pruneEvery = 256;
const keptMs = 10_000;
// A longer list is not written. Readers report that they missed changes.
const maxIds = 1_000;
const tooMany = '';

/**
 * Notifies other processes of ended, deleted and status-changing instances: one row per commit, in its transaction.
 * The last 1,024 rows are kept. A process that reads too late detects the gap in the keys.
 */
export class ChangeLog {
  readonly #isShared: boolean;
  readonly #origin = randomInteger(0, 2 ** 47);
  readonly #insert;
  readonly #pruneRows;
  readonly #purge;
  readonly #clearNewest;
  readonly #selectOldest;
  readonly #selectLast;
  readonly #selectAfter;
  #seenKey = 0;
  #writtenKey = 0;

  constructor(db: Database.Database) {
    // A database in memory has no other connections.
    this.#isShared = !db.memory;
    this.#insert = db.prepare<[number, number, string | null, string | null]>(
      'INSERT INTO changes (origin, at, finished, status_set) VALUES (?, ?, ?, ?)',
    );
    this.#pruneRows = db.prepare<[number]>('DELETE FROM changes WHERE change_key <= ?');
    // The newest row stays, without its ids, so that keys keep growing.
    this.#purge = db.prepare<[number]>(
      'DELETE FROM changes WHERE at <= ? AND change_key < (SELECT max(change_key) FROM changes)',
    );
    this.#clearNewest = db.prepare<[number]>(
      `UPDATE changes SET finished = NULL, status_set = NULL
       WHERE change_key = (SELECT max(change_key) FROM changes) AND at <= ?`,
    );
    this.#selectOldest = db
      .prepare<[], number>(
        `SELECT at FROM changes WHERE change_key = (SELECT min(change_key) FROM changes)
           AND (finished IS NOT NULL OR status_set IS NOT NULL OR change_key < (SELECT max(change_key) FROM changes))`,
      )
      .pluck();
    this.#selectLast = db.prepare<[], number | null>('SELECT max(change_key) FROM changes').pluck();
    this.#selectAfter = db.prepare<[number], Row>(
      `SELECT change_key AS changeKey, origin, finished, status_set AS statusSet
       FROM changes WHERE change_key > ? ORDER BY change_key`,
    );
  }

  /** Writes the row of a transaction. Call it last. */
  write({ finished, statusSet }: Effects, now: number): void {
    this.#writtenKey = 0;
    if (!this.#isShared || (finished.length === 0 && statusSet.size === 0)) return;
    const written = this.#insert.run(this.#origin, now, encode(finished), encode([...statusSet]));
    const changeKey = Number(written.lastInsertRowid);
    this.#writtenKey = changeKey;
    // The newest row always stays, so that keys keep growing.
    if (changeKey % pruneEvery === 0) this.#pruneRows.run(changeKey - keptRows);
  }

  /** Whether there are ids to purge. */
  hasExpired(now: number): boolean {
    const oldest = this.#selectOldest.get();
    return oldest !== undefined && oldest <= now - keptMs;
  }

  /** Deletes ids after every process had time to read them, so that no id of a deleted instance stays. */
  purge(now: number): void {
    this.#purge.run(now - keptMs);
    this.#clearNewest.run(now - keptMs);
  }

  /** Call it after the commit. Skips own rows, so that pruning them leaves no gap. */
  confirm(): void {
    if (this.#writtenKey === this.#seenKey + 1) this.#seenKey = this.#writtenKey;
  }

  /** Skips everything committed so far. */
  skip(): void {
    this.#seenKey = this.#selectLast.get() ?? 0;
  }

  /** Reads the commits of other processes since the last read. */
  read(): ForeignChanges {
    const finished: string[] = [];
    const statusSet: string[] = [];
    const rows = this.#selectAfter.all(this.#seenKey);
    let missed = rows[0] !== undefined && rows[0].changeKey > this.#seenKey + 1;
    for (const row of rows) {
      this.#seenKey = row.changeKey;
      if (row.origin === this.#origin) continue;
      if (row.finished === tooMany || row.statusSet === tooMany) missed = true;
      for (const id of decode(row.finished)) finished.push(id);
      for (const id of decode(row.statusSet)) statusSet.push(id);
    }
    return { finished, statusSet, missed };
  }
}

function encode(ids: readonly string[]): string | null {
  if (ids.length === 0) return null;
  return ids.length > maxIds ? tooMany : JSON.stringify(ids);
}

function decode(ids: string | null): readonly string[] {
  return ids === null || ids === tooMany ? [] : (JSON.parse(ids) as readonly string[]);
}
