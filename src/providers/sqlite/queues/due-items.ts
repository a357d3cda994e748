import type Database from 'better-sqlite3';

/** An item that can be claimed now. */
export interface DueItem {
  readonly itemKey: number;
  readonly definitionKey: number;
  readonly nextAt: number;
  readonly priority: number;
  /** Whether it is a task run that must expire instead of being claimed. */
  readonly isExpired: boolean;
}

interface Head {
  readonly priority: number;
  readonly nextAt: number;
}

const aboveAll = 101;

/**
 * Finds claimable rows of `worker_queue`.
 * Each priority is a range of the index, with due items before delayed and locked ones. So a claim reads the rows that it
 * takes, and one row per priority.
 */
export class DueItems {
  readonly #headBelow;
  readonly #select;
  readonly #selectFlagged;
  readonly #firstFlaggedAt;
  readonly #firstExpiry;

  constructor(db: Database.Database) {
    this.#headBelow = db.prepare<[number, 0 | 1, number], Head>(
      `SELECT priority, next_at AS nextAt FROM worker_queue
       WHERE definition_key = ? AND (claims > 1) = ? AND priority < ?
       ORDER BY priority DESC, next_at LIMIT 1`,
    );
    // Arrays: a claim reads many rows, and objects cost 0.5 µs more per row.
    this.#select = db
      .prepare<
        [{ definitionKey: number; suspect: 0 | 1; priority: number; now: number; max: number }],
        [itemKey: number, nextAt: number, expiresAt: number | null]
      >(
        `SELECT item_key, next_at, expires_at FROM worker_queue
         WHERE definition_key = :definitionKey AND (claims > 1) = :suspect AND priority = :priority
           AND next_at <= :now AND cancel_requested = 0
         ORDER BY next_at, item_key LIMIT +:max`,
      )
      .raw();
    // Before all priorities: ending an item is fast, and its instance waits for it.
    this.#selectFlagged = db.prepare<[number, number], Omit<DueItem, 'isExpired'>>(
      `SELECT item_key AS itemKey, abs(definition_key) AS definitionKey, next_at AS nextAt, ${aboveAll} AS priority
       FROM worker_queue
       WHERE cancel_requested = 1 AND next_at <= ? ORDER BY next_at, cancel_requested_at LIMIT +?`,
    );
    this.#firstFlaggedAt = db
      .prepare<[], number | null>(
        'SELECT min(next_at) FROM worker_queue WHERE cancel_requested = 1',
      )
      .pluck();
    this.#firstExpiry = db
      .prepare<[], number | null>(
        'SELECT min(expires_at) FROM worker_queue WHERE expires_at IS NOT NULL',
      )
      .pluck();
  }

  /** Due items of a name, by priority, then longest due. `suspect`: claimed twice without an outcome. */
  select(options: {
    readonly definitionKey: number;
    readonly suspect: boolean;
    readonly now: number;
    readonly max: number;
  }): readonly DueItem[] {
    const { definitionKey, now, max } = options;
    const suspect: 0 | 1 = options.suspect ? 1 : 0;
    const due: DueItem[] = [];
    let head = this.#headBelow.get(definitionKey, suspect, aboveAll);
    while (head !== undefined) {
      const { priority } = head;
      if (head.nextAt <= now) {
        const range = { definitionKey, suspect, priority, now, max: max - due.length };
        for (const [itemKey, nextAt, expiresAt] of this.#select.all(range)) {
          const isExpired = expiresAt !== null && expiresAt <= now;
          due.push({ itemKey, definitionKey, nextAt, priority, isExpired });
        }
        if (due.length >= max) break;
      }
      head = this.#headBelow.get(definitionKey, suspect, priority);
    }
    return due;
  }

  /** The priorities of the items of a name, highest first. */
  priorities(definitionKey: number, suspect: 0 | 1): readonly number[] {
    const priorities: number[] = [];
    let head = this.#headBelow.get(definitionKey, suspect, aboveAll);
    while (head !== undefined) {
      priorities.push(head.priority);
      head = this.#headBelow.get(definitionKey, suspect, head.priority);
    }
    return priorities;
  }

  /** Flagged items whose leases have expired, of any name. */
  selectFlagged(now: number, max: number): readonly DueItem[] {
    return this.#selectFlagged.all(now, max).map((item) => ({ ...item, isExpired: false }));
  }

  /** When the next item of these names can be claimed, or any item ended. A past time means now. */
  firstNextAt(definitionKeys: readonly number[], now: number): number {
    let first = Math.min(
      this.#firstFlaggedAt.get() ?? Infinity,
      this.#firstExpiry.get() ?? Infinity,
    );
    for (const definitionKey of definitionKeys) {
      for (const suspect of [0, 1] as const) {
        if (first <= now) return first;
        let head = this.#headBelow.get(definitionKey, suspect, aboveAll);
        while (head !== undefined) {
          first = Math.min(first, head.nextAt);
          if (first <= now) return first;
          head = this.#headBelow.get(definitionKey, suspect, head.priority);
        }
      }
    }
    return first;
  }
}
