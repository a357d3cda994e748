import { drizzle } from 'drizzle-orm/node-postgres';
import { sql as drizzleSql } from 'drizzle-orm';
import { Kysely, PostgresDialect, sql as kyselySql } from 'kysely';
import pg from 'pg';
import { setTimeout as delay } from 'node:timers/promises';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, task, type StoreTransaction } from '../../src/index.ts';
import type { PostgresTransaction } from '../../src/providers/postgres/driver/guarded-client.ts';
import type { PostgresOptions } from '../../src/providers/postgres/driver/options.ts';
import { openPostgres } from '../../src/providers/postgres/provider.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { createDatabase, querySql, runSql, type TestDatabase } from './helpers/server.ts';
import { startTcpProxy } from './helpers/tcp-proxy.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';

let database: TestDatabase;

beforeEach(async () => {
  database = await createDatabase();
  onTestFinished(() => database.drop());
  await runSql(database.url, 'CREATE TABLE notes (note text)');
});

async function openStore(options: Partial<PostgresOptions> = {}): Promise<Provider> {
  const provider = await openPostgres({ url: database.url, poolSize: 2, ...options });
  onTestFinished(() => provider.close());
  return provider;
}

/** Claims one new task run. */
async function claim(provider: Provider, id = 'a'): Promise<string> {
  await provider.createTasks([newTask(id)]);
  const [item] = await provider.fetchWorkItems({ max: 1, lockMs: 60_000, waitMs: 5_000 });
  if (item === undefined) throw new Error('Nothing was claimed.');
  return item.lockToken;
}

async function transact(
  provider: Provider,
  lockToken: string,
  write: (tx: PostgresTransaction) => Promise<unknown>,
) {
  const outcome = { kind: 'completed', payload: '1' } as const;
  return provider.transact?.({
    write: async (tx) => {
      await write(tx as PostgresTransaction);
      return { kind: 'workItem', ack: { instanceId: 'a', lockToken, outcome } };
    },
  });
}

const insert = (tx: StoreTransaction, note: string) =>
  tx.query('INSERT INTO notes VALUES ($1)', [note]);

async function notes(): Promise<readonly string[]> {
  const rows = await querySql<{ note: string }>(database.url, 'SELECT note FROM notes ORDER BY 1');
  return rows.map(({ note }) => note);
}

async function statusOf(provider: Provider, id = 'a'): Promise<string | undefined> {
  return (await provider.getInstances([id]))[0]?.status;
}

