import { text } from '../driver/arrays.ts';
import type { Statement } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** Runs one statement as an operation of its own. */
interface Statements {
  readonly nowParameter: number | null;
  statement<Row extends object>(
    operation: string,
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]>;
}

interface Lease {
  readonly name: string;
  readonly owner: string;
  readonly leaseMs: number;
}

/** The rows of `leases` and `system_records`: what belongs to the whole store and to no instance. */
export class SystemRecords {
  readonly #store: Statements;
  readonly #takeLease: Statement;
  readonly #releaseLease: Statement;
  readonly #read: Statement;
  readonly #write: Statement;
  readonly #remove: Statement;

  constructor(store: Statements & { readonly schema: string }) {
    this.#store = store;
    const { schema } = store;
    this.#takeLease = {
      name: 'perdure_take_lease',
      text: `INSERT INTO ${schema}.leases AS lease (name, owner, expires_at)
        VALUES ($2, $3, ${nowSql} + $4::bigint)
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
        WHERE lease.owner = excluded.owner OR lease.expires_at <= ${nowSql}
        RETURNING TRUE AS "isTaken"`,
    };
    this.#releaseLease = {
      name: 'perdure_release_lease',
      text: `DELETE FROM ${schema}.leases WHERE name = $1 AND owner = $2`,
    };
    this.#read = {
      name: 'perdure_read_record',
      text: `SELECT value FROM ${schema}.system_records WHERE name = $1`,
    };
    this.#write = {
      name: 'perdure_write_record',
      text: `INSERT INTO ${schema}.system_records (name, value) VALUES ($1, $2)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    };
    this.#remove = {
      name: 'perdure_remove_record',
      text: `DELETE FROM ${schema}.system_records WHERE name = $1`,
    };
  }

  /** Says whether the owner has the lease now. */
  async takeLease({ name, owner, leaseMs }: Lease): Promise<boolean> {
    const rows = await this.#store.statement('takeLease', this.#takeLease, [
      this.#store.nowParameter,
      text(name),
      text(owner),
      Math.ceil(leaseMs),
    ]);
    return rows.length === 1;
  }

  async releaseLease({ name, owner }: Omit<Lease, 'leaseMs'>): Promise<void> {
    await this.#store.statement('releaseLease', this.#releaseLease, [text(name), text(owner)]);
  }

  async read(name: string): Promise<string | null> {
    const [row] = await this.#store.statement<{ value: string }>('readRecord', this.#read, [
      text(name),
    ]);
    return row?.value ?? null;
  }

  async write(name: string, value: string | null): Promise<void> {
    const operation = 'writeRecord';
    if (value === null) await this.#store.statement(operation, this.#remove, [text(name)]);
    else await this.#store.statement(operation, this.#write, [text(name), text(value)]);
  }
}
