import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { orchestration, Perdure, task } from 'perdure';
import type { PostgresTransaction } from 'perdure/postgres';
import { createDatabase, runSql, type TestDatabase } from '../postgres/helpers/server.ts';
import { prismaOn } from './prisma/prisma-on.ts';

const order = orchestration('order', (ctx, id: string) =>
  ctx.transaction('insert', async (tx: PostgresTransaction) => {
    const prisma = prismaOn(tx);
    const created = await prisma.order.create({ data: { id, item: 'tea' } });
    // Several statements of Prisma are a savepoint.
    await prisma.$transaction([
      prisma.order.update({ where: { id }, data: { item: 'green tea' } }),
      prisma.order.create({ data: { id: `${id}-b`, item: 'milk' } }),
    ]);
    return created.item;
  }),
);
const failing = task('failing', (ctx, id: string) =>
  ctx.transaction(async (tx: PostgresTransaction) => {
    await prismaOn(tx).order.create({ data: { id, item: 'tea' } });
    throw new Error('sold out');
  }),
);
const keeping = task('keeping', (ctx, id: string) =>
  ctx.transaction(async (tx: PostgresTransaction) => {
    const prisma = prismaOn(tx);
    const { order: orders } = prisma;
    await orders.create({ data: { id, item: 'tea' } });
    const twice = prisma.$transaction([
      orders.create({ data: { id: `${id}-b`, item: 'milk' } }),
      orders.create({ data: { id, item: 'again' } }),
    ]);
    return twice.catch((error: unknown) => (error as { readonly code?: string }).code);
  }),
);

let database: TestDatabase;
let perdure: Perdure;
let pool: pg.Pool;

beforeAll(async () => {
  database = await createDatabase();
  await runSql(database.url, 'CREATE TABLE orders (id text PRIMARY KEY, item text NOT NULL)');
  perdure = await Perdure.open(database.url);
  await perdure.startWorker({ orchestrations: [order], tasks: [failing, keeping] });
  pool = new pg.Pool({ connectionString: database.url });
});

afterAll(async () => {
  await pool.end();
  await perdure.close();
  await database.drop();
});

const readOrders = async (id: string) =>
  (await pool.query('SELECT id, item FROM orders WHERE id LIKE $1 ORDER BY id', [`${id}%`])).rows;

it('Prisma: models write in ctx.transaction, with their own transactions as savepoints', async () => {
  expect(await (await perdure.client.start(order, 'a')).result()).toBe('tea');
  expect(await readOrders('a')).toEqual([
    { id: 'a', item: 'green tea' },
    { id: 'a-b', item: 'milk' },
  ]);
});

it('Prisma: an error of the closure rolls its writes back', async () => {
  const run = await perdure.client.runTask(failing, 'b');
  await expect(run.result()).rejects.toThrow('sold out');
  expect(await readOrders('b')).toEqual([]);
});

it('Prisma: a failed transaction of Prisma rolls back to its savepoint only', async () => {
  expect(await (await perdure.client.runTask(keeping, 'c')).result()).toBe('P2002');
  expect(await readOrders('c')).toEqual([{ id: 'c', item: 'tea' }]);
});

it.each(['COMMIT', 'ROLLBACK'])(
  'Prisma: a start in a transaction with models follows its %s',
  async (end) => {
    const id = `d-${end}`;
    const connection = await pool.connect();
    await connection.query('BEGIN');
    await prismaOn(connection).order.create({ data: { id: `row-${end}`, item: 'tea' } });
    await perdure.client.withTransaction(connection).start(order, id, { id });
    await connection.query(end);
    connection.release();
    const isCommitted = end === 'COMMIT';
    expect(await readOrders(`row-${end}`)).toHaveLength(isCommitted ? 1 : 0);
    expect((await perdure.client.get(id)) !== undefined).toBe(isCommitted);
  },
);
