/** Transactions of `pg`, drizzle and kysely are accepted. `tsc` is the test; nothing here runs. */
import type { NodePgDatabase } from 'drizzle-orm/node-postgres';
import type { Kysely } from 'kysely';
import { orchestration, type Perdure, type StartedHandle } from 'perdure';
import type pg from 'pg';
import { exactly } from './exactly.ts';

declare const perdure: Perdure;
declare const pool: pg.Pool;
declare const drizzle: NodePgDatabase;
declare const kysely: Kysely<{ orders: { id: string } }>;
const { client } = perdure;

const order = orchestration('order', async (_ctx, item: string) => item.length);

const connection = await pool.connect();
exactly<Promise<StartedHandle<number>>>()(client.withTransaction(connection).start(order, 'a'));
await drizzle.transaction(async (tx) => {
  exactly<Promise<StartedHandle<number>>>()(client.withTransaction(tx).start(order, 'a'));
  await tx.transaction(async (nested) => {
    await client.withTransaction(nested).start(order, 'a');
  });
});
await kysely.transaction().execute(async (trx) => {
  exactly<Promise<StartedHandle<number>>>()(client.withTransaction(trx).start(order, 'a'));
});
await client.withTransaction(await kysely.startTransaction().execute()).start(order, 'a');

// @ts-expect-error a database is no transaction
client.withTransaction(kysely);
// @ts-expect-error text is no transaction
client.withTransaction('BEGIN');
