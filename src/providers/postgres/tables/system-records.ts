import { clock, one, prepare } from '../driver/columns.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** Runs a single statement as its own operation. */
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

/** The tables `leases` and `system_records`: data of the whole store. */
export class SystemRecords {
  readonly #store: Statements;
  readonly #sql: ReturnType<typeof statements>;

  constructor(store: Statements & { readonly schema: string }) {
    this.#store = store;
    this.#sql = statements(store.schema);
  }

  /** Takes or renews a lease. Returns whether the owner holds it now. */
  async takeLease({ name, owner, leaseMs }: Lease): Promise<boolean> {
    const now = this.#store.nowParameter;
    const lease = { now, name, owner, leaseMs: Math.ceil(leaseMs) };
    const rows = await this.#store.statement('takeLease', ...this.#sql.takeLease(lease));
    return rows.length === 1;
  }

  async releaseLease({ name, owner }: Omit<Lease, 'leaseMs'>): Promise<void> {
    await this.#store.statement('releaseLease', ...this.#sql.releaseLease({ name, owner }));
  }

  async read(name: string): Promise<string | null> {
    const [row] = await this.#store.statement<{ value: string }>(
      'readRecord',
      ...this.#sql.read({ name }),
    );
    return row?.value ?? null;
  }

  /** Writes a record; `null` deletes it. */
  async write(name: string, value: string | null): Promise<void> {
    await this.#store.statement('writeRecord', ...this.#write(name, value));
  }

  /** Writes a record in a transaction. Returns whether its value changed. */
  async writeWithin(tx: Transaction, name: string, value: string | null): Promise<boolean> {
    return (await tx.execute(...this.#write(name, value))) === 1;
  }

  #write(name: string, value: string | null) {
    return value === null ? this.#sql.delete({ name }) : this.#sql.write({ name, value });
  }
}

function statements(schema: string) {
  const name = one<string>('text');
  const owner = one<string>('text');
  return {
    takeLease: prepare(
      'perdure_take_lease',
      { now: clock, name, owner, leaseMs: one<number>('bigint') },
      ({ name, owner, leaseMs }) => `INSERT INTO ${schema}.leases AS lease (name, owner, expires_at)
        VALUES (${name}, ${owner}, ${nowSql} + ${leaseMs})
        ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
        WHERE lease.owner = excluded.owner OR lease.expires_at <= ${nowSql}
        RETURNING TRUE AS "isTaken"`,
    ),
    releaseLease: prepare(
      'perdure_release_lease',
      { name, owner },
      ({ name, owner }) => `DELETE FROM ${schema}.leases WHERE name = ${name} AND owner = ${owner}`,
    ),
    read: prepare(
      'perdure_read_record',
      { name },
      ({ name }) => `SELECT value FROM ${schema}.system_records WHERE name = ${name}`,
    ),
    write: prepare(
      'perdure_write_record',
      { name, value: one<string>('text') },
      ({
        name,
        value,
      }) => `INSERT INTO ${schema}.system_records AS record (name, value) VALUES (${name},
          ${value})
        ON CONFLICT (name) DO UPDATE SET value = excluded.value
        WHERE record.value <> excluded.value`,
    ),
    delete: prepare(
      'perdure_remove_record',
      { name },
      ({ name }) => `DELETE FROM ${schema}.system_records WHERE name = ${name}`,
    ),
  };
}
