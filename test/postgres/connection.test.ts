import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { ProviderError } from '../../src/model/failures/errors.ts';
import {
  Connections,
  type Statement,
  type Transaction,
} from '../../src/providers/postgres/driver/connection.ts';
import {
  resolveOptions,
  type PostgresOptions,
} from '../../src/providers/postgres/driver/options.ts';
import { createDatabase, querySql, runSql, type TestDatabase } from './helpers/server.ts';
import { startTcpProxy, type TcpProxy } from './helpers/tcp-proxy.ts';

const insert: Statement = { name: 'insert', text: 'INSERT INTO notes (note) VALUES ($1)' };
const count: Statement = { name: 'count', text: 'SELECT count(*) AS count FROM notes' };
const backend: Statement = { name: 'backend', text: 'SELECT pg_backend_pid() AS pid' };
const one: Statement = { name: 'one', text: 'SELECT 9007199254740991::bigint AS n' };

let database: TestDatabase;
let proxy: TcpProxy;
let opened: Connections[];

beforeAll(async () => {
  database = await createDatabase();
  proxy = await startTcpProxy(database.url);
});

afterAll(async () => {
  await proxy.close();
  await database.drop();
});

beforeEach(async () => {
  opened = [];
  proxy.intercept(() => 'pass');
  proxy.alterAnswers((bytes) => bytes);
  proxy.open();
  proxy.resume();
  proxy.cut();
  await runSql(database.url, 'DROP TABLE IF EXISTS notes; CREATE TABLE notes (note text UNIQUE)');
});

afterEach(async () => {
  await Promise.all(opened.map((connections) => connections.close()));
});

function open(options: Partial<PostgresOptions> = {}): Connections {
  const { connection } = resolveOptions({ url: proxy.url, ...options });
  const connections = new Connections(connection);
  opened.push(connections);
  return connections;
}

async function notes(): Promise<number> {
  const [row] = await querySql<{ n: number }>(database.url, 'SELECT count(*)::int AS n FROM notes');
  return row?.n ?? -1;
}

const isCommit = (bytes: Buffer): boolean => bytes.includes('COMMIT\0');
const isInsert = (bytes: Buffer): boolean => bytes.includes('INSERT INTO notes');

const readyForQuery = Buffer.from('Z\0\0\0\x05I');
const terminatedByAdministrator = errorResponse({
  S: 'FATAL',
  C: '57P01',
  M: 'terminating connection due to administrator command',
});

/** An ErrorResponse message of the protocol. */
function errorResponse(fields: Readonly<Record<string, string>>): Buffer {
  const body = Object.entries(fields).map(([letter, value]) => `${letter}${value}\0`);
  const bytes = Buffer.from(`E\0\0\0\0${body.join('')}\0`);
  bytes.writeInt32BE(bytes.length - 1, 1);
  return bytes;
}

/** Applies an action to the first bytes that match. */
function interceptOnce(matches: (bytes: Buffer) => boolean, action: 'cut' | 'cutAnswer'): void {
  let isDone = false;
  proxy.intercept((bytes) => {
    if (isDone || !matches(bytes)) return 'pass';
    isDone = true;
    return action;
  });
}

