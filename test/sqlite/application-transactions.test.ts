import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { drizzle } from 'drizzle-orm/better-sqlite3';
import { sql as drizzleSql } from 'drizzle-orm';
import { Kysely, SqliteDialect, sql as kyselySql } from 'kysely';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure, task } from '../../src/index.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { SqliteTransaction } from '../../src/providers/sqlite/driver/sqlite-transaction.ts';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';

async function openFile(): Promise<{ path: string; provider: Provider; db: Database.Database }> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-transactions-'));
  const path = join(folder, 'store.db');
  const provider = await openSqlite({ path });
  const db = new Database(path, { timeout: 2_000 });
  db.exec('CREATE TABLE notes (note text UNIQUE)');
  onTestFinished(async () => {
    db.close();
    await provider.close();
    await rm(folder, { recursive: true, force: true });
  });
  return { path, provider, db };
}

async function claim(provider: Provider, id = 'a'): Promise<string> {
  await provider.createTasks([newTask(id)]);
  const [item] = await provider.fetchWorkItems({ max: 1, lockMs: 60_000, waitMs: 5_000 });
  if (item === undefined) throw new Error('Nothing was claimed.');
  return item.lockToken;
}

async function transact(
  provider: Provider,
  lockToken: string,
  write: (tx: SqliteTransaction) => unknown,
) {
  const outcome = { kind: 'completed', payload: '1' } as const;
  return provider.transact?.({
    write: async (tx) => {
      await write(tx as SqliteTransaction);
      return { kind: 'workItem', ack: { instanceId: 'a', lockToken, outcome } };
    },
  });
}

function notes(db: Database.Database): unknown[] {
  return db.prepare('SELECT note FROM notes ORDER BY note').pluck().all();
}

function codeOf(call: () => unknown): unknown {
  try {
    call();
    return 'returned';
  } catch (error) {
    return (error as { readonly code?: unknown }).code;
  }
}

