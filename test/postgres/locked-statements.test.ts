import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Connections, type Statement } from '../../src/providers/postgres/driver/connection.ts';
import {
  resolveOptions,
  type PostgresOptions,
} from '../../src/providers/postgres/driver/options.ts';
import { watchStatements } from './helpers/statement-log.ts';
import { createDatabase, querySql, runSql, type TestDatabase } from './helpers/server.ts';
import { startTcpProxy, type TcpProxy } from './helpers/tcp-proxy.ts';

const lock: Statement = {
  name: 'lock',
  text: 'SELECT id, note FROM notes WHERE id = ANY ($1::int[]) ORDER BY id FOR UPDATE',
};
const write: Statement = {
  name: 'write',
  text: `WITH changed AS (UPDATE notes SET note = note || $1 WHERE id = 1 RETURNING note)
    SELECT note, (SELECT note FROM notes WHERE id = 2) AS other, 1 / $2::int AS divided FROM changed`,
};

interface Written {
  readonly note: string;
  readonly other: string;
}

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
  await runSql(
    database.url,
    `DROP TABLE IF EXISTS notes; CREATE TABLE notes (id int PRIMARY KEY, note text);
     INSERT INTO notes VALUES (1, 'a'), (2, 'b')`,
  );
});

afterEach(async () => {
  await Promise.all(opened.map((connections) => connections.close()));
});

/** Connections whose only client has prepared both statements. */
async function openPrepared(options: Partial<PostgresOptions> = {}): Promise<Connections> {
  const { connection } = resolveOptions({ url: proxy.url, poolSize: 1, ...options });
  const connections = new Connections(connection);
  opened.push(connections);
  expect(await send(connections, '1')).toMatchObject([{ note: 'a1', other: 'b' }]);
  return connections;
}

function send(connections: Connections, text: string, divisor = 1): Promise<readonly Written[]> {
  return connections.lockedStatement<Written>('ackTurns', [lock, ['{1,2}']], {
    statement: write,
    encode: () => [text, divisor],
  });
}

function note(): Promise<readonly object[]> {
  return querySql(database.url, 'SELECT note FROM notes WHERE id = 1');
}

it('returns the rows of the second statement only, in one message', async () => {
  const connections = await openPrepared();
  const sent = watchStatements();
  expect(await send(connections, '2')).toMatchObject([{ note: 'a12', other: 'b' }]);
  expect(sent().map(({ name }) => name)).toEqual(['write']);
  expect(await send(connections, '3')).toMatchObject([{ note: 'a123' }]);
});

it('an error of the second statement rolls everything back, and the connection stays in use', async () => {
  const connections = await openPrepared();
  await expect(send(connections, '2', 0)).rejects.toThrow(/division by zero/);
  expect(await note()).toEqual([{ note: 'a1' }]);
  expect(await send(connections, '3')).toMatchObject([{ note: 'a13' }]);
});

it('values that cannot be encoded release the locks, and the connection stays in use', async () => {
  const connections = await openPrepared();
  const failing = {
    statement: write,
    encode: (): never => {
      throw new Error('no encoding');
    },
  };
  const sent = connections.lockedStatement('ackTurns', [lock, ['{1,2}']], failing);
  await expect(sent).rejects.toThrow(/no encoding/);
  await runSql(database.url, `SET lock_timeout = 1; UPDATE notes SET note = 'c' WHERE id = 1`);
  expect(await send(connections, '3')).toMatchObject([{ note: 'c3', other: 'b' }]);
});

it('a statement that was described before returns the same columns', async () => {
  const connections = await openPrepared();
  const [described] = await send(connections, '2');
  const [remembered] = await send(connections, '3');
  expect(described).toEqual({ note: 'a12', other: 'b', divided: 1 });
  expect(remembered).toEqual({ note: 'a123', other: 'b', divided: 1 });
});

it('the second statement sees what was committed while the first one waited', async () => {
  const connections = await openPrepared();
  const { connection } = resolveOptions({ url: database.url });
  const other = new Connections(connection);
  opened.push(other);
  const locked = Promise.withResolvers<void>();
  const mayCommit = Promise.withResolvers<void>();
  const change: Statement = { name: 'change', text: `UPDATE notes SET note = note || 'x'` };
  const changing = other.transaction('test', async (tx) => {
    await tx.execute(change, []);
    locked.resolve();
    await mayCommit.promise;
  });
  await locked.promise;
  const waiting = send(connections, '2');
  const waits = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
  await expect.poll(() => querySql(database.url, waits)).toHaveLength(1);
  mayCommit.resolve();
  await changing;
  expect(await waiting).toMatchObject([{ note: 'a1x2', other: 'bx' }]);
});

it('a connection that is lost leaves the outcome unknown, and nothing is repeated', async () => {
  const connections = await openPrepared();
  proxy.intercept((bytes) => (bytes.includes('write') ? 'cutAnswer' : 'pass'));
  await expect(send(connections, '2')).rejects.toMatchObject({ outcomeUnknown: true });
  await expect.poll(note).toEqual([{ note: 'a12' }]);
});

it('without prepared statements, BEGIN and COMMIT are sent', async () => {
  const connections = await openPrepared({ prepare: false });
  const sent = watchStatements();
  expect(await send(connections, '2')).toMatchObject([{ note: 'a12' }]);
  const [begin, , , commit] = sent();
  expect([begin?.text, commit?.text]).toEqual([expect.stringMatching(/^BEGIN/), 'COMMIT']);
});
