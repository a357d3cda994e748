import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { CorruptRows } from '../../src/testing/conformance/run-case.ts';
import { SchemaPool } from '../postgres/helpers/schema-pool.ts';
import { runSql } from '../postgres/helpers/server.ts';

const tables: Readonly<Record<CorruptRows['rows'], { table: string; columns: readonly string[] }>> =
  {
    events: { table: 'history', columns: ['data', 'payload'] },
    messages: { table: 'orchestrator_queue', columns: ['data', 'payload'] },
    workItems: { table: 'worker_queue', columns: ['options', 'payload'] },
  };

/** Schemas in a separate database, which tests can corrupt and reopen. */
export class PostgresDatabases {
  readonly #schemas = new WeakMap<Provider, string>();
  readonly #pool = new SchemaPool('case');
  #last: string | undefined;

  readonly create = async ({ clock }: { readonly clock: Clock }): Promise<Provider> => {
    // A case has one store, so a new store means that the previous case has ended.
    if (this.#last !== undefined) this.#pool.release(this.#last);
    this.#last = await this.#pool.take();
    return this.#open(this.#last, clock);
  };

  readonly reopen = ({
    clock,
    first,
  }: {
    readonly clock: Clock;
    readonly first: Provider;
  }): Promise<Provider> => this.#open(this.#schemaOf(first), clock);

  /** Overwrites text with invalid JSON, because the server accepts no invalid UTF-8. */
  readonly corrupt = async (
    provider: Provider,
    { instanceId, rows }: CorruptRows,
  ): Promise<void> => {
    const schema = this.#schemaOf(provider);
    const { table, columns } = tables[rows];
    const assignments = columns.map((column) => `${column} = U&'\\0001\\FFFE{\\FFFF'`);
    await runSql(
      await this.#pool.url(),
      `UPDATE ${schema}.${table} SET ${assignments.join(', ')} WHERE instance_key =
         (SELECT instance_key FROM ${schema}.instances WHERE instance_id = '${instanceId}')`,
    );
  };

  remove(): Promise<void> {
    return this.#pool.drop();
  }

  #schemaOf(provider: Provider): string {
    const schema = this.#schemas.get(provider);
    if (schema === undefined) throw new Error('This provider was not opened here.');
    return schema;
  }

  async #open(schema: string, clock: Clock): Promise<Provider> {
    const provider = await this.#pool.open(schema, { clock, poolSize: 4 });
    this.#schemas.set(provider, schema);
    return provider;
  }
}