describe('transactions of the application on SQLite', () => {
  it('prepare, exec and query write to the file of the store', async () => {
    const { provider, db } = await openFile();
    await transact(provider, await claim(provider), async (tx) => {
      expect(tx.prepare('INSERT INTO notes VALUES (?)').run('one').changes).toBe(1);
      tx.exec(`INSERT INTO notes VALUES ('two'); INSERT INTO notes VALUES ('th;ree')`);
      const { rows } = await tx.query('SELECT note FROM notes WHERE note <> $1 ORDER BY 1', ['x']);
      expect(rows).toEqual([{ note: 'one' }, { note: 'th;ree' }, { note: 'two' }]);
      expect(tx.prepare('SELECT count(*) FROM notes').pluck().get()).toBe(3);
      expect(tx.prepare('SELECT note FROM notes').raw().all()).toHaveLength(3);
      await tx.query('INSERT INTO notes VALUES (?1)', [true]);
    });
    expect(notes(db)).toHaveLength(4);
  });

  it('statements that end the transaction, change the connection or write to own tables are rejected', async () => {
    const { provider, db } = await openFile();
    const result = await transact(provider, await claim(provider), (tx) => {
      const refused = [
        () => tx.exec(`INSERT INTO notes VALUES ('x'); COMMIT`),
        () => tx.exec('/* ; */ ; END'),
        () => tx.prepare('PRAGMA foreign_keys = off'),
        () => tx.prepare(`ATTACH 'other.db' AS other`),
        () => tx.prepare('VACUUM'),
        () => tx.prepare('ROLLBACK'),
        () => tx.prepare('DELETE FROM jobs'),
        () => tx.prepare('update or ignore "main"."instances" SET status = 1'),
        () => tx.prepare('WITH a AS (SELECT 1) INSERT INTO history SELECT * FROM a'),
        () => tx.exec('DROP TABLE IF EXISTS worker_queue'),
      ];
      expect(refused.map(codeOf)).toEqual(refused.map(() => 'TRANSACTION_STATEMENT'));
      tx.prepare(`INSERT INTO notes VALUES ('DELETE FROM jobs; COMMIT')`).run();
    });
    expect(result?.ok).toBe(true);
    expect(notes(db)).toEqual(['DELETE FROM jobs; COMMIT']);
  });

  it('a conflict clause that rolls back ends the transaction, and nothing is written', async () => {
    const { provider, db } = await openFile();
    const lockToken = await claim(provider);
    const broken = transact(provider, lockToken, (tx) => {
      tx.exec(`INSERT INTO notes VALUES ('one')`);
      expect(codeOf(() => tx.exec(`INSERT OR ROLLBACK INTO notes VALUES ('one')`))).toBe(
        'SQLITE_CONSTRAINT_UNIQUE',
      );
      expect(codeOf(() => tx.exec(`INSERT INTO notes VALUES ('two')`))).toBe('TRANSACTION_CLOSED');
    });
    await expect(broken).rejects.toMatchObject({ code: 'TRANSACTION_CLOSED' });
    expect(notes(db)).toEqual([]);
    expect((await provider.getInstances(['a']))[0]?.status).toBe('running');
    expect(await transact(provider, lockToken, () => undefined)).toMatchObject({ ok: true });
  });

  it('a kept statement rejects after the closure', async () => {
    const { provider } = await openFile();
    let kept: ReturnType<SqliteTransaction['prepare']> | undefined;
    await transact(provider, await claim(provider), (tx) => {
      kept = tx.prepare('SELECT 1');
    });
    expect(codeOf(() => kept?.get())).toBe('TRANSACTION_CLOSED');
  });

  it('a closure that calls the client rejects immediately with TRANSACTION_NESTED', async () => {
    const { path } = await openFile();
    const other = task('other', async () => 1);
    const calls = task('calls', (ctx) =>
      ctx.transaction(async () => {
        const outcome = await ctx.client.runTask(other).catch((error: unknown) => error);
        return (outcome as { readonly code?: string }).code;
      }),
    );
    await using perdure = await Perdure.open(path);
    await perdure.startWorker({ tasks: [other, calls] });
    expect(await (await perdure.client.runTask(calls)).result()).toBe('TRANSACTION_NESTED');
  });

  it('writes of the process wait for a closure without blocking, and commit between two of them', async () => {
    const { provider } = await openFile();
    const tokens = [await claim(provider, 'a'), await claim(provider, 'b')];
    const order: string[] = [];
    let ticks = 0;
    const ticking = setInterval(() => (ticks += 1), 5);
    const runs = tokens.map(async (token, index) => {
      await transact(provider, token, async () => {
        order.push(`begin ${index}`);
        await delay(60);
      });
      order.push(`end ${index}`);
    });
    await delay(10);
    const write = provider.createTasks([newTask('c')]).then(() => order.push('write'));
    await Promise.all([...runs, write]);
    clearInterval(ticking);
    expect(order.indexOf('write')).toBeLessThan(order.indexOf('end 1'));
    expect(order.indexOf('begin 1')).toBeGreaterThan(order.indexOf('begin 0'));
    expect(ticks).toBeGreaterThan(8);
  });

  it('a closure waits for another process that writes', async () => {
    const { provider, db } = await openFile();
    const lockToken = await claim(provider);
    db.exec('BEGIN IMMEDIATE');
    const running = transact(provider, lockToken, (tx) =>
      tx.exec(`INSERT INTO notes VALUES ('b')`),
    );
    await delay(30);
    db.exec(`INSERT INTO notes VALUES ('a'); COMMIT`);
    await running;
    expect(notes(db)).toEqual(['a', 'b']);
  });

  it('close() waits for an open transaction', async () => {
    const { provider, db } = await openFile();
    const lockToken = await claim(provider);
    const begun = Promise.withResolvers<void>();
    const running = transact(provider, lockToken, async (tx) => {
      begun.resolve();
      await delay(20);
      tx.exec(`INSERT INTO notes VALUES ('a')`);
    });
    await begun.promise;
    await provider.close();
    expect(await running).toMatchObject({ ok: true });
    expect(notes(db)).toEqual(['a']);
  });

  it('drizzle and kysely work with tx', async () => {
    const { provider, db } = await openFile();
    await transact(provider, await claim(provider), async (tx) => {
      drizzle({ client: tx as never }).run(drizzleSql`INSERT INTO notes VALUES (${'drizzle'})`);
      const kysely = new Kysely<object>({
        dialect: new SqliteDialect({
          database: { prepare: (sql: string) => tx.prepare(sql), close: () => undefined } as never,
        }),
      });
      await kyselySql`INSERT INTO notes VALUES (${'kysely'})`.execute(kysely);
    });
    expect(notes(db)).toEqual(['drizzle', 'kysely']);
  });
});
