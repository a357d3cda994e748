import { expect, it } from 'vitest';
import { isPerdureError } from '../../src/model/failures/errors.ts';
import { randomToken } from '../../src/model/values/random-id.ts';
import type { StoreTransaction } from '../../src/model/store-transaction.ts';
import type { BatchRun } from '../../src/tasks/batch.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from '../engine/describe-engine.ts';

type NumberRun = BatchRun<number, string>;

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
  const insert = async (tx: StoreTransaction, notes: readonly string[]) => {
    for (const note of notes) await tx.query(`INSERT INTO ${name} VALUES ($1)`, [note]);
  };
  return { create, read, insert };
}

describeEngine(
  'ctx.transaction of batches',
  (open) => {
    it('the writes commit with the results of all runs that are not settled', async () => {
      const table = newTable();
      const write = task(
        'write',
        async (ctx, runs: readonly NumberRun[]) => {
          runs.find(({ input }) => input === 2)?.complete('early');
          await ctx.transaction(async (tx, left) => {
            const notes = left.map(({ input }) => `note ${input}`);
            await table.insert(tx, notes);
            return notes;
          });
          for (const run of runs) expect(run.isSettled).toBe(true);
        },
        { batch: { max: 3, wait: '1h' } },
      );
      const { client } = await open({ tasks: [table.create, table.read, write] });
      await (await client.runTask(table.create)).result();
      const handles = await client.runTasks([1, 2, 3].map((input) => ({ task: write, input })));
      const results = await Promise.all(handles.map((handle) => handle.result()));
      expect(results).toEqual(['note 1', 'early', 'note 3']);
      expect(await (await client.runTask(table.read)).result()).toEqual(['note 1', 'note 3']);
    });

    it('an error or wrong results roll back, and each run is retried by its policy', async () => {
      const table = newTable();
      const codes: unknown[] = [];
      const write = task(
        'write',
        async (ctx, runs: readonly NumberRun[]) => {
          const [{ attempt } = { attempt: 0 }] = runs;
          await ctx
            .transaction(async (tx, left) => {
              const notes = left.map(({ input }) => `attempt ${attempt} of ${input}`);
              await table.insert(tx, notes);
              if (attempt === 1) throw new Error('conflict');
              return attempt === 2 ? notes.slice(1) : notes;
            })
            .catch((error: unknown) => {
              codes.push(isPerdureError(error) ? error.code : (error as Error).message);
              throw error;
            });
        },
        { batch: { max: 2, wait: '1h' }, retry: { maxAttempts: 3, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [table.create, table.read, write] });
      await (await client.runTask(table.create)).result();
      const handles = await client.runTasks([1, 2].map((input) => ({ task: write, input })));
      const results = await Promise.all(handles.map((handle) => handle.result()));
      expect(results).toEqual(['attempt 3 of 1', 'attempt 3 of 2']);
      expect(codes).toEqual(['conflict', 'BATCH_RUN_UNSETTLED']);
      expect(await (await client.runTask(table.read)).result()).toEqual(results);
    });

    it('a run whose lease is lost rolls back, and the closure runs again with the others', async () => {
      const table = newTable();
      const closures: number[][] = [];
      let lose = async (): Promise<unknown> => undefined;
      const write = task(
        'write',
        async (ctx, runs: readonly NumberRun[]) => {
          if (runs.length > 1) await lose();
          await ctx.transaction(async (tx, left) => {
            closures.push(left.map(({ input }) => input));
            const notes = left.map(({ input }) => `note ${input}`);
            await table.insert(tx, notes);
            return notes;
          });
        },
        { batch: { max: 2, wait: 100 } },
      );
      const engine = await open({ tasks: [table.create, table.read, write] });
      const { client } = engine;
      await (await client.runTask(table.create)).result();
      lose = () =>
        engine.tamper(
          `UPDATE worker_queue SET lock_token = 'x', locked_until = 1, next_at = 1
           WHERE instance_key = (SELECT max(instance_key) FROM worker_queue)`,
        );
      const handles = await client.runTasks([1, 2].map((input) => ({ task: write, input })));
      const results = await Promise.all(handles.map((handle) => handle.result()));
      expect(results).toEqual(['note 1', 'note 2']);
      expect(closures).toEqual([[1, 2], [1], [2]]);
      expect(await (await client.runTask(table.read)).result()).toEqual(['note 1', 'note 2']);
    });

    it('a canceled run is left out', async () => {
      const table = newTable();
      let cancel = async (): Promise<unknown> => undefined;
      const write = task(
        'write',
        async (ctx, runs: readonly NumberRun[]) => {
          await cancel();
          await ctx.transaction(async (tx, left) => {
            const notes = left.map(({ input }) => `note ${input}`);
            await table.insert(tx, notes);
            return notes;
          });
          expect(runs.map(({ isSettled }) => isSettled)).toEqual([true, false]);
        },
        { batch: { max: 2, wait: '1h' } },
      );
      const { client } = await open({ tasks: [table.create, table.read, write] });
      await (await client.runTask(table.create)).result();
      cancel = () => client.cancel('second');
      const first = await client.runTask(write, 1);
      const second = await client.runTask(write, 2, { id: 'second' });
      expect(await first.result()).toBe('note 1');
      await expect(second.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      expect(await (await client.runTask(table.read)).result()).toEqual(['note 1']);
    });
  },
  ['all fast paths', 'PostgreSQL'],
);
