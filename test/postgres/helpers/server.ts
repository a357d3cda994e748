import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';

/** The environment variable with the directory of the server's address file. */
export const runDirectory = 'PERDURE_TEST_RUN_DIRECTORY';

/** The URL of a superuser on the server of PERDURE_TEST_POSTGRES_URL, or on one that this run starts. */
export async function serverUrl(): Promise<string> {
  const given = process.env['PERDURE_TEST_POSTGRES_URL'];
  if (given !== undefined && given !== '') return given;
  const directory = process.env[runDirectory];
  if (directory === undefined) throw new Error('The run has not been set up by global-setup.ts.');
  const file = join(directory, 'server.json');
  if (!existsSync(file) && isFirst(directory)) startServer(file);
  const deadline = performance.now() + 60_000;
  while (!existsSync(file)) {
    if (performance.now() > deadline) throw new Error('The embedded PostgreSQL does not start.');
    await delay(20);
  }
  return (JSON.parse(readFileSync(file, 'utf8')) as { readonly url: string }).url;
}

/** A database for one test or one test file. */
export interface TestDatabase {
  readonly url: string;
  /** Ends every connection to it and drops it. */
  drop(): Promise<void>;
}

/** Creates a database on the server of the test run: empty, or a copy of `template`. */
export async function createDatabase({
  template,
}: { readonly template?: string } = {}): Promise<TestDatabase> {
  const server = await serverUrl();
  const name = `test_${process.pid}_${Math.random().toString(36).slice(2, 10)}`;
  const source = template === undefined ? '' : ` TEMPLATE ${template}`;
  await runSql(server, `CREATE DATABASE ${name}${source}`);
  return {
    url: Object.assign(new URL(server), { pathname: `/${name}` }).href,
    drop: () => runSql(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

/** Runs statements on a separate connection. */
export async function runSql(url: string, sql: string): Promise<void> {
  await querySql(url, sql);
}

/** Runs a statement in a schema on a separate connection. Returns the number of changed rows. */
export async function changeSql(url: string, schema: string, sql: string): Promise<number> {
  const client = new pg.Client({ connectionString: url, options: `-c search_path=${schema}` });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query(sql)).rowCount ?? 0;
  } finally {
    await client.end();
  }
}

/** Runs a statement on a separate connection. Returns its rows. */
export async function querySql<Row extends object>(
  url: string,
  sql: string,
): Promise<readonly Row[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query<Row>(sql);
    return rows;
  } finally {
    await client.end();
  }
}

function isFirst(directory: string): boolean {
  try {
    mkdirSync(join(directory, 'starting'));
    return true;
  } catch {
    return false;
  }
}

function startServer(file: string): void {
  const program = join(import.meta.dirname, 'server-program.ts');
  // Detached, because Vitest ends its workers after each file and the server serves the next file too.
  const child = spawn(process.execPath, [program, file, String(process.ppid)], {
    detached: true,
    stdio: 'ignore',
  });
  child.unref();
}
