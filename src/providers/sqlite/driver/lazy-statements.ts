import type Database from 'better-sqlite3';

type Statement = Database.Statement;

/**
 * Makes a connection prepare each statement at its first use. A store has over 300 statements, and most processes use few of them:
 * to prepare all takes most of the time that it takes to open a store.
 */
export function prepareOnUse(db: Database.Database): void {
  const prepareNow = db.prepare.bind(db);
  const prepare = (sql: string) => new LazyStatement(() => prepareNow(sql));
  db.prepare = prepare as unknown as typeof db.prepare;
}

/** The methods of a statement that the store calls. */
class LazyStatement {
  readonly #prepare: () => Statement;
  #prepared: Statement | undefined;
  #plucks = false;
  #isRaw = false;

  constructor(prepare: () => Statement) {
    this.#prepare = prepare;
  }

  get #statement(): Statement {
    return (this.#prepared ??= this.#prepareNow());
  }

  #prepareNow(): Statement {
    const statement = this.#prepare();
    if (this.#plucks) statement.pluck();
    if (this.#isRaw) statement.raw();
    return statement;
  }

  pluck(): this {
    this.#plucks = true;
    return this;
  }

  raw(): this {
    this.#isRaw = true;
    return this;
  }

  run(...values: unknown[]): Database.RunResult {
    return this.#statement.run(...values);
  }

  get(...values: unknown[]): unknown {
    return this.#statement.get(...values);
  }

  all(...values: unknown[]): unknown[] {
    return this.#statement.all(...values);
  }

  iterate(...values: unknown[]): IterableIterator<unknown> {
    return this.#statement.iterate(...values);
  }
}