describe('transactions of the application on PostgreSQL', () => {
  it('a COMMIT whose response is lost counts once, and the closure does not run again', async () => {
    const proxy = await startTcpProxy(database.url);
    const provider = await openStore({ url: proxy.url, listen: false });
    onTestFinished(() => proxy.close());
    const lockToken = await claim(provider);
    let runs = 0;
    const result = await transact(provider, lockToken, async (tx) => {
      runs += 1;
      await insert(tx, `run ${runs}`);
      let isFirst = true;
      proxy.intercept((bytes) => {
        if (!isFirst || !bytes.includes('COMMIT\0')) return 'pass';
        isFirst = false;
        return 'cutAnswer';
      });
    });
    expect(result).toMatchObject({ ok: true, ended: 'completed' });
    expect([runs, await notes(), await statusOf(provider)]).toEqual([1, ['run 1'], 'completed']);
  });

  it('a COMMIT that never reached the server is rolled back, and the closure runs again', async () => {
    const proxy = await startTcpProxy(database.url);
    const provider = await openStore({ url: proxy.url, listen: false });
    onTestFinished(() => proxy.close());
    const lockToken = await claim(provider);
    let runs = 0;
    const result = await transact(provider, lockToken, async (tx) => {
      runs += 1;
      await insert(tx, `run ${runs}`);
      proxy.intercept((bytes) => (runs === 1 && bytes.includes('COMMIT\0') ? 'cut' : 'pass'));
    });
    expect(result).toMatchObject({ ok: true });
    expect([runs, await notes(), await statusOf(provider)]).toEqual([2, ['run 2'], 'completed']);
  });

  it('a connection that is lost in the closure makes it run again', async () => {
    const provider = await openStore();
    const lockToken = await claim(provider);
    let runs = 0;
    await transact(provider, lockToken, async (tx) => {
      runs += 1;
      await insert(tx, `run ${runs}`);
      if (runs === 1) await tx.query('SELECT pg_terminate_backend(pg_backend_pid())');
    });
    expect([runs, await notes()]).toEqual([2, ['run 2']]);
  });

  it('a deadlock is retried', async () => {
    const provider = await openStore();
    await runSql(database.url, `INSERT INTO notes VALUES ('x'), ('y')`);
    const first = await claim(provider, 'a');
    const second = await claim(provider, 'b');
    let runs = 0;
    let locked = 0;
    const both = Promise.withResolvers<void>();
    const update = (from: string, to: string) => async (tx: StoreTransaction) => {
      runs += 1;
      await tx.query(`UPDATE notes SET note = note WHERE note = $1`, [from]);
      locked += 1;
      if (locked === 2) both.resolve();
      await both.promise;
      await tx.query(`UPDATE notes SET note = note WHERE note = $1`, [to]);
    };
    const results = await Promise.all([
      transact(provider, first, update('x', 'y')),
      transact(provider, second, update('y', 'x')),
    ]);
    expect(results).toMatchObject([{ ok: true }, { ok: true }]);
    expect(runs).toBe(3);
  });

  it('a serializable transaction that conflicts is retried', async () => {
    const provider = await openStore();
    await runSql(database.url, `INSERT INTO notes VALUES ('0')`);
    const lockToken = await claim(provider);
    let runs = 0;
    await transact(provider, lockToken, async (tx) => {
      runs += 1;
      await tx.query('SET TRANSACTION ISOLATION LEVEL SERIALIZABLE');
      const { rows } = await tx.query<{ note: string }>('SELECT note FROM notes');
      if (runs === 1) await runSql(database.url, `UPDATE notes SET note = '5'`);
      await tx.query('UPDATE notes SET note = $1', [String(Number(rows[0]?.note) + 1)]);
    });
    expect([runs, await notes()]).toEqual([2, ['6']]);
  });

  it('closures have the settings of the application, and do not leave theirs to the next one', async () => {
    const provider = await openStore({ transactionPoolSize: 1 });
    const settings = `SELECT current_setting('search_path') AS path, current_setting('enable_seqscan') AS scan, current_user AS role`;
    const seen: unknown[] = [];
    const [before] = await querySql<object>(database.url, settings);
    for (const id of ['a', 'b']) {
      await transact(provider, await claim(provider, id), async (tx) => {
        seen.push((await tx.query(settings)).rows[0]);
        await tx.query('SET search_path = pg_catalog');
        await tx.query('SET enable_seqscan = off');
        await tx.query('SET ROLE pg_read_all_data');
      });
    }
    expect(seen).toEqual([before, before]);
    expect(await statusOf(provider, 'b')).toBe('completed');
  });

  it('a statement that failed and was caught rolls back with TRANSACTION_ABORTED', async () => {
    const provider = await openStore();
    const lockToken = await claim(provider);
    const aborted = transact(provider, lockToken, async (tx) => {
      await insert(tx, 'one');
      await tx.query('SELECT 1 / 0').catch(() => undefined);
    });
    await expect(aborted).rejects.toMatchObject({
      code: 'TRANSACTION_ABORTED',
      cause: expect.objectContaining({ code: '22012' }) as unknown,
    });
    expect([await notes(), await statusOf(provider)]).toEqual([[], 'running']);
  });

  it('several statements in one text, COMMIT in a query object and end() are rejected', async () => {
    const provider = await openStore();
    const lockToken = await claim(provider);
    const errors: unknown[] = [];
    const result = await transact(provider, lockToken, async (tx) => {
      await tx.query('SAVEPOINT before');
      const codeOf = (error: unknown) => errors.push((error as { readonly code?: unknown }).code);
      await tx.query(`INSERT INTO notes VALUES ('hidden'); COMMIT`).catch(codeOf);
      await tx.query('ROLLBACK TO before');
      await tx.query({ text: '-- x\nCOMMIT' }).catch(codeOf);
      await tx.query('PREPARE TRANSACTION $1', ['x']).catch(codeOf);
      await (tx as unknown as pg.Client).end().catch(codeOf);
      await insert(tx, 'one');
    });
    expect(errors).toEqual([
      '42601',
      'TRANSACTION_STATEMENT',
      'TRANSACTION_STATEMENT',
      'TRANSACTION_CLOSED',
    ]);
    expect([result?.ok, await notes()]).toEqual([true, ['one']]);
  });

  it('a COMMIT that a driver object hides is detected before the ack', async () => {
    const provider = await openStore();
    const lockToken = await claim(provider);
    const ended = transact(provider, lockToken, async (tx) => {
      const done = Promise.withResolvers<void>();
      const hidden = new pg.Query('SELECT 1; COMMIT; BEGIN', () => done.resolve());
      tx.query(hidden);
      await done.promise;
    });
    await expect(ended).rejects.toMatchObject({ code: 'TRANSACTION_CLOSED' });
    expect(await statusOf(provider)).toBe('running');
  });

  it('drizzle and kysely work with tx, and a nested transaction of theirs is rejected', async () => {
    const provider = await openStore();
    const lockToken = await claim(provider);
    await transact(provider, lockToken, async (tx) => {
      const orm = drizzle({ client: tx });
      await orm.execute(drizzleSql`INSERT INTO notes VALUES (${'drizzle'})`);
      const db = new Kysely<object>({
        dialect: new PostgresDialect({
          pool: { connect: async () => tx, end: async () => undefined } as never,
        }),
      });
      await kyselySql`INSERT INTO notes VALUES (${'kysely'})`.execute(db);
      await expect(db.transaction().execute(async () => 1)).rejects.toMatchObject({
        code: 'TRANSACTION_STATEMENT',
      });
    });
    expect(await notes()).toEqual(['drizzle', 'kysely']);
  });

  it('starts within tx commit with it, through client.withTransaction()', async () => {
    const child = task('child', async () => 'done');
    const parent = task('parent', (ctx, fails: boolean) =>
      ctx.transaction(async (tx) => {
        await perdure.client.withTransaction(tx as PostgresTransaction).runTask(child, undefined, {
          id: `child ${fails}`,
        });
        if (fails) throw new Error('no');
        return 1;
      }),
    );
    await using perdure: Perdure = await Perdure.open(database.url);
    await perdure.startWorker({ tasks: [child, parent] });
    await (await perdure.client.runTask(parent, false)).result();
    await expect((await perdure.client.runTask(parent, true)).result()).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
    });
    expect(await perdure.client.get('child true')).toBeUndefined();
    expect(await perdure.client.handle('child false').result()).toBe('done');
  });

  it('closures wait for a connection in order, and the store works meanwhile', async () => {
    const provider = await openStore({ transactionPoolSize: 1, poolSize: 1 });
    const ids = ['a', 'b', 'c'];
    const tokens: string[] = [];
    for (const id of ids) tokens.push(await claim(provider, id));
    const order: string[] = [];
    await Promise.all(
      ids.map((id, index) =>
        transact(provider, tokens[index] ?? '', async (tx) => {
          order.push(id);
          await insert(tx, id);
          await delay(10);
          expect(await statusOf(provider, id)).toBe('running');
        }),
      ),
    );
    expect(order).toEqual(ids);
    expect(await notes()).toEqual(ids);
  });
});
