import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  migrate as migratePostgres,
  migrations as postgresMigrations,
} from '../../../src/providers/postgres/migrations/migrate.ts';
import { migrate, migrations } from '../../../src/providers/sqlite/migrations/migrate.ts';
import { createDatabase } from '../../postgres/helpers/server.ts';
import { runCli } from '../helpers/run-cli.ts';
import { parseJson } from '../doctor/parse-json.ts';
import { emptyFolder } from './cli-process.ts';

/** Creates a store that lacks the last two migrations. */
async function olderStore(kind: 'SQLite' | 'PostgreSQL'): Promise<string> {
  if (kind === 'SQLite') {
    const path = join(emptyFolder(), 'app.db');
    const db = new Database(path);
    migrate(db, 0, migrations.slice(0, -2));
    db.close();
    return path;
  }
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  const { url } = database;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const target = { schema: 'perdure', quotedSchema: '"perdure"', migrate: true };
  await migratePostgres(client, target, postgresMigrations.slice(0, -2));
  await client.end();
  return url;
}

describe.each(['SQLite', 'PostgreSQL'] as const)('perdure migrate on %s', (kind) => {
  it('shows a plan, refuses without a confirmation, applies with --yes, and is then up to date', async () => {
    const store = await olderStore(kind);
    const call = (...args: string[]) =>
      runCli(['migrate', ...args], { env: { PERDURE_STORE: store } });
    const known = kind === 'SQLite' ? migrations : postgresMigrations;
    const pending = known.slice(-2).map(({ number, name }) => ({ number, name }));
    const applied = known.length - 2;
    const plan = await call('--plan');
    expect(plan.code).toBe(0);
    expect(plan.stdout).toMatch(/^NUMBER {2}NAME\n +\d+ {2}[\w-]+\n +\d+ {2}[\w-]+\n$/);
    const asked = await call();
    expect(asked.code).toBe(4);
    expect(asked.stderr).toContain('Pass --yes to confirm.');
    // Neither of them changed anything.
    const planned = await call('--plan', '--json');
    expect(parseJson('migrate', planned.stdout)).toMatchObject({
      state: 'older',
      applied,
      pending,
      migrated: false,
    });
    const done = await call('--yes', '--json');
    expect(parseJson('migrate', done.stdout)).toMatchObject({
      state: 'older',
      pending,
      migrated: true,
    });
    const again = await call();
    expect(again).toMatchObject({ code: 0, stdout: '' });
    expect(again.stderr).toContain(`up to date: migration ${known.length}`);
  });
});

describe('perdure migrate', () => {
  it('creates a store without a confirmation, and refuses a newer one', async () => {
    const cwd = emptyFolder();
    const call = (...args: string[]) => runCli(['migrate', '--store', 'new.db', ...args], { cwd });
    const plan = await call('--plan', '--json');
    expect(parseJson('migrate', plan.stdout)).toMatchObject({ state: 'new', applied: 0 });
    expect((await call('--plan')).stdout.split('\n').length).toBe(migrations.length + 2);
    expect(await call()).toMatchObject({ code: 0 });
    const db = new Database(join(cwd, 'new.db'));
    db.exec(`INSERT INTO perdure_migrations VALUES (${migrations.length + 1}, 'next', 'x', 0)`);
    db.close();
    const newer = await call('--yes');
    expect(newer).toMatchObject({ code: 4, stderr: expect.stringContaining('Upgrade Perdure') });
  });

  it('ends with exit code 5 for an unreachable store', async () => {
    const env = { PERDURE_STORE: 'postgres://a:b@127.0.0.1:1/none' };
    const result = await runCli(['migrate', '--plan'], { env });
    expect(result).toMatchObject({ code: 5, stderr: expect.stringContaining('perdure doctor') });
  });
});
