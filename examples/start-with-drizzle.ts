/**
 * Insert an order and start its run in one drizzle transaction: both commit, or neither.
 * Needs PostgreSQL: `node examples/start-with-drizzle.ts postgres://user:password@localhost/database`
 */
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { pgTable, text } from 'drizzle-orm/pg-core';
import { activity, orchestration, Perdure } from 'perdure';
import pg from 'pg';

const url = process.argv[2] ?? process.env['DATABASE_URL'];
if (url === undefined) throw new Error('Pass the URL of a PostgreSQL database.');

const orders = pgTable('orders', { id: text().primaryKey(), item: text().notNull() });

const ship = activity('ship', async (_ctx, item: string) => `${item} shipped`);

const order = orchestration('order', async (ctx, item: string) => {
  return await ctx.call(ship, item);
});

const perdure = await Perdure.open(url);
await perdure.startWorker({ orchestrations: [order], activities: [ship] });

const pool = new pg.Pool({ connectionString: url });
const db = drizzle({ client: pool });
await pool.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, item text NOT NULL)');

/** Inserts an order and starts its run in one transaction; `fails` rolls both back. */
async function takeOrder(id: string, item: string, fails: boolean): Promise<void> {
  try {
    await db.transaction(async (tx) => {
      await tx.insert(orders).values({ id, item }).onConflictDoNothing();
      await perdure.client.withTransaction(tx).start(order, item, { id });
      if (fails) throw new Error('the payment was declined');
    });
  } catch (error) {
    console.log(`${id}: ${String(error)}`);
  }
}

await takeOrder('order-1', 'a book', false);
console.log(`order-1: ${await perdure.client.handle(order, 'order-1').result()}`);

await takeOrder('order-2', 'a lamp', true);
console.log(`order-2: ${await db.$count(orders, eq(orders.id, 'order-2'))} rows`);
console.log(`order-2: ${(await perdure.client.get('order-2'))?.status ?? 'was never started'}`);

await pool.end();
await perdure.close();

// Output:
// order-1: a book shipped
// order-2: Error: the payment was declined
// order-2: 0 rows
// order-2: was never started
