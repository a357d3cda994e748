/**
 * Insert an order and start its run in one kysely transaction: both commit, or neither.
 * Needs PostgreSQL: `node examples/start-with-kysely.ts postgres://user:password@localhost/database`
 */
import { Kysely, PostgresDialect } from 'kysely';
import { activity, orchestration, Perdure } from 'perdure';
import pg from 'pg';

const url = process.argv[2] ?? process.env['DATABASE_URL'];
if (url === undefined) throw new Error('Pass the URL of a PostgreSQL database.');

interface Tables {
  readonly orders: { readonly id: string; readonly item: string };
}

const ship = activity('ship', async (_ctx, item: string) => `${item} shipped`);

const order = orchestration('order', async (ctx, item: string) => {
  return await ctx.call(ship, item);
});

const perdure = await Perdure.open(url);
await perdure.startWorker({ orchestrations: [order], activities: [ship] });

const pool = new pg.Pool({ connectionString: url });
const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
await db.schema
  .createTable('orders')
  .ifNotExists()
  .addColumn('id', 'text', (column) => column.primaryKey())
  .addColumn('item', 'text', (column) => column.notNull())
  .execute();

/** Inserts an order and starts its run in one transaction; `fails` rolls both back. */
async function takeOrder(id: string, item: string, fails: boolean): Promise<void> {
  try {
    await db.transaction().execute(async (trx) => {
      await trx
        .insertInto('orders')
        .values({ id, item })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      await perdure.client.withTransaction(trx).start(order, item, { id });
      if (fails) throw new Error('the payment was declined');
    });
  } catch (error) {
    console.log(`${id}: ${String(error)}`);
  }
}

await takeOrder('order-1', 'a book', false);
console.log(`order-1: ${await perdure.client.handle(order, 'order-1').result()}`);

await takeOrder('order-2', 'a lamp', true);
const kept = await db.selectFrom('orders').selectAll().where('id', '=', 'order-2').execute();
console.log(`order-2: ${kept.length} rows`);
console.log(`order-2: ${(await perdure.client.get('order-2'))?.status ?? 'was never started'}`);

await db.destroy();
await perdure.close();

// Output:
// order-1: a book shipped
// order-2: Error: the payment was declined
// order-2: 0 rows
// order-2: was never started
