import { sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { CamelCasePlugin, Kysely, PostgresDialect, sql as kyselySql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { orchestration, Perdure, task, type ApplicationTransaction } from '../../src/index.ts';
import { createDatabase, runSql, type TestDatabase } from './helpers/server.ts';

const hello = orchestration('hello', (_ctx, name: string) => Promise.resolve(`Hello, ${name}!`));
const job = task('job', (_ctx, n: number) => n);

let database: TestDatabase;
let perdure: Perdure;
let pool: pg.Pool;

beforeAll(async () => {
  database = await createDatabase();
  await runSql(database.url, 'CREATE TABLE orders (id text PRIMARY KEY)');
  perdure = await Perdure.open(database.url);
  await perdure.startWorker({ orchestrations: [hello], tasks: [job] });
  pool = new pg.Pool({ connectionString: database.url });
});

afterAll(async () => {
  await pool.end();
  await perdure.close();
  await database.drop();
});

type Work = (transaction: ApplicationTransaction, insert: () => Promise<unknown>) => Promise<void>;

const builders: Readonly<Record<string, (id: string, work: Work) => Promise<void>>> = {
  drizzle: (id, work) =>
    drizzle({ client: pool }).transaction(async (tx) =>
      work(tx, () => tx.execute(sql`INSERT INTO orders VALUES (${id})`)),
    ),
  'drizzle, nested': (id, work) =>
    drizzle({ client: pool }).transaction(async (tx) =>
      tx.transaction(async (inner) =>
        work(inner, () => inner.execute(sql`INSERT INTO orders VALUES (${id})`)),
      ),
    ),
  // The plugin would rename the columns of every result.
  kysely: (id, work) =>
    new Kysely({ dialect: new PostgresDialect({ pool }), plugins: [new CamelCasePlugin()] })
      .transaction()
      .execute(async (trx) =>
        work(trx, () => kyselySql`INSERT INTO orders VALUES (${id})`.execute(trx)),
      ),
};

describe.each(Object.entries(builders))(
  'withTransaction() with a transaction of %s',
  (name, transact) => {
    it('withTransaction() starts instances and tasks on commit', async () => {
      const id = `${name}-commits`;
      await transact(id, async (transaction, insert) => {
        await insert();
        const within = perdure.client.withTransaction(transaction);
        await within.start(hello, 'World', { id });
        await within.start(hello, 'World', { id });
        await within.runTask(job, 7, { id: `${id}-job` });
      });
      expect(await perdure.client.handle(hello, id).result()).toBe('Hello, World!');
      expect(await perdure.client.handle(job, `${id}-job`).result()).toBe(7);
      expect((await pool.query('SELECT FROM orders WHERE id = $1', [id])).rowCount).toBe(1);
    });

    it('withTransaction() starts nothing on rollback', async () => {
      const id = `${name}-rolls-back`;
      const undone = transact(id, async (transaction, insert) => {
        await insert();
        await perdure.client.withTransaction(transaction).start(hello, 'World', { id });
        throw new Error('no');
      });
      await expect(undone).rejects.toThrow('no');
      expect(await perdure.client.get(id)).toBeUndefined();
      expect((await pool.query('SELECT FROM orders WHERE id = $1', [id])).rowCount).toBe(0);
    });
  },
);

describe('withTransaction() without a transaction', () => {
  it.each<[string, () => unknown]>([
    ['a Drizzle database', () => drizzle({ client: pool })],
    ['a Kysely database', () => new Kysely({ dialect: new PostgresDialect({ pool }) })],
    ['a pool', () => pool],
    ['an unrelated object', () => ({ _: { session: { client: {} } } })],
    ['undefined', () => undefined],
  ])('withTransaction() of %s rejects with INVALID_INPUT', async (_, make) => {
    const call = async () =>
      perdure.client.withTransaction(make() as ApplicationTransaction).start(hello, 'x');
    await expect(call()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });
});
