import { inspect } from 'node:util';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  migrate,
  migratePostgres,
  migrations,
  prepareSchema,
} from '../../src/providers/postgres/migrations/migrate.ts';
import { checksum, type Migration } from '../../src/providers/shared/migrations.ts';
import { resolveOptions } from '../../src/providers/postgres/driver/options.ts';
import { createDatabase, querySql, runSql, type TestDatabase } from './helpers/server.ts';

const addNotes: Migration = {
  number: migrations.length + 1,
  name: 'notes',
  sql: 'CREATE TABLE notes (note text);',
};
const target = { schema: 'perdure', quotedSchema: '"perdure"', migrate: true };

let database: TestDatabase;
let client: pg.Client;

beforeEach(async () => {
  database = await createDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});

afterEach(async () => {
  await client.end();
  await database.drop();
});

async function applied(): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    'SELECT name FROM perdure.perdure_migrations ORDER BY number',
  );
  return rows.map(({ name }) => name);
}

async function tables(): Promise<readonly string[]> {
  const { rows } = await client.query<{ name: string }>(
    `SELECT tablename AS name FROM pg_tables WHERE schemaname = 'perdure'`,
  );
  return rows.map(({ name }) => name);
}

describe('migrate()', () => {
  it('migrations are numbered 1, 2, 3, … without gaps', () => {
    expect(migrations.map(({ number }) => number)).toEqual(migrations.map((_, index) => index + 1));
  });

  it('migrate() creates the schema and applies every migration', async () => {
    await migrate(client, target);
    expect(await applied()).toEqual(migrations.map(({ name }) => name));
    expect(await tables()).toContain('instances');
  });

  it('payloads are compressed with LZ4 where the server has it, and by its default elsewhere', async () => {
    await migrate(client, target);
    const { rows: settings } = await client.query<{ hasLz4: boolean }>(
      `SELECT 'lz4' = ANY (enumvals) AS "hasLz4" FROM pg_settings WHERE name = 'default_toast_compression'`,
    );
    const { rows } = await client.query<{ name: string; method: string }>(
      `SELECT relname || '.' || attname AS name, attcompression AS method FROM pg_attribute
       JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'perdure'::regnamespace AND relkind = 'r'
         AND attname IN ('input', 'output', 'payload', 'reply') ORDER BY name`,
    );
    expect(rows.map(({ name }) => name)).toEqual([
      'chunks.payload',
      'history.payload',
      'instances.input',
      'instances.output',
      'orchestrator_queue.payload',
      'stream_chunks.payload',
      'updates.reply',
      'worker_queue.payload',
    ]);
    const expected = settings[0]?.hasLz4 === true ? 'l' : '';
    expect(rows.map(({ method }) => method)).toEqual(rows.map(() => expected));
  });

  it('migrate() restores the search path of the connection', async () => {
    const path = async () => (await client.query('SHOW search_path')).rows as unknown;
    const before = await path();
    await migrate(client, target);
    expect(await path()).toEqual(before);
  });

  it('migrate() called twice changes nothing the second time', async () => {
    await migrate(client, target);
    const all = async () =>
      (await client.query('SELECT * FROM perdure.perdure_migrations')).rows as unknown;
    const before = await all();
    await migrate(client, target);
    expect(await all()).toEqual(before);
  });

  it('migrate() applies only missing migrations', async () => {
    await migrate(client, target);
    await migrate(client, target, [...migrations, addNotes]);
    expect(await applied()).toEqual([...migrations.map(({ name }) => name), 'notes']);
    expect(await tables()).toContain('notes');
  });

  it('migrate() rejects a schema of a newer version with STORE_TOO_NEW', async () => {
    await migrate(client, target, [...migrations, addNotes]);
    await expect(migrate(client, target)).rejects.toMatchObject({
      code: 'STORE_TOO_NEW',
      retryable: false,
      message: expect.stringContaining('Upgrade Perdure'),
    });
  });

  it('migrate() rejects a changed migration with STORE_INCOMPATIBLE', async () => {
    await migrate(client, target);
    const edited = migrations.map((each) => ({ ...each, sql: `${each.sql}-- edited` }));
    await expect(migrate(client, target, edited)).rejects.toMatchObject({
      code: 'STORE_INCOMPATIBLE',
      retryable: false,
    });
  });

  it('migrate() rejects a gap in the applied migrations with STORE_DAMAGED', async () => {
    await migrate(client, target);
    await client.query('DELETE FROM perdure.perdure_migrations WHERE number = 1');
    await expect(migrate(client, target)).rejects.toMatchObject({ code: 'STORE_DAMAGED' });
  });

  it('migrate() rolls back a migration that fails and applies it once fixed', async () => {
    const broken = { ...addNotes, sql: `${addNotes.sql} CREATE TABLE notes (note text);` };
    await expect(migrate(client, target, [...migrations, broken])).rejects.toThrow(
      'already exists',
    );
    expect(await tables()).toEqual([]);
    await migrate(client, target, [...migrations, addNotes]);
    expect(await applied()).toHaveLength(migrations.length + 1);
  });

  it('migrate() rejects a schema with foreign tables with STORE_DAMAGED', async () => {
    await client.query('CREATE SCHEMA perdure; CREATE TABLE perdure.customers (id int)');
    await expect(migrate(client, target)).rejects.toMatchObject({
      code: 'STORE_DAMAGED',
      message: expect.stringContaining('customers'),
    });
    expect(await tables()).toEqual(['customers']);
  });

  it('the checksums of released migrations do not change', () => {
    // Never edit a released migration; add a new one.
    expect(migrations.map((each) => [each.name, checksum(each).slice(0, 16)])).toEqual([
      ['initial', '4535b9baf6d55dbe'],
      ['jobs', 'a39d5afb8f2fffb9'],
      ['tags', 'f7812cf5bb156c04'],
      ['workers', 'ea37c1184abf1109'],
      ['pause', 'f4b80c3ca26aa24b'],
      ['series', '042f650724c9b338'],
      ['streams', 'e0a27ae0b3deb946'],
      ['starting', '2a367d3f932e2ede'],
      ['updates', '92b0c913d3f6f1e4'],
      ['state', '90eb8d544b7e2407'],
      ['limits', 'b078c8265ce3ca8b'],
      ['start-keys', 'f42caa2c8042642f'],
      ['beginning', '5ee2e423bbeb6408'],
      ['deleted-starts', 'ddefaf38326ca06f'],
      ['compression', '604dc79258def43b'],
    ]);
  });
});

