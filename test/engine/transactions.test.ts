import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { activity, isolatedActivity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { isPerdureError } from '../../src/model/failures/errors.ts';
import { randomToken } from '../../src/model/values/random-id.ts';
import type { StoreTransaction } from '../../src/model/store-transaction.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';

/** The codes of the errors with which calls reject. */
async function codesOf(calls: readonly (() => unknown)[]): Promise<readonly string[]> {
  const codes: string[] = [];
  for (const call of calls) {
    try {
      await call();
      codes.push('resolved');
    } catch (error) {
      codes.push(isPerdureError(error) ? error.code : String(error));
    }
  }
  return codes;
}

describeEngine('ctx.transaction', (open) => {
  /** A table of the application, with tasks that create and read it. */
  function newTable() {
    const name = `notes_${randomToken().replaceAll(/\W/g, '_')}`.toLowerCase();
    const create = task('create', (ctx) =>
      ctx.transaction(async (tx) => {
        await tx.query(`CREATE TABLE ${name} (note text)`);
      }),
    );
    const read = task('read', (ctx) =>
      ctx.transaction(async (tx) => {
        const { rows } = await tx.query<{ note: string }>(`SELECT note FROM ${name} ORDER BY note`);
        return rows.map(({ note }) => note);
      }),
    );
    const insert = async (tx: StoreTransaction, note: string) => {
      await tx.query(`INSERT INTO ${name} VALUES ($1)`, [note]);
    };
    return { name, create, read, insert };
  }

  it('an activity commits its writes and its result together', async () => {
    const table = newTable();
    const write = activity('write', (ctx, note: string) =>
      ctx.transaction(async (tx) => {
        await table.insert(tx, note);
        return note.length;
      }),
    );
    const flow = orchestration('flow', async (ctx) => [
      await ctx.call(write, 'one'),
      await ctx.call(write, 'three'),
    ]);
    const tasks = [table.create, table.read];
    const { client } = await open({ orchestrations: [flow], activities: [write], tasks });
    await (await client.runTask(table.create)).result();
    expect(await (await client.start(flow)).result()).toEqual([3, 5]);
    expect(await (await client.runTask(table.read)).result()).toEqual(['one', 'three']);
  });

  it('an error of the closure rolls back, and the retry policy of the task applies', async () => {
    const table = newTable();
    const write = task(
      'write',
      (ctx) =>
        ctx.transaction(async (tx) => {
          await table.insert(tx, `attempt ${ctx.attempt}`);
          if (ctx.attempt < 3) throw new Error('not yet');
          return ctx.attempt;
        }),
      { retry: { maxAttempts: 3, initialDelay: 1 } },
    );
    const { client } = await open({ tasks: [table.create, table.read, write] });
    await (await client.runTask(table.create)).result();
    expect(await (await client.runTask(write)).result()).toBe(3);
    expect(await (await client.runTask(table.read)).result()).toEqual(['attempt 3']);
  });

  it('a lost lease rolls back, and the next claim writes once', async () => {
    const table = newTable();
    let runs = 0;
    let lose = async (): Promise<unknown> => undefined;
    const write = task('write', async (ctx) => {
      runs += 1;
      if (runs === 1) await lose();
      return ctx.transaction(async (tx) => {
        await table.insert(tx, `run ${runs}`);
        return runs;
      });
    });
    const engine = await open({ tasks: [table.create, table.read, write] });
    lose = () =>
      engine.tamper(`UPDATE worker_queue SET lock_token = 'x', locked_until = 1, next_at = 1`);
    const { client } = engine;
    await (await client.runTask(table.create)).result();
    expect(await (await client.runTask(write)).result()).toBe(2);
    expect(await (await client.runTask(table.read)).result()).toEqual(['run 2']);
  });

  it('a canceled task run leaves no writes', async () => {
    const table = newTable();
    const begun = Promise.withResolvers<void>();
    const write = task('write', (ctx) =>
      ctx.transaction(async (tx) => {
        await table.insert(tx, 'one');
        begun.resolve();
        // On SQLite the cancel waits for the end of this transaction, and is found by its ack or by the next renewal.
        await delay(200);
        ctx.throwIfCanceled();
        await new Promise((resolve) => setTimeout(resolve, 300));
        return 'done';
      }),
    );
    const { client } = await open({ tasks: [table.create, table.read, write] });
    await (await client.runTask(table.create)).result();
    const handle = await client.runTask(write);
    await begun.promise;
    await handle.cancel();
    await handle.result().catch(() => undefined);
    const { status } = (await client.get(handle.id)) ?? {};
    // Committed or canceled, never both: on SQLite the cancel is committed after the transaction.
    const notes = await (await client.runTask(table.read)).result();
    expect([status, notes]).toEqual(
      status === 'completed' ? ['completed', ['one']] : ['canceled', []],
    );
  });

  it('misuse of tx and of ctx.transaction rejects with typed errors and writes nothing', async () => {
    const table = newTable();
    let kept: StoreTransaction | undefined;
    const misuse = task('misuse', async (ctx) => {
      let inside: readonly string[] = [];
      const failure = new Error('roll back');
      await ctx
        .transaction(async (tx) => {
          kept = tx;
          await table.insert(tx, 'one');
          inside = await codesOf([
            () => ctx.transaction(async () => 1),
            () => tx.query('COMMIT'),
            () => tx.query('/* hidden */ ; rollback'),
            () => tx.query('begin'),
            () => tx.query('SAVEPOINT a'),
            () => tx.query('ROLLBACK TO a'),
          ]);
          throw failure;
        })
        .catch((error: unknown) => {
          if (error !== failure) throw error;
        });
      const after = await codesOf([
        () => kept?.query('SELECT 1'),
        () => ctx.transaction('no function' as never),
        () => ctx.transaction(async () => 1, { timeout: 0 }),
        () => ctx.transaction(async () => 1, { limit: 5 } as never),
        () => ctx.transaction(() => new Promise(() => undefined), { timeout: 20 }),
      ]);
      return { inside, after };
    });
    const { client } = await open({ tasks: [table.create, table.read, misuse] });
    await (await client.runTask(table.create)).result();
    expect(await (await client.runTask(misuse)).result()).toEqual({
      inside: [
        'TRANSACTION_NESTED',
        'TRANSACTION_STATEMENT',
        'TRANSACTION_STATEMENT',
        'TRANSACTION_STATEMENT',
        'resolved',
        'resolved',
      ],
      after: [
        'TRANSACTION_CLOSED',
        'INVALID_INPUT',
        'INVALID_OPTION',
        'INVALID_OPTION',
        'TRANSACTION_TIMEOUT',
      ],
    });
    expect(await (await client.runTask(table.read)).result()).toEqual([]);
  });

  it('the value of the transaction is the result, whatever the handler does after it', async () => {
    const warnings: string[] = [];
    const other = task('other', async (ctx) => {
      await ctx.transaction(async () => 'committed');
      return 'ignored';
    });
    const throws = task('throws', async (ctx) => {
      await ctx.transaction(async () => 'committed');
      throw new Error('too late');
    });
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      warn: (_fields: object, message: string) => void warnings.push(message),
      error: () => undefined,
    };
    const { client } = await open({ tasks: [other, throws], logger });
    expect(await (await client.runTask(other)).result()).toBe('committed');
    expect(await (await client.runTask(throws)).result()).toBe('committed');
    await expect
      .poll(() => warnings)
      .toEqual([
        expect.stringMatching(/returned another value/),
        expect.stringMatching(/threw after its transaction/),
      ]);
  });

  it('a value that cannot be stored fails the run without writes', async () => {
    const table = newTable();
    const write = task(
      'write',
      (ctx) =>
        ctx.transaction(async (tx) => {
          await table.insert(tx, 'one');
          return { big: 1n };
        }),
      { retry: { maxAttempts: 5, initialDelay: 1 } },
    );
    const { client } = await open({ tasks: [table.create, table.read, write] });
    await (await client.runTask(table.create)).result();
    await expect((await client.runTask(write)).result()).rejects.toMatchObject({
      failure: { code: 'NOT_SERIALIZABLE' },
    });
    expect(await (await client.runTask(table.read)).result()).toEqual([]);
  });

  it('a transaction step of an orchestration commits its writes and its result together', async () => {
    const table = newTable();
    let runs = 0;
    const flow = orchestration('flow', async (ctx, note: string) => {
      const length = await ctx.transaction(
        'write',
        async (tx, step) => {
          runs += 1;
          await table.insert(tx, `${note} ${step.attempt}`);
          if (step.attempt === 1) throw new Error('not yet');
          return note.length;
        },
        { retry: { maxAttempts: 2, initialDelay: 1 } },
      );
      const plain = await ctx.run('plain', async () => 'plain');
      const again = await ctx.transaction('write', async (tx) => {
        await table.insert(tx, 'again');
        return 'again';
      });
      return [length, plain, again];
    });
    const { client } = await open({ orchestrations: [flow], tasks: [table.create, table.read] });
    await (await client.runTask(table.create)).result();
    expect(await (await client.start(flow, 'note')).result()).toEqual([4, 'plain', 'again']);
    expect(await (await client.runTask(table.read)).result()).toEqual(['again', 'note 2']);
    expect(runs).toBe(2);
  });

  it('a transaction step that fails, times out or is nested writes nothing', async () => {
    const table = newTable();
    const flow = orchestration('flow', async (ctx) => {
      const outcomes: unknown[] = [];
      const attempt = async (body: (tx: StoreTransaction) => unknown, options = {}) => {
        try {
          outcomes.push(await ctx.transaction('write', body, options));
        } catch (error) {
          if (isPerdureError(error, 'OPERATION_CANCELED')) throw error;
          outcomes.push((error as { readonly failure?: { readonly code?: string } }).failure?.code);
        }
      };
      await attempt(async (tx) => {
        await table.insert(tx, 'one');
        throw Object.assign(new Error('no'), { code: 'OWN' });
      });
      await attempt(
        async (tx) => {
          await table.insert(tx, 'two');
          await new Promise(() => undefined);
        },
        { attemptTimeout: 50 },
      );
      await attempt(async (tx) => {
        await table.insert(tx, 'three');
        return { big: 1n };
      });
      await attempt(async (tx) => {
        await table.insert(tx, 'four');
        await ctx.transaction('inner', async () => 1);
      });
      await attempt((tx) => tx.query('COMMIT'));
      return outcomes;
    });
    const { client } = await open({
      orchestrations: [flow],
      tasks: [table.create, table.read],
      cancelGrace: 20,
    });
    await (await client.runTask(table.create)).result();
    expect(await (await client.start(flow)).result()).toEqual([
      'OWN',
      'TIMEOUT',
      'NOT_SERIALIZABLE',
      'INSIDE_STEP',
      'TRANSACTION_STATEMENT',
    ]);
    expect(await (await client.runTask(table.read)).result()).toEqual([]);
  });

  it('a transaction step that keeps tx cannot write through it after its commit or rollback', async () => {
    const table = newTable();
    const kept: StoreTransaction[] = [];
    const flow = orchestration('flow', async (ctx) => {
      await ctx.transaction('commit', async (tx) => {
        kept.push(tx);
        await table.insert(tx, 'committed');
      });
      await ctx
        .transaction('roll back', async (tx) => {
          kept.push(tx);
          await table.insert(tx, 'rolled back');
          throw new Error('no');
        })
        .catch((error: unknown) => {
          if (!isPerdureError(error, 'STEP_FAILED')) throw error;
        });
      const afterwards = await ctx.run('use tx', () =>
        codesOf(kept.map((tx) => () => table.insert(tx, 'late'))),
      );
      // The first tx is closed, although another transaction is open.
      const inAnother = await ctx.transaction('use another tx', (tx) =>
        codesOf([
          ...kept.map((old) => () => table.insert(old, 'late')),
          () => tx.query('SELECT 1'),
        ]),
      );
      return { afterwards, inAnother };
    });
    const { client } = await open({ orchestrations: [flow], tasks: [table.create, table.read] });
    await (await client.runTask(table.create)).result();
    expect(await (await client.start(flow)).result()).toEqual({
      afterwards: ['TRANSACTION_CLOSED', 'TRANSACTION_CLOSED'],
      inAnother: ['TRANSACTION_CLOSED', 'TRANSACTION_CLOSED', 'resolved'],
    });
    expect(await (await client.runTask(table.read)).result()).toEqual(['committed']);
  });

  it('an isolated handler rejects ctx.transaction with TRANSACTION_UNSUPPORTED', async () => {
    const isolated = isolatedActivity<void, string>('isolated', {
      module: new URL('./transaction-in-thread.ts', import.meta.url),
      exportName: 'callTransaction',
    });
    const flow = orchestration('flow', async (ctx) => await ctx.call(isolated));
    const { client } = await open({ orchestrations: [flow], activities: [isolated] });
    expect(await (await client.start(flow)).result()).toBe('TRANSACTION_UNSUPPORTED');
  });
});
