import pg from 'pg';
import { startEmbeddedServer } from '../test/postgres/helpers/embedded-server.ts';
import type { Stores } from './stores.ts';

/** Databases on the server of PERDURE_TEST_POSTGRES_URL, or on a new server with fsync on. */
export async function createPostgresStores(): Promise<Stores> {
  const given = process.env['PERDURE_TEST_POSTGRES_URL'];
  const server =
    given === undefined || given === ''
      ? await startEmbeddedServer({ durable: true })
      : { url: given, remove: () => Promise.resolve() };
  const left = new Set<string>();
  const run = async (sql: string): Promise<readonly Readonly<Record<string, string>>[]> => {
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    try {
      return (await client.query<Record<string, string>>(sql)).rows;
    } finally {
      await client.end();
    }
  };
  const remove = async (store: string): Promise<void> => {
    await run(`DROP DATABASE IF EXISTS ${databaseOf(store)} WITH (FORCE)`);
    left.delete(store);
  };
  try {
    return {
      versions: await describe(run),
      async make(name, template) {
        const database = `bench_${process.pid}_${name}`.toLowerCase().replaceAll('-', '_');
        const from = template === undefined ? '' : ` TEMPLATE ${databaseOf(template)}`;
        const store = Object.assign(new URL(server.url), { pathname: `/${database}` }).href;
        left.add(store);
        await run(`CREATE DATABASE ${database}${from}`);
        return store;
      },
      remove,
      async close() {
        for (const store of left) await remove(store);
        await server.remove();
      },
    };
  } catch (error) {
    await server.remove();
    throw error;
  }
}

async function describe(
  run: (sql: string) => Promise<readonly Readonly<Record<string, string>>[]>,
): Promise<Readonly<Record<string, string>>> {
  const settings = ['server_version', 'fsync', 'synchronous_commit', 'shared_buffers'];
  const versions: Record<string, string> = {};
  for (const setting of settings) {
    const [row] = await run(`SHOW ${setting}`);
    versions[setting === 'server_version' ? 'postgres' : setting] = row?.[setting] ?? 'unknown';
  }
  return versions;
}

function databaseOf(store: string): string {
  return new URL(store).pathname.slice(1);
}
