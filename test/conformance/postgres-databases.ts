import type { Clock } from '../../src/model/clock.ts';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import type { Provider } from '../../src/providers/provider.ts';
import type { CorruptRows } from '../../src/testing/conformance/provider-under-test.ts';
import { createDatabase, runSql, type TestDatabase } from '../postgres/server.ts';

const tables: Readonly<Record<CorruptRows['rows'], { table: string; columns: readonly string[] }>> =
  {
    events: { table: 'history', columns: ['data', 'payload'] },
    messages: { table: 'orchestrator_queue', columns: ['data', 'payload'] },
    workItems: { table: 'worker_queue', columns: ['options', 'payload'] },
  };

/** Schemas in a database of their own, which can be reached below their providers. */
export class PostgresDatabases {
  readonly #schemas = new WeakMap<Provider, string>();
  #database: Promise<TestDatabase> | undefined;
  #count = 0;

  readonly create = ({ clock }: { readonly clock: Clock }): Promise<Provider> =>
    this.#open(`case_${++this.#count}`, clock);

  readonly reopen = ({
    clock,
    first,
  }: {
    readonly clock: Clock;
    readonly first: Provider;
  }): Promise<Provider> => this.#open(this.#schemaOf(first), clock);

  /** Overwrites text with what nobody wrote; the server takes no bytes that are not text. */
  readonly corrupt = async (
    provider: Provider,
    { instanceId, rows }: CorruptRows,
  ): Promise<void> => {
    const schema = this.#schemaOf(provider);
    const { table, columns } = tables[rows];
    const assignments = columns.map((column) => `${column} = U&'\\0001\\FFFE{\\FFFF'`);
    await runSql(
      await this.#url(),
      `UPDATE ${schema}.${table} SET ${assignments.join(', ')} WHERE instance_key =
         (SELECT instance_key FROM ${schema}.instances WHERE instance_id = '${instanceId}')`,
    );
  };

  async remove(): Promise<void> {
    const database = await this.#database;
    await database?.drop();
  }

  #schemaOf(provider: Provider): string {
    const schema = this.#schemas.get(provider);
    if (schema === undefined) throw new Error('This provider was not opened here.');
    return schema;
  }

  async #url(): Promise<string> {
    this.#database ??= createDatabase();
    return (await this.#database).url;
  }

  async #open(schema: string, clock: Clock): Promise<Provider> {
    const provider = await openPostgres({ url: await this.#url(), schema, clock, poolSize: 4 });
    this.#schemas.set(provider, schema);
    return provider;
  }
}
