import Database from 'better-sqlite3';
import { PerdureError } from '../../../model/failures/errors.ts';
import type { StatementResult } from '../../../model/store-transaction.ts';
import {
  assertAllowed,
  transactionClosed,
  type ForbiddenStatements,
} from '../../shared/transaction-statements.ts';
import type { SqliteRunResult, SqliteStatement, SqliteTransaction } from './sqlite-transaction.ts';

const forbidden: ForbiddenStatements = {
  keywords: new Set(['BEGIN', 'COMMIT', 'END', 'ROLLBACK', 'ATTACH', 'DETACH', 'PRAGMA', 'VACUUM']),
  advice: 'Throw to roll back, return to commit, or use a savepoint.',
};

/** Comments and strings. Quoted names stay. */
const ignored = /'(?:[^']|'')*'|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/g;

const written =
  /\b(?:INTO|UPDATE(?:\s+OR\s+\w+)?|DELETE\s+FROM|(?:DROP|ALTER)\s+TABLE(?:\s+IF\s+EXISTS)?)\s+(?:["`[]?main["`\]]?\s*\.\s*)?["`[]?(\w+)/gi;

/** A view of the store's connection during a transaction. It ends with the closure. */
export class ApplicationTransaction implements SqliteTransaction {
  readonly #db: Database.Database;
  readonly #ownTables: ReadonlySet<string>;
  #closed: PerdureError | undefined;

  constructor(db: Database.Database, ownTables: ReadonlySet<string>) {
    this.#db = db;
    this.#ownTables = ownTables;
  }

  /** The error of a statement that has ended the transaction. */
  get broken(): PerdureError | undefined {
    return this.#closed;
  }

  /** Rejects later statements. */
  close(): void {
    this.#closed ??= transactionClosed();
  }

  prepare(sql: string): SqliteStatement {
    this.#check(sql);
    const statement = this.#use(() => prepareNow(this.#db, sql));
    return new GuardedStatement(statement, (run) => this.#use(run));
  }

  exec(sql: string): this {
    const plain = sql.replace(ignored, ' ').replace(/"[^"]*"|`[^`]*`|\[[^\]]*\]/g, ' x ');
    for (const statement of plain.split(';')) assertAllowed(statement, forbidden);
    this.#check(sql);
    this.#use(() => this.#db.exec(sql));
    return this;
  }

  async query<Row extends object = Record<string, unknown>>(
    text: string,
    values: readonly unknown[] = [],
  ): Promise<StatementResult<Row>> {
    const statement = this.prepare(text);
    const bound = bind(text, values.map(toSqlite));
    if (!statement.reader) return { rows: [], rowCount: statement.run(...bound).changes };
    const rows = statement.all(...bound) as Row[];
    return { rows, rowCount: rows.length };
  }

  #check(sql: string): void {
    if (this.#closed !== undefined) throw this.#closed;
    assertAllowed(sql, forbidden);
    for (const [, table = ''] of sql.replace(ignored, ' ').matchAll(written)) {
      if (!this.#ownTables.has(table.toLowerCase())) continue;
      throw new PerdureError(
        'TRANSACTION_STATEMENT',
        `Table ${JSON.stringify(table)} belongs to Perdure and cannot be written in ctx.transaction(). Give the table of the application another name.`,
      );
    }
  }

  /** Runs a statement. A conflict clause or a full disk can end the transaction, so later ones must not run. */
  #use<T>(run: () => T): T {
    if (this.#closed !== undefined) throw this.#closed;
    try {
      return run();
    } finally {
      if (!this.#db.inTransaction) {
        this.#closed = transactionClosed('a statement has rolled it back');
      }
    }
  }
}

/** The connection itself prepares statements at their first use. */
function prepareNow(db: Database.Database, sql: string): Database.Statement {
  return Database.prototype.prepare.call(db, sql);
}

class GuardedStatement implements SqliteStatement {
  readonly #statement: Database.Statement;
  readonly #use: <T>(run: () => T) => T;

  constructor(statement: Database.Statement, use: <T>(run: () => T) => T) {
    this.#statement = statement;
    this.#use = use;
  }

  get reader(): boolean {
    return this.#statement.reader;
  }

  run(...values: unknown[]): SqliteRunResult {
    return this.#use(() => this.#statement.run(...values));
  }

  get(...values: unknown[]): unknown {
    return this.#use(() => this.#statement.get(...values));
  }

  all(...values: unknown[]): unknown[] {
    return this.#use(() => this.#statement.all(...values));
  }

  pluck(toggle = true): this {
    this.#statement.pluck(toggle);
    return this;
  }

  raw(toggle = true): this {
    this.#statement.raw(toggle);
    return this;
  }
}

/** Numbered parameters are bound by name. */
function bind(text: string, values: readonly unknown[]): readonly unknown[] {
  if (!/[$?]\d/.test(text.replace(ignored, ' '))) return values;
  return [Object.fromEntries(values.map((value, index) => [String(index + 1), value]))];
}

function toSqlite(value: unknown): unknown {
  if (typeof value === 'boolean') return value ? 1 : 0;
  return value ?? null;
}
