import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { Clock } from '../../src/model/clock.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import type { CorruptRows } from '../../src/testing/conformance/run-case.ts';
import { createEmptyStore } from '../sqlite/helpers/empty-store.ts';

const tables: Readonly<Record<CorruptRows['rows'], { table: string; columns: readonly string[] }>> =
  {
    events: { table: 'history', columns: ['data', 'payload'] },
    messages: { table: 'orchestrator_queue', columns: ['data', 'payload'] },
    workItems: { table: 'worker_queue', columns: ['options', 'payload'] },
  };

/** SQLite files in a temporary directory, which tests can corrupt and reopen. */
export class SqliteFiles {
  readonly #directory = mkdtempSync(join(tmpdir(), 'perdure-conformance-'));
  readonly #paths = new WeakMap<Provider, string>();
  #count = 0;

  readonly create = async ({ clock }: { readonly clock: Clock }): Promise<Provider> => {
    const path = join(this.#directory, `${++this.#count}.db`);
    await createEmptyStore(path);
    return this.#open(path, clock);
  };

  readonly reopen = ({
    clock,
    first,
  }: {
    readonly clock: Clock;
    readonly first: Provider;
  }): Promise<Provider> => this.#open(this.pathOf(first), clock);

  /** Overwrites text with bytes that are not UTF-8. */
  readonly corrupt = async (
    provider: Provider,
    { instanceId, rows }: CorruptRows,
  ): Promise<void> => {
    const { table, columns } = tables[rows];
    const assignments = columns.map((column) => `${column} = CAST(x'fffe7bff' AS TEXT)`);
    const db = new Database(this.pathOf(provider));
    try {
      db.prepare(
        `UPDATE ${table} SET ${assignments.join(', ')}
         WHERE instance_key = (SELECT instance_key FROM instances WHERE instance_id = ?)`,
      ).run(instanceId);
    } finally {
      db.close();
    }
  };

  /** Registers a provider that wraps one of these files for `pathOf` and `reopen`. */
  add(provider: Provider, path: string): void {
    this.#paths.set(provider, path);
  }

  pathOf(provider: Provider): string {
    const path = this.#paths.get(provider);
    if (path === undefined) throw new Error('This provider was not opened here.');
    return path;
  }

  remove(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  async #open(path: string, clock: Clock): Promise<Provider> {
    // These tests simulate no power loss, and fsync is slow.
    const provider = await openSqlite({ path, clock, synchronous: 'normal' });
    this.#paths.set(provider, path);
    return provider;
  }
}