describe('Connections.transaction()', () => {
  it('transaction() commits the writes of its callback and returns its result', async () => {
    const answer = await open().transaction('write', async (tx) => {
      await tx.execute(insert, ['a']);
      return tx.query<{ count: number }>(count, []);
    });
    expect(answer).toEqual([{ count: 1 }]);
    expect(await notes()).toBe(1);
  });

  it('transaction() rolls back and rejects with a ProviderError when a statement fails', async () => {
    const failing = open().transaction('write', async (tx) => {
      await tx.execute(insert, ['a']);
      await tx.execute(insert, ['a']);
    });
    await expect(failing).rejects.toMatchObject({
      code: 'PROVIDER',
      operation: 'write',
      retryable: false,
      message: expect.stringContaining('23505'),
    });
    expect(await notes()).toBe(0);
  });

  it('transaction() rejects when its callback swallows the error of a statement', async () => {
    const failing = open().transaction('write', async (tx) => {
      await tx.execute(insert, ['a']);
      await tx.execute(insert, ['a']).catch(() => undefined);
    });
    await expect(failing).rejects.toThrow('rolled back');
    expect(await notes()).toBe(0);
  });

  it('transaction() returns its connection to the pool after an error', async () => {
    const connections = open({ poolSize: 1 });
    const pid = () => connections.read('read', (tx) => tx.query<{ pid: number }>(backend, []));
    const before = await pid();
    await expect(
      connections.transaction('write', async (tx) => {
        await tx.execute({ name: 'wrong', text: 'SELECT 1/0' }, []);
      }),
    ).rejects.toThrow('division by zero');
    expect(await pid()).toEqual(before);
  });

  it('transaction() retries on another connection when its own is lost before COMMIT', async () => {
    interceptOnce(isInsert, 'cut');
    await open().transaction('write', (tx) => tx.execute(insert, ['a']));
    expect(await notes()).toBe(1);
  });

  it('transaction() retries when the server ends it by the idle-in-transaction timeout', async () => {
    const connections = open({ idleInTransactionTimeoutMs: 50 });
    let runs = 0;
    await connections.transaction('write', async (tx) => {
      await tx.execute(insert, [`run ${++runs}`]);
      // Blocks the event loop, so that COMMIT is sent before the client reads the server's error.
      if (runs === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
    });
    expect(runs).toBe(2);
    expect(await notes()).toBe(1);
  });

  it('transaction() retries when the server aborts it to resolve a deadlock', async () => {
    await runSql(database.url, `INSERT INTO notes VALUES ('a'), ('b')`);
    const connections = open();
    const lock: Statement = {
      name: 'lock',
      text: 'SELECT note FROM notes WHERE note = $1 FOR UPDATE',
    };
    const holding = new Set<string>();
    const both = (first: string, second: string) =>
      connections.transaction('write', async (tx) => {
        await tx.query(lock, [first]);
        holding.add(first);
        // Deadlocks only once: the retry has no competitor.
        await vi.waitUntil(() => holding.size === 2, { interval: 1, timeout: 15_000 });
        await tx.query(lock, [second]);
        return first;
      });
    expect(await Promise.all([both('a', 'b'), both('b', 'a')])).toEqual(['a', 'b']);
  });

  it.each(['cut', 'cutAnswer'] as const)(
    'transaction() does not retry after a lost COMMIT (%s) and sets outcomeUnknown',
    async (action) => {
      interceptOnce(isCommit, action);
      let runs = 0;
      const failing = open().transaction('write', async (tx) => {
        runs += 1;
        await tx.execute(insert, ['a']);
      });
      await expect(failing).rejects.toMatchObject({
        code: 'PROVIDER',
        retryable: true,
        outcomeUnknown: true,
      });
      expect(runs).toBe(1);
      // The error is the same, but the server committed only in one case.
      await vi.waitUntil(async () => (await notes()) === (action === 'cut' ? 0 : 1), {
        timeout: 15_000,
      });
    },
  );

  it('transaction() rejects with a retryable error when an outage outlasts retryMs', async () => {
    const connections = open({ retryMs: 200 });
    await connections.read('read', (tx) => tx.query(one, []));
    proxy.shut();
    await expect(
      connections.transaction('write', (tx) => tx.execute(insert, ['a'])),
    ).rejects.toMatchObject({ retryable: true, outcomeUnknown: false });
    proxy.open();
    await connections.transaction('write', (tx) => tx.execute(insert, ['a']));
    expect(await notes()).toBe(1);
  });

  it('transaction() succeeds once the server accepts connections again', async () => {
    const connections = open();
    await connections.read('read', (tx) => tx.query(one, []));
    proxy.shut();
    const refusal = proxy.refusal();
    const writing = connections.transaction('write', (tx) => tx.execute(insert, ['a']));
    await refusal;
    proxy.open();
    expect(await writing).toBe(1);
  });
});

describe('Connections.statement()', () => {
  it('statement() commits its own transaction', async () => {
    await open().statement('write', insert, ['a']);
    expect(await notes()).toBe(1);
  });

  it('statement() does not retry after a lost answer and sets outcomeUnknown', async () => {
    interceptOnce(isInsert, 'cutAnswer');
    await expect(open().statement('write', insert, ['a'])).rejects.toMatchObject({
      retryable: true,
      outcomeUnknown: true,
    });
    await vi.waitUntil(async () => (await notes()) === 1, { timeout: 15_000 });
  });
});

describe('Connections on a server that stops answering', () => {
  const answerTimeoutMs = 400;
  /** Longer than any answer takes here, and much shorter than the statement timeout. */
  const soonMs = 15_000;

  /** Opens a pool with eight idle connections. */
  async function openWarm(): Promise<Connections> {
    const connections = open({ answerTimeoutMs });
    const read = () => connections.read('read', (tx) => tx.query(one, []));
    await Promise.all(Array.from({ length: 8 }, read));
    expect(proxy.connections).toBe(8);
    return connections;
  }

  it('statement() rejects with outcomeUnknown after answerTimeoutMs', async () => {
    const connections = await openWarm();
    proxy.stall();
    const begun = performance.now();
    await expect(connections.statement('ackWorkItems', insert, ['a'])).rejects.toMatchObject({
      retryable: true,
      outcomeUnknown: true,
      message: expect.stringContaining('did not respond for 400 ms'),
    });
    proxy.resume();
    expect(performance.now() - begun).toBeLessThan(soonMs);
    expect(await notes()).toBe(0);
  });

  it('transaction() needs one retry although all eight pooled connections are dead', async () => {
    const connections = await openWarm();
    proxy.stall();
    proxy.resume();
    let runs = 0;
    await connections.transaction('ackWorkItems', async (tx) => {
      runs += 1;
      await tx.execute(insert, ['a']);
    });
    expect(runs).toBe(2);
    expect(await notes()).toBe(1);
  });

  it('a retried transaction gets the row locks of its dead connection', async () => {
    await runSql(database.url, `INSERT INTO notes VALUES ('a')`);
    const connections = open({ answerTimeoutMs });
    const lock: Statement = { name: 'lock', text: 'SELECT note FROM notes FOR UPDATE' };
    let runs = 0;
    const begun = performance.now();
    await connections.transaction('fetchWorkItems', async (tx) => {
      runs += 1;
      await tx.query(lock, []);
      if (runs === 1) {
        proxy.stall();
        proxy.resume();
      }
      await tx.query(one, []);
    });
    expect(runs).toBeGreaterThanOrEqual(2);
    expect(performance.now() - begun).toBeLessThan(soonMs);
  });

  it('answerTimeoutMs applies to fetchWorkItems and not to systemMetrics', async () => {
    const sleep: Statement = { name: 'sleep', text: 'SELECT pg_sleep(1)' };
    const connections = open({ answerTimeoutMs: 100, retryMs: 0 });
    await connections.read('systemMetrics', (tx) => tx.query(sleep, []));
    await expect(
      connections.read('fetchWorkItems', (tx) => tx.query(sleep, [])),
    ).rejects.toMatchObject({ retryable: true, message: expect.stringContaining('100 ms') });
  });

  it('answerTimeoutMs does not end a large answer that arrives slowly', async () => {
    const slowly: Statement = {
      name: 'slowly',
      text: `SELECT repeat('x', 100000) AS x FROM generate_series(1, 8) AS n, pg_sleep(n * 0 + 0.1)`,
    };
    const connections = open({ answerTimeoutMs: 400, retryMs: 0 });
    const rows = await connections.read('readHistory', (tx) => tx.query(slowly, []));
    expect(rows).toHaveLength(8);
  });
});

describe('the connection pool', () => {
  it('the pool replaces an idle connection that the server terminates', async () => {
    const connections = open();
    const pids = await connections.read('read', (tx) => tx.query<{ pid: number }>(backend, []));
    await runSql(database.url, `SELECT pg_terminate_backend(${pids[0]?.pid})`);
    proxy.cut();
    expect(await connections.read('read', (tx) => tx.query(one, []))).toEqual([
      { n: Number.MAX_SAFE_INTEGER },
    ]);
  });

  it('the pool replaces a connection that is terminated together with ReadyForQuery', async () => {
    let ended = 0;
    proxy.alterAnswers((bytes) => {
      if (ended === 3 || !bytes.subarray(-readyForQuery.length).equals(readyForQuery)) return bytes;
      ended += 1;
      return Buffer.concat([bytes, terminatedByAdministrator]);
    });
    const connections = open();
    expect(await connections.read('read', (tx) => tx.query(one, []))).toEqual([
      { n: Number.MAX_SAFE_INTEGER },
    ]);
    expect(ended).toBe(3);
  });

  it('the pool sets the timeouts and the application name of every connection', async () => {
    const settings: Statement = {
      name: 'settings',
      text: `SELECT current_setting('statement_timeout') AS statement,
        current_setting('idle_in_transaction_session_timeout') AS idle,
        current_setting('application_name') AS name`,
    };
    const expected = [{ statement: '2s', idle: '3s', name: 'shop' }];
    const options = {
      statementTimeoutMs: 2_000,
      idleInTransactionTimeoutMs: 3_000,
      applicationName: 'shop',
    };
    for (const prepare of [true, false]) {
      const connections = open({ ...options, prepare });
      const ask = (tx: Transaction) => tx.query(settings, []);
      expect(await connections.transaction('read', ask)).toEqual(expected);
      expect(await connections.pipeline('read', ask)).toEqual(expected);
      expect(await connections.read('read', ask)).toEqual(expected);
      expect(await connections.statement('read', settings, [])).toEqual(expected);
    }
  });

  it('the pool keeps its own settings next to the options of the URL', async () => {
    const url = new URL(proxy.url);
    url.searchParams.set('options', '-c work_mem=7MB');
    const settings: Statement = {
      name: 'settings',
      text: `SELECT current_setting('enable_seqscan') AS scans, current_setting('work_mem') AS memory`,
    };
    expect(await open({ url: url.href }).statement('read', settings, [])).toEqual([
      { scans: 'off', memory: '7MB' },
    ]);
  });

  it('the pool prepares statements unless prepare is false', async () => {
    const prepared: Statement = {
      name: 'prepared',
      text: 'SELECT count(*) AS count FROM pg_prepared_statements',
    };
    const ask = async (connections: Connections) => {
      const [row] = await connections.read('read', (tx) =>
        tx.query<{ count: number }>(prepared, []),
      );
      return row?.count;
    };
    expect(await ask(open())).toBe(1);
    expect(await ask(open({ prepare: false }))).toBe(0);
  });

  it('the pool prepares a statement again after its table changes', async () => {
    const connections = open({ poolSize: 1 });
    const all: Statement = { name: 'all', text: 'SELECT * FROM notes' };
    await connections.read('read', (tx) => tx.query(all, []));
    await runSql(
      database.url,
      `ALTER TABLE notes ADD COLUMN at int; INSERT INTO notes VALUES ('a', 1)`,
    );
    expect(await connections.read('read', (tx) => tx.query(all, []))).toEqual([
      { note: 'a', at: 1 },
    ]);
  });

  it('read() rejects with a retryable error when a statement exceeds statementTimeoutMs', async () => {
    const sleep: Statement = { name: 'sleep', text: 'SELECT pg_sleep(30)' };
    await expect(
      open({ statementTimeoutMs: 50 }).read('read', (tx) => tx.query(sleep, [])),
    ).rejects.toMatchObject({
      retryable: true,
      message: expect.stringContaining('statementTimeoutMs'),
    });
  });

  it('close() completes the running transaction and rejects later calls with CLOSED', async () => {
    const connections = open();
    let isClosing = (): void => undefined;
    const closing = new Promise<void>((resolve) => (isClosing = resolve));
    const writing = connections.transaction('write', async (tx) => {
      await tx.execute(insert, ['a']);
      isClosing();
      return tx.query<{ count: number }>(count, []);
    });
    await closing;
    const closed = connections.close();
    expect(await writing).toEqual([{ count: 1 }]);
    await closed;
    await connections.close();
    await expect(connections.read('read', () => Promise.resolve())).rejects.toMatchObject({
      code: 'CLOSED',
    });
    await vi.waitUntil(() => proxy.connections === 0, { timeout: 15_000 });
  });

  it('transaction() rejects as retryable on a read-only server and then reconnects', async () => {
    const connections = open({ retryMs: 0, poolSize: 1 });
    await connections.read('read', (tx) => tx.query(one, []));
    await runSql(
      database.url,
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$`,
    );
    proxy.cut();
    const write = () => connections.transaction('write', (tx) => tx.execute(insert, ['a']));
    await vi.waitFor(async () => {
      const error = await write().catch((error: unknown) => error);
      expect(error).toBeInstanceOf(ProviderError);
      expect(error).toMatchObject({ retryable: true, message: expect.stringContaining('primary') });
    });
    const url = new URL(database.url);
    url.searchParams.set('options', '-c default_transaction_read_only=off');
    await runSql(
      url.href,
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET default_transaction_read_only', current_database()); END $$`,
    );
    expect(await write()).toBe(1);
  });
});
