/**
 * Insert an order and start its run in one transaction of the application: both commit, or neither.
 * Needs PostgreSQL: `node examples/start-in-a-transaction.ts postgres://user:password@localhost/database`
 */
import { activity, orchestration, Perdure } from 'perdure';
import pg from 'pg';

const url = process.argv[2] ?? process.env['DATABASE_URL'];
if (url === undefined) throw new Error('Pass the URL of a PostgreSQL database.');

const ship = activity('ship', async (_ctx, item: string) => `${item} shipped`);

const order = orchestration('order', async (ctx, item: string) => {
  return await ctx.call(ship, item);
});

const perdure = await Perdure.open(url);
await perdure.startWorker({ orchestrations: [order], activities: [ship] });

const client = new pg.Client({ connectionString: url });
await client.connect();
await client.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, item text)');

/** Inserts an order and starts its run in one transaction; `fails` rolls both back. */
async function takeOrder(id: string, item: string, fails: boolean): Promise<void> {
  await client.query('BEGIN');
  try {
    await client.query('INSERT INTO orders VALUES ($1, $2) ON CONFLICT DO NOTHING', [id, item]);
    await perdure.client.withTransaction(client).start(order, item, { id });
    if (fails) throw new Error('the payment was declined');
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    console.log(`${id}: ${String(error)}`);
  }
}

await takeOrder('order-1', 'a book', false);
console.log(`order-1: ${await perdure.client.handle(order, 'order-1').result()}`);

await takeOrder('order-2', 'a lamp', true);
console.log(`order-2: ${(await perdure.client.get('order-2'))?.status ?? 'was never started'}`);

await client.end();
await perdure.close();

// Output:
// order-1: a book shipped
// order-2: Error: the payment was declined
// order-2: was never started
