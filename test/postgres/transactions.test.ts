import pg from 'pg';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  it,
  onTestFinished,
} from 'vitest';
import { flow } from '../../src/flows.ts';
import { activity, orchestration, Perdure, task } from '../../src/index.ts';
import { createDatabase, runSql, type TestDatabase } from './helpers/server.ts';

const approve = orchestration('approve', (ctx, order: number) =>
  ctx.waitFor('approved').then((by) => `${order} by ${String(by)}`),
);
const double = activity('double', async (_ctx, n: number) => 2 * n);
const bill = orchestration('bill', (ctx, n: number) => ctx.call(double, n));

let database: TestDatabase;
let perdure: Perdure;
let client: pg.Client;

beforeAll(async () => {
  database = await createDatabase();
  await runSql(database.url, 'CREATE TABLE orders (id int PRIMARY KEY)');
});

afterAll(() => database.drop());

beforeEach(async () => {
  // Polling is too slow for the test, so the commit must notify the worker.
  perdure = await Perdure.open(database.url, { pollInterval: '1h' });
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});

afterEach(async () => {
  await client.end();
  await perdure.close();
});

async function startWorker(): Promise<void> {
  await perdure.startWorker({ orchestrations: [approve, bill], activities: [double] });
}

describe('client.withTransaction()', () => {
  it('start() in a transaction takes effect on commit and not before', async () => {
    await startWorker();
    await client.query('BEGIN');
    await client.query('INSERT INTO orders VALUES (1)');
    const handle = await perdure.client.withTransaction(client).start(bill, 21, { id: 'bill-1' });
    expect(await perdure.client.get('bill-1')).toBeUndefined();
    await client.query('COMMIT');
    expect(await handle.result({ timeout: '10s' })).toBe(42);
  });

  it('a rollback discards the start, event and cancel of its transaction', async () => {
    await startWorker();
    const running = await perdure.client.start(approve, 7);
    await client.query('BEGIN');
    const transaction = perdure.client.withTransaction(client);
    await transaction.start(bill, 1, { id: 'never' });
    await transaction.raiseEvent(running.id, 'approved', 'nobody');
    expect(await transaction.cancel(running.id)).toMatchObject({ found: true, changed: true });
    await client.query('ROLLBACK');
    expect(await perdure.client.get('never')).toBeUndefined();
    expect(await running.status()).toMatchObject({ status: 'running' });
    await running.raiseEvent('approved', 'somebody');
    expect(await running.result({ timeout: '10s' })).toBe('7 by somebody');
  });

  it('runTask() and runTasks() in a transaction take effect only on commit', async () => {
    const triple = task('triple', (_ctx, n: number) => 3 * n);
    await perdure.startWorker({ tasks: [triple] });
    for (const end of ['ROLLBACK', 'COMMIT']) {
      await client.query('BEGIN');
      const transaction = perdure.client.withTransaction(client);
      const one = await transaction.runTask(triple, 1, { id: 'one', dedupeKey: 'k' });
      const again = await transaction.runTask(triple, 1, { dedupeKey: 'k' });
      expect([one.created, again.created, again.id]).toEqual([true, false, 'one']);
      const many = await transaction.runTasks([
        { task: triple, input: 2, options: { id: 'two' } },
        { task: triple, input: 3, options: { id: 'three' } },
      ]);
      expect(await perdure.client.get('one')).toBeUndefined();
      await client.query(end);
      if (end === 'ROLLBACK') expect(await perdure.client.get('two')).toBeUndefined();
      else {
        const results = [one, again, ...many].map((handle) => handle.result({ timeout: '10s' }));
        expect(await Promise.all(results)).toEqual([3, 3, 6, 9]);
      }
    }
  });

  it('runFlow() in a transaction takes effect only on commit', async () => {
    const sum = flow('sum')
      .input<readonly number[]>()
      .map('twice', { over: ({ input }) => input }, (_ctx, n) => 2 * n)
      .output();
    await perdure.startWorker({ flows: [sum] });
    for (const end of ['ROLLBACK', 'COMMIT']) {
      await client.query('BEGIN');
      const transaction = perdure.client.withTransaction(client);
      const run = await transaction.runFlow(sum, [1, 2], { id: 'sum' });
      expect(await perdure.client.get('sum')).toBeUndefined();
      await client.query(end);
      if (end === 'ROLLBACK') expect(await perdure.client.get('sum')).toBeUndefined();
      else expect(await run.result({ timeout: '10s' })).toEqual([2, 4]);
    }
  });

  it('start() of a new orchestration name succeeds after a rollback', async () => {
    for (const end of ['ROLLBACK', 'COMMIT']) {
      await client.query('BEGIN');
      await perdure.client.withTransaction(client).start('brand-new', 1, { id: 'fresh' });
      await client.query(end);
      expect((await perdure.client.get('fresh'))?.name).toBe(
        end === 'COMMIT' ? 'brand-new' : undefined,
      );
    }
    await perdure.client.terminate('fresh');
  });

  it('raiseEvent() and cancel() in a transaction take effect on commit', async () => {
    await startWorker();
    const [signalled, stopped] = [
      await perdure.client.start(approve, 1),
      await perdure.client.start(approve, 2),
    ];
    await client.query('BEGIN');
    const transaction = perdure.client.withTransaction(client);
    await transaction.raiseEvent(signalled.id, 'approved', 'Ada');
    await transaction.cancel(stopped.id, { reason: 'out of stock' });
    await client.query('COMMIT');
    expect(await signalled.result({ timeout: '10s' })).toBe('1 by Ada');
    expect(await perdure.client.wait(stopped.id, { timeout: '10s' })).toMatchObject({
      status: 'canceled',
    });
  });

  it('start() in a transaction accepts a repeated start and rejects a conflicting one', async () => {
    await client.query('BEGIN');
    const transaction = perdure.client.withTransaction(client);
    const first = await transaction.start('same', 1, { id: 'twice' });
    const second = await transaction.start('same', 1, { id: 'twice' });
    expect(second.id).toBe(first.id);
    await expect(transaction.start('same', 2, { id: 'twice' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
    // The transaction is still usable.
    await client.query('INSERT INTO orders VALUES (2)');
    await client.query('ROLLBACK');
  });

  it('cancel() and raiseEvent() in a transaction report an unknown id', async () => {
    await client.query('BEGIN');
    const transaction = perdure.client.withTransaction(client);
    expect(await transaction.cancel('nobody')).toMatchObject({ found: false });
    await expect(transaction.raiseEvent('nobody', 'approved')).rejects.toMatchObject({
      code: 'INSTANCE_NOT_FOUND',
    });
    await client.query('ROLLBACK');
  });

  it('withTransaction() without BEGIN, or on a pool, rejects and writes nothing', async () => {
    const running = await perdure.client.start(approve, 8);
    const outside = perdure.client.withTransaction(client);
    const pool = new pg.Pool({ connectionString: database.url });
    onTestFinished(() => pool.end());
    for (const write of [
      () => outside.start(bill, 1, { id: 'outside' }),
      () => outside.runTask('unknown', 1, { id: 'outside' }),
      () => outside.raiseEvent(running.id, 'approved', 'nobody'),
      () => outside.cancel(running.id),
      async () => perdure.client.withTransaction(pool).start(bill, 1, { id: 'outside' }),
    ]) {
      await expect(write()).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('BEGIN'),
      });
    }
    expect(await perdure.client.get('outside')).toBeUndefined();
    expect(await running.status()).toMatchObject({ status: 'pending' });
    await perdure.client.terminate(running.id);
  });

  it('concurrent start() calls in one transaction all succeed', async () => {
    await startWorker();
    await client.query('BEGIN');
    const transaction = perdure.client.withTransaction(client);
    const handles = await Promise.all([1, 2, 3, 4].map((n) => transaction.start(bill, n)));
    await client.query('COMMIT');
    expect(await Promise.all(handles.map((handle) => handle.result({ timeout: '10s' })))).toEqual([
      2, 4, 6, 8,
    ]);
  });
});

it('withTransaction() on an SQLite store throws INVALID_INPUT', async () => {
  const file = await Perdure.open(':memory:');
  onTestFinished(() => file.close());
  expect(() => file.client.withTransaction(client)).toThrow(
    expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining('sqlite') }),
  );
});

it.each([undefined, null, {}, 'BEGIN'])(
  'withTransaction(%j) throws INVALID_INPUT',
  (connection) => {
    expect(() => perdure.client.withTransaction(connection as pg.Client)).toThrow(
      expect.objectContaining({ code: 'INVALID_INPUT' }),
    );
  },
);
