import { randomInt } from 'node:crypto';
import type Database from 'better-sqlite3';
import type { Effects } from '../../shared/effects.ts';

/** What other processes committed. */
export interface ForeignChanges {
  readonly finished: readonly string[];
  readonly statusSet: readonly string[];
  /** Entries were deleted before this process read them, or did not fit. */
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
// A longer list is not written: readers are told that they missed some.
const maxIds = 1_000;
const tooMany = '';

/**
 * Tells other processes which instances a commit ended or deleted, and whose custom status it set: one row per commit,
 * in the same transaction. The last 1,024 rows are kept. A process that reads too late knows it by the gap in the keys.
 */
export class ChangeLog {
  readonly #isShared: boolean;
  readonly #origin = randomInt(2 ** 47);
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
    // No other connection reaches a database in memory.
    this.#isShared = !db.memory;
    this.#insert = db.prepare<[number, number, string | null, string | null]>(
      'INSERT INTO changes (origin, at, finished, status_set) VALUES (?, ?, ?, ?)',
    );
    this.#pruneRows = db.prepare<[number]>('DELETE FROM changes WHERE change_key <= ?');
    // The newest row stays, without its ids, so that keys count on.
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

  /** Adds what a transaction has done so far; called at its end. */
  write({ finished, statusSet }: Effects, now: number): void {
    this.#writtenKey = 0;
    if (!this.#isShared || (finished.length === 0 && statusSet.size === 0)) return;
    const written = this.#insert.run(this.#origin, now, encode(finished), encode([...statusSet]));
    const changeKey = Number(written.lastInsertRowid);
    this.#writtenKey = changeKey;
    // The newest row always stays, so that keys count on.
    if (changeKey % pruneEvery === 0) this.#pruneRows.run(changeKey - keptRows);
  }

  /** Whether there are ids to purge. */
  hasExpired(now: number): boolean {
    const oldest = this.#selectOldest.get();
    return oldest !== undefined && oldest <= now - keptMs;
  }

  /** Forgets ids that every process had time to read: of what was deleted none is to stay. */
  purge(now: number): void {
    this.#purge.run(now - keptMs);
    this.#clearNewest.run(now - keptMs);
  }

  /** The transaction has committed. Own rows that follow what was read leave no gap when they are pruned. */
  confirm(): void {
    if (this.#writtenKey === this.#seenKey + 1) this.#seenKey = this.#writtenKey;
  }

  /** What was committed before this moment is not read. */
  skip(): void {
    this.#seenKey = this.#selectLast.get() ?? 0;
  }

  /** Reads what other processes have committed since the last read. */
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