describe('prepareSchema()', () => {
  const options = (parts: { readonly migrate?: boolean; readonly url?: string } = {}) =>
    resolveOptions({ url: database.url, ...parts });

  it('twelve concurrent prepareSchema() calls apply each migration once', async () => {
    await Promise.all(Array.from({ length: 12 }, () => prepareSchema(options())));
    expect(await applied()).toEqual(migrations.map(({ name }) => name));
  });

  it('prepareSchema() with migrate: false rejects a missing schema and names migratePostgres()', async () => {
    await expect(prepareSchema(options({ migrate: false }))).rejects.toMatchObject({
      code: 'STORE_TOO_OLD',
      operation: 'open',
      retryable: false,
      message: expect.stringContaining('migratePostgres()'),
    });
    expect(await tables()).toEqual([]);
    await migratePostgres({ url: database.url });
    await prepareSchema(options({ migrate: false }));
  });

  it('prepareSchema() needs no CREATE privilege once the schema exists', async () => {
    const role = `app_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
    const url = Object.assign(new URL(database.url), { username: role, password: 'pw-4711' }).href;
    await runSql(database.url, `CREATE ROLE ${role} LOGIN PASSWORD 'pw-4711'`);
    try {
      const refused = prepareSchema(options({ url }));
      await expect(refused).rejects.toMatchObject({
        code: 'PROVIDER',
        operation: 'open',
        retryable: false,
        message: expect.stringMatching(/42501.*Grant/s),
      });
      await migratePostgres({ url: database.url });
      await runSql(
        database.url,
        `GRANT USAGE ON SCHEMA perdure TO ${role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA perdure TO ${role}`,
      );
      await prepareSchema(options({ url }));
    } finally {
      await runSql(database.url, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
    }
  });

  it('prepareSchema() rejects a wrong password with advice and without the password', async () => {
    const url = Object.assign(new URL(database.url), { password: 'hunter2' }).href;
    const error: unknown = await prepareSchema(options({ url })).catch((error: unknown) => error);
    expect(error).toMatchObject({
      code: 'PROVIDER',
      retryable: false,
      message: expect.stringContaining('Check the user and the password'),
    });
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('hunter2');
  });

  it('prepareSchema() rejects a missing database with advice to create it', async () => {
    const url = Object.assign(new URL(database.url), { pathname: '/nowhere' }).href;
    await expect(prepareSchema(options({ url }))).rejects.toMatchObject({
      retryable: false,
      message: expect.stringContaining('Create the database'),
    });
  });

  it.each(['postgres://u:hunter2@127.0.0.1:1/db', 'postgres://u:hunter2@no-such-host.invalid/db'])(
    'prepareSchema() rejects as retryable when the host of %s is unreachable',
    async (url) => {
      const error: unknown = await prepareSchema(options({ url })).catch((error: unknown) => error);
      expect(error).toMatchObject({
        code: 'PROVIDER',
        operation: 'open',
        retryable: true,
        message: expect.stringContaining('Check the host'),
      });
      expect(String(error)).not.toContain('hunter2');
    },
  );

  it('prepareSchema() waits until the server accepts connections', async () => {
    // To a client, a missing connection slot looks like a server that is starting.
    const role = `busy_${process.pid}_${Math.random().toString(36).slice(2, 8)}`;
    const url = Object.assign(new URL(database.url), { username: role, password: 'x' }).href;
    await runSql(
      database.url,
      `CREATE ROLE ${role} LOGIN PASSWORD 'x' CONNECTION LIMIT 0; GRANT CREATE ON DATABASE ${new URL(database.url).pathname.slice(1)} TO ${role}`,
    );
    try {
      const opening = prepareSchema(options({ url }));
      await runSql(database.url, `ALTER ROLE ${role} CONNECTION LIMIT 10`);
      await opening;
      expect(await querySql(database.url, 'SELECT 1 FROM perdure.perdure_migrations')).toHaveLength(
        migrations.length,
      );
    } finally {
      await runSql(database.url, `DROP OWNED BY ${role}; DROP ROLE ${role}`);
    }
  });
});
