import {
  chmodSync,
  chownSync,
  copyFileSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import { defaultLimits, type DoctorLimits, type Finding } from '../../../src/cli/doctor/finding.ts';
import { findProblems } from '../../../src/cli/doctor/examine.ts';
import { migrate, migrations } from '../../../src/providers/sqlite/migrations/migrate.ts';
import {
  migrate as migratePostgres,
  migrations as postgresMigrations,
} from '../../../src/providers/postgres/migrations/migrate.ts';
import { reportOnSqlite } from '../../../src/providers/sqlite/report.ts';
import { reportOnPostgres } from '../../../src/providers/postgres/report.ts';
import type { StoreReport } from '../../../src/providers/shared/store-report.ts';
import { createDatabase, querySql, runSql } from '../../postgres/helpers/server.ts';
import { startTcpProxy } from '../../postgres/helpers/tcp-proxy.ts';
import { runCli } from '../helpers/run-cli.ts';
import { parseJson } from './parse-json.ts';
import { runRemedy } from './run-remedy.ts';

interface DoctorJson {
  readonly findings: readonly Finding[];
}

/** Runs `perdure doctor --json` on a store. */
async function doctor(store: string): Promise<readonly Finding[]> {
  const { code, stdout, stderr } = await runCli(['doctor', '--json'], {
    env: { PERDURE_STORE: store },
  });
  expect(stderr).toBe('');
  const { findings } = parseJson('doctor', stdout) as DoctorJson;
  expect(code).toBe(findings.some(({ level }) => level !== 'note') ? 8 : 0);
  return findings;
}

function only(findings: readonly Finding[], id: string): Finding {
  const [found, ...others] = findings.filter((one) => one.id === id);
  expect(others).toEqual([]);
  if (found === undefined) throw new Error(`No ${id} in ${JSON.stringify(findings)}`);
  return found;
}

/** Derives findings from a report with other limits, because a test cannot fill a store with a gibibyte. */
function findingsOf(report: StoreReport, limits: Partial<DoctorLimits> = {}): readonly Finding[] {
  return findProblems({
    nodeVersion: 'v24.0.0',
    selector: '--store app.db',
    storeSelector: '--store app.db',
    report,
    limits: { ...defaultLimits, ...limits },
  });
}

it('doctor reports a Node.js version that is too old or not a long-term release', () => {
  const of = (nodeVersion: string) =>
    findProblems({ nodeVersion, selector: '', limits: defaultLimits });
  expect(of('v24.1.0')).toEqual([]);
  expect(of('v20.19.0')).toMatchObject([{ id: 'node-version', level: 'problem' }]);
  expect(of('v23.1.0')).toMatchObject([{ id: 'node-version', level: 'note' }]);
});

describe('doctor on an SQLite file', () => {
  function path(): string {
    const folder = mkdtempSync(join(tmpdir(), 'perdure-doctor-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return join(folder, 'app store.db');
  }

  async function created(): Promise<string> {
    const file = path();
    await (await Perdure.open(file)).close();
    return file;
  }

  function change(file: string, sql: string): void {
    const db = new Database(file);
    db.exec(sql);
    db.close();
  }

  /** Makes a backup of a closed store. Returns a function that restores it. */
  function backup(file: string): () => void {
    copyFileSync(file, `${file}.backup`);
    return () => {
      for (const suffix of ['-wal', '-shm']) rmSync(file + suffix, { force: true });
      copyFileSync(`${file}.backup`, file);
      chmodSync(file, 0o600);
    };
  }

  it('finds nothing in a new store', async () => {
    expect(await doctor(await created())).toEqual([]);
  });

  it('store-missing: the remedy creates the store', async () => {
    const file = path();
    const found = only(await doctor(file), 'store-missing');
    expect(found.level).toBe('problem');
    await runRemedy(found);
    expect(await doctor(file)).toEqual([]);
  });

  it.runIf(process.platform !== 'win32')(
    'store-unreachable: a loop of links is replaced by the file',
    async () => {
      const file = path();
      symlinkSync(file, file);
      const found = only(await doctor(file), 'store-unreachable');
      expect(found).toMatchObject({
        level: 'problem',
        sentence: expect.stringContaining('ELOOP'),
        remedy: expect.stringMatching(/^Check the path and its permissions\./),
      });
      rmSync(file);
      await (await Perdure.open(file)).close();
      expect(await doctor(file)).toEqual([]);
    },
  );

  it('schema-older: doctor migrates nothing, and the remedy migrates', async () => {
    const file = path();
    const db = new Database(file);
    migrate(db, 0, migrations.slice(0, -2));
    db.close();
    chmodSync(file, 0o600);
    const found = only(await doctor(file), 'schema-older');
    expect(found.sentence).toContain('2 migrations pending');
    expect((await reportOnSqlite({ path: file })).schema?.applied).toBe(migrations.length - 2);
    await runRemedy(found);
    expect(await doctor(file)).toEqual([]);
  });

  it('schema-newer, schema-changed and schema-damaged', async () => {
    const newer = await created();
    const next = migrations.length + 1;
    change(newer, `INSERT INTO perdure_migrations VALUES (${next}, 'next', 'x', 0)`);
    expect(only(await doctor(newer), 'schema-newer').level).toBe('problem');
    // The remedy installs the newer version, for which the migration is known.
    change(newer, `DELETE FROM perdure_migrations WHERE number = ${next}`);
    expect(await doctor(newer)).toEqual([]);

    const changed = await created();
    const restore = backup(changed);
    change(changed, `UPDATE perdure_migrations SET checksum = 'x' WHERE number = 3`);
    expect(only(await doctor(changed), 'schema-changed').sentence).toContain('Migration 3');
    restore();
    expect(await doctor(changed)).toEqual([]);

    const damaged: Readonly<Record<string, string>> = {
      instances: 'store-unreachable',
      perdure_migrations: 'schema-damaged',
    };
    for (const [table, id] of Object.entries(damaged)) {
      change(changed, `PRAGMA foreign_keys = OFF; DROP TABLE ${table}`);
      const { remedy } = only(await doctor(changed), id);
      expect(remedy).toMatch(/a backup/);
      expect(remedy).not.toContain('perdure doctor');
      restore();
      expect(await doctor(changed)).toEqual([]);
    }

    const foreign = path();
    change(foreign, 'CREATE TABLE notes (text TEXT)');
    only(await doctor(foreign), 'schema-damaged');
  });

  it('store-locked: ends with the transaction of the other process', async () => {
    const file = await created();
    const other = new Database(file);
    other.exec('BEGIN IMMEDIATE');
    const report = await reportOnSqlite({ path: file, busyTimeoutMs: 50 });
    other.close();
    const { sentence } = only(findingsOf(report), 'store-locked');
    expect(sentence).toMatch(/^Another process has locked the store "/);
    expect(await doctor(file)).toEqual([]);
  });

  it('store-read-only: the remedy grants write access', async () => {
    const file = await created();
    chmodSync(file, 0o400);
    // Root may write to any file, so another user owns the store and reads the report.
    const isRoot = process.getuid?.() === 0;
    const user = 65_534;
    if (isRoot) for (const owned of [join(file, '..'), file]) chownSync(owned, user, user);
    const findings = async (): Promise<readonly Finding[]> => {
      if (isRoot) process.seteuid?.(user);
      const report = await reportOnSqlite({ path: file }).finally(() => {
        if (isRoot) process.seteuid?.(0);
      });
      return findingsOf(report);
    };
    await runRemedy(only(await findings(), 'store-read-only'));
    expect(await findings()).toEqual([]);
  });

  it('store-unreachable: a damaged file is restored from a backup', async () => {
    const file = await created();
    const restore = backup(file);
    writeFileSync(file, 'no database '.repeat(1_000));
    const found = only(await doctor(file), 'store-unreachable');
    expect(found.sentence).toMatch(/cannot be read: .*[^.]\.$/);
    expect(found.remedy).toContain('from a backup');
    restore();
    expect(await doctor(file)).toEqual([]);
  });

  it('journal-mode: the remedy switches to a write-ahead log', async () => {
    const file = await created();
    change(file, 'PRAGMA journal_mode = DELETE');
    const found = only(await doctor(file), 'journal-mode');
    // The check before changed nothing, although it opened the store.
    change(file, 'PRAGMA journal_mode = DELETE');
    await runRemedy(found);
    expect(await doctor(file)).toEqual([]);
  });

  it('file-mode: the remedy makes the files private', async () => {
    const file = await created();
    chmodSync(file, 0o644);
    const found = only(await doctor(file), 'file-mode');
    expect(found.sentence).toContain('mode 0644');
    await runRemedy(found);
    expect(await doctor(file)).toEqual([]);
  });

  it('bloat: the remedy returns the free pages', async () => {
    const file = await created();
    change(
      file,
      `CREATE TABLE filler AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
       SELECT i, zeroblob(1000) AS bytes FROM n; DROP TABLE filler`,
    );
    const limits = { bloatBytes: 1_000_000 };
    const found = only(findingsOf(await reportOnSqlite({ path: file }), limits), 'bloat');
    await runRemedy(found);
    expect(findingsOf(await reportOnSqlite({ path: file }), limits)).toEqual([]);
  });
});

describe('doctor on a PostgreSQL schema', () => {
  async function database(): Promise<string> {
    const created = await createDatabase();
    onTestFinished(() => created.drop());
    const { url } = created;
    await runSql(
      url,
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET idle_in_transaction_session_timeout = 60000', current_database()); END $$`,
    );
    return url;
  }

  async function created(): Promise<string> {
    const url = await database();
    await (await Perdure.open(url)).close();
    return url;
  }

  const alter = (url: string, what: string): Promise<void> =>
    runSql(
      url,
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I ${what}', current_database()); END $$`,
    );

  it('schema-new and schema-older: doctor migrates nothing, and the remedies migrate', async () => {
    const url = await database();
    const fresh = only(await doctor(url), 'schema-new');
    expect((await reportOnPostgres({ url })).schema?.applied).toBe(0);
    await runRemedy(fresh, url);
    expect(await doctor(url)).toEqual([]);

    await runSql(url, 'DROP SCHEMA perdure CASCADE');
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const target = { schema: 'perdure', quotedSchema: '"perdure"', migrate: true };
    await migratePostgres(client, target, postgresMigrations.slice(0, -2));
    await client.end();
    const older = only(await doctor(url), 'schema-older');
    expect(older.sentence).toContain('2 migrations pending');
    const { schema } = await reportOnPostgres({ url });
    expect(schema?.applied).toBe(postgresMigrations.length - 2);
    await runRemedy(older, url);
    expect(await doctor(url)).toEqual([]);
  });

  it('schema-newer, schema-changed and schema-damaged', async () => {
    const url = await created();
    const next = postgresMigrations.length + 1;
    await runSql(url, `INSERT INTO perdure.perdure_migrations VALUES (${next}, 'next', 'x')`);
    only(await doctor(url), 'schema-newer');
    // The remedy installs the newer version, for which the migration is known.
    await runSql(url, `DELETE FROM perdure.perdure_migrations WHERE number = ${next}`);
    expect(await doctor(url)).toEqual([]);
    // A copy made before the damage is the backup that the remedies name.
    const backup = await createDatabase({ template: new URL(url).pathname.slice(1) });
    onTestFinished(() => backup.drop());
    await alter(backup.url, 'SET idle_in_transaction_session_timeout = 60000');
    await runSql(url, `UPDATE perdure.perdure_migrations SET checksum = 'x' WHERE number = 2`);
    expect(only(await doctor(url), 'schema-changed').remedy).toContain('restore a backup');
    await runSql(
      url,
      'DROP SCHEMA perdure CASCADE; CREATE SCHEMA perdure; CREATE TABLE perdure.notes (text text)',
    );
    expect(only(await doctor(url), 'schema-damaged').remedy).toContain('restore a backup');
    expect(await doctor(backup.url)).toEqual([]);
  });

  it('store-unreachable: the sentence has no password, and a corrected URL has no finding', async () => {
    const url = await created();
    const wrong = Object.assign(new URL(url), { password: 'secret-word', port: '1' }).href;
    const found = only(await doctor(wrong), 'store-unreachable');
    expect(JSON.stringify(found)).not.toContain('secret-word');
    expect(found.remedy).toContain('port, user and password in the URL');
    expect(await doctor(url)).toEqual([]);
  });

  it('store-read-only and missing grants: the remedies make it writable', async () => {
    const url = await created();
    await alter(url, 'SET default_transaction_read_only = on');
    const found = only(await doctor(url), 'store-read-only');
    // A session may write again, although its default is to read.
    await runRemedy(
      found,
      Object.assign(new URL(url), { search: '?options=-c%20default_transaction_read_only%3Doff' })
        .href,
    );
    expect(await doctor(url)).toEqual([]);

    const role = `doctor_${process.pid}`;
    await runSql(url, `CREATE ROLE ${role} LOGIN PASSWORD 'only-for-tests'`);
    onTestFinished(() => runSql(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`));
    const weak = Object.assign(new URL(url), { username: role, password: 'only-for-tests' }).href;
    await runSql(url, `GRANT USAGE ON SCHEMA perdure TO ${role}`);
    await runSql(url, `GRANT SELECT ON ALL TABLES IN SCHEMA perdure TO ${role}`);
    const lacking = only(await doctor(weak), 'store-read-only');
    await runRemedy(lacking, url);
    expect(await doctor(weak)).toEqual([]);
  });

  it('synchronous-commit, idle-transactions and connection-limit: the remedies set them', async () => {
    const url = await created();
    await alter(url, 'SET synchronous_commit = off');
    await alter(url, 'RESET idle_in_transaction_session_timeout');
    await alter(url, 'CONNECTION LIMIT 9');
    const findings = await doctor(url);
    expect(findings.map(({ id, level }) => `${level} ${id}`)).toEqual([
      'problem synchronous-commit',
      'warning connection-limit',
      'note idle-transactions',
    ]);
    for (const finding of findings) await runRemedy(finding, url);
    expect(await doctor(url)).toEqual([]);
    const [settings] = await querySql<{ name: string }>(url, 'SELECT current_user AS name');
    await runSql(
      url,
      `DO $$ BEGIN EXECUTE format('ALTER ROLE "${settings?.name}" IN DATABASE %I RESET ALL', current_database()); END $$`,
    );
  });

  it('notifications: a direct connection has no finding, a pooler that drops them has', async () => {
    const url = await created();
    const proxy = await startTcpProxy(url);
    onTestFinished(() => proxy.close());
    proxy.alterAnswers(withoutNotifications);
    const report = await reportOnPostgres({ url: proxy.url });
    only(findingsOf(report), 'notifications');
    // The remedy is a connection without the pooler.
    expect(findingsOf(await reportOnPostgres({ url }))).toEqual([]);
  });

  it('postgres-version: an old server', async () => {
    const report = await reportOnPostgres({ url: await created() });
    const old = { ...report, server: { ...report.server!, version: '13.4' } };
    expect(only(findingsOf(old), 'postgres-version').level).toBe('problem');
    expect(findingsOf(report)).toEqual([]);
  });

  it('bloat: the remedy removes the dead rows', async () => {
    const url = await created();
    await runSql(
      url,
      `CREATE TABLE perdure.filler AS SELECT generate_series(1, 5000) AS i; DELETE FROM perdure.filler`,
    );
    const limits = { bloatRows: 1_000 };
    const found = await expect
      .poll(async () => findingsOf(await reportOnPostgres({ url }), limits))
      .toMatchObject([{ id: 'bloat' }])
      .then(async () => findingsOf(await reportOnPostgres({ url }), limits));
    await runRemedy(found[0]!, url);
    await expect.poll(async () => findingsOf(await reportOnPostgres({ url }), limits)).toEqual([]);
  });
});

/** Removes the messages `A` (NotificationResponse) from what a server sends, as a pooler in transaction mode does. */
function withoutNotifications(bytes: Buffer): Buffer {
  const kept: Buffer[] = [];
  let at = 0;
  while (at + 5 <= bytes.length) {
    const length = 1 + bytes.readInt32BE(at + 1);
    if (bytes[at] !== 'A'.charCodeAt(0)) kept.push(bytes.subarray(at, at + length));
    at += length;
  }
  return Buffer.concat([...kept, bytes.subarray(at)]);
}
