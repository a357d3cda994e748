import pg from 'pg';
import { openPostgres } from '../../../src/providers/postgres/provider.ts';
import { createDatabase, serverUrl, type TestDatabase } from './server.ts';

const template = 'test_template';

/** The schema of an empty store in databases of `createMigratedDatabase`. */
export const migratedSchema = 'perdure';

let isPrepared: Promise<boolean> | undefined;

/** Creates a database with an empty store: a copy of a migrated one, which is faster than the migrations. */
export async function createMigratedDatabase(): Promise<TestDatabase> {
  isPrepared ??= prepareTemplate();
  return (await isPrepared) ? createDatabase({ template }) : createDatabase();
}

/** Creates the database that all test files of a run copy. Returns whether there is one. */
async function prepareTemplate(): Promise<boolean> {
  // A server of the user outlives the run, and the database would be left behind.
  if ((process.env['PERDURE_TEST_POSTGRES_URL'] ?? '') !== '') return false;
  const url = await serverUrl();
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    // Held until the connection ends, so that one process creates it and the others wait.
    await client.query('SELECT pg_advisory_lock(1)');
    const { rows } = await client.query('SELECT FROM pg_database WHERE datname = $1', [template]);
    if (rows.length > 0) return true;
    const { url: unfinished } = await createDatabase();
    const provider = await openPostgres({ url: unfinished, schema: migratedSchema, listen: false });
    await provider.close();
    const name = new URL(unfinished).pathname.slice(1);
    // Waits for the connections of the provider to end, as `CREATE DATABASE … TEMPLATE` does.
    await client.query(`ALTER DATABASE ${name} RENAME TO ${template}`);
    return true;
  } finally {
    await client.end();
  }
}
