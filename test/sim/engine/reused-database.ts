import type Database from 'better-sqlite3';

type Statement = Database.Statement;

/** A database in memory that seeds use one after the other. It keeps its prepared statements, which most seeds share. */
export class ReusedDatabase {
  readonly #connection: Database.Database;
  readonly #statements = new Map<string, Statement[]>();
  readonly #deletes: readonly Statement[];
  /** Restores the rows of a new store. */
  readonly #inserts: (() => void)[] = [];

  constructor(connection: Database.Database) {
    this.#connection = connection;
    const tables = connection
      .prepare<[], string>(
        `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%'`,
      )
      .pluck()
      .all();
    this.#deletes = tables.map((table) => connection.prepare(`DELETE FROM ${table}`));
    for (const table of tables) {
      const rows = connection.prepare<[], unknown[]>(`SELECT * FROM ${table}`).raw().all();
      const places = rows[0]?.map(() => '?').join();
      if (places === undefined) continue;
      const insert = connection.prepare(`INSERT INTO ${table} VALUES (${places})`);
      this.#inserts.push(() => rows.forEach((row) => insert.run(...row)));
    }
  }

  /** Empties the database, and returns a connection for one seed. The connections of earlier seeds are closed. */
  open(): Database.Database {
    const connection = this.#connection;
    if (connection.inTransaction) connection.exec('ROLLBACK');
    connection.exec('BEGIN');
    for (const each of this.#deletes) each.run();
    for (const insert of this.#inserts) insert();
    connection.exec('COMMIT');
    const used = new Map<string, number>();
    let isClosed = false;
    const prepare = (sql: string): Statement => {
      const count = used.get(sql) ?? 0;
      used.set(sql, count + 1);
      const statements = this.#statements.get(sql) ?? [];
      this.#statements.set(sql, statements);
      const statement = (statements[count] ??= connection.prepare(sql));
      // The next user of a statement may read it in another way.
      if (statement.reader) statement.pluck(false).raw(false);
      if (!sql.startsWith('BEGIN')) return statement;
      // Code of an earlier seed may still run. It must not write to this one.
      const run = (): Database.RunResult => {
        if (isClosed) throw new Error('The seed of this connection has ended.');
        return statement.run();
      };
      const none = (): never => {
        throw new Error('BEGIN returns no rows.');
      };
      return { run, get: none, all: none, iterate: none } as unknown as Statement;
    };
    const close = (): void => {
      isClosed = true;
    };
    return Object.assign(Object.create(connection) as Database.Database, { prepare, close });
  }
}
