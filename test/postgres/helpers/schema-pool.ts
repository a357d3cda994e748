import pg from 'pg';
import type { PostgresOptions } from '../../../src/providers/postgres/driver/options.ts';
import { openPostgres } from '../../../src/providers/postgres/provider.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { createDatabase, type TestDatabase } from './server.ts';

interface Use {
  /** How many providers are open on it. */
  open: number;
  isReleased: boolean;
}

/**
 * Schemas for tests that follow each other, in a database of their own. A schema that nobody has open and its test has
 * released is emptied and given to the next: that takes a fiftieth of the time in which a new one is made.
 */
export class SchemaPool {
  readonly #prefix: string;
  readonly #uses = new Map<string, Use>();
  #database: Promise<TestDatabase> | undefined;
  #cleaner: Promise<pg.Client> | undefined;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  async url(): Promise<string> {
    this.#database ??= createDatabase();
    return (await this.#database).url;
  }

  /** The name of a schema that is empty, or not made yet. */
  async take(): Promise<string> {
    const free = [...this.#uses].find(([, { open, isReleased }]) => open === 0 && isReleased);
    const schema = free?.[0] ?? `${this.#prefix}_${this.#uses.size + 1}`;
    this.#uses.set(schema, { open: 0, isReleased: false });
    if (free !== undefined) await this.#empty(schema);
    return schema;
  }

  /** The test that took the schema is over; it goes to another when its providers are closed. */
  release(schema: string): void {
    this.#useOf(schema).isReleased = true;
  }

  async open(schema: string, options: Partial<PostgresOptions>): Promise<Provider> {
    const provider = await openPostgres({ url: await this.url(), schema, ...options });
    const use = this.#useOf(schema);
    use.open += 1;
    let closing: Promise<void> | undefined;
    const close = async (): Promise<void> => {
      await provider.close();
      use.open -= 1;
    };
    return { ...provider, close: () => (closing ??= close()) };
  }

  async drop(): Promise<void> {
    await (await this.#cleaner)?.end();
    await (await this.#database)?.drop();
  }

  #useOf(schema: string): Use {
    const use = this.#uses.get(schema);
    if (use === undefined) throw new Error(`Schema ${schema} was not taken from this pool.`);
    return use;
  }

  // Far faster than TRUNCATE, whose price is a new file for each table and index.
  async #empty(schema: string): Promise<void> {
    this.#cleaner ??= this.#connect();
    const client = await this.#cleaner;
    const { rows } = await client.query<{ kind: string; name: string }>(
      `SELECT relkind AS kind, quote_ident(relname) AS name FROM pg_class
       WHERE relnamespace = $1::regnamespace AND relkind IN ('r', 'S') AND relname <> 'perdure_migrations'`,
      [schema],
    );
    const statements = rows.map(({ kind, name }) =>
      kind === 'S' ? `ALTER SEQUENCE ${schema}.${name} RESTART` : `DELETE FROM ${schema}.${name}`,
    );
    await client.query(`SET session_replication_role = replica; ${statements.join('; ')}`);
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: await this.url() });
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }
}
