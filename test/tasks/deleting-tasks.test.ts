import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from './gate.ts';

describeEngine(
  'deleting tasks',
  (open) => {
    it('delete() of an ended run frees its id immediately', async () => {
      const work = task('work', (_ctx, n: number) => n);
      const { client } = await open({ tasks: [work] });
      const handle = await client.runTask(work, 1, { id: 'once' });
      await handle.result();
      expect(await handle.delete()).toMatchObject({ instancesDeleted: 1 });
      expect(await client.get('once')).toBeUndefined();
      const again = await client.runTask(work, 2, { id: 'once' });
      expect(again.created).toBe(true);
      expect(await again.result()).toBe(2);
    });

    it('delete() of a running run needs force, aborts its handler and frees its key', async () => {
      const [started, told] = [makeGate(), makeGate<string>()];
      const work = task('work', async (ctx) => {
        started.open();
        const { trigger } = await ctx.canceled();
        told.open(trigger);
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [work] });
      const options = { dedupeKey: 'k' };
      const handle = await client.runTask(work, undefined, options);
      await started.opened;
      await expect(handle.delete()).rejects.toMatchObject({ code: 'INSTANCE_STILL_RUNNING' });
      await handle.delete({ force: true });
      expect(await told.opened).toBe('deleted');
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
      await expect
        .poll(async () => (await client.runTask('work', undefined, options)).created)
        .toBe(true);
    });

    it('bulk deletion deletes ended runs of every status, not pending or running ones', async () => {
      const started = makeGate();
      const ends = task(
        'ends',
        (_ctx, how: string) => {
          if (how === 'failed') throw new Error('no');
        },
        { condition: (how) => how !== 'skipped' },
      );
      const stays = task('stays', async (ctx) => {
        started.open();
        await ctx.canceled();
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [ends, stays] });
      for (const id of ['completed', 'failed', 'skipped']) await client.runTask(ends, id, { id });
      await client.runTask('nobody', 1, { id: 'expired', expiresIn: 10 });
      for (const id of ['canceled', 'pending']) await client.runTask('nobody', 1, { id });
      await client.cancel('canceled');
      const over = ['completed', 'failed', 'skipped', 'expired', 'canceled'];
      for (const id of over) expect(await client.wait(id)).toMatchObject({ status: id });
      await client.runTask(stays, undefined, { id: 'running' });
      await started.opened;
      expect(await client.deleteInstanceBulk({}, { all: true })).toMatchObject({
        instancesDeleted: over.length,
      });
      const { items } = await client.list();
      expect(items.map(({ id }) => id).sort()).toEqual(['pending', 'running']);
    });

    it('delete() of a failed run rejects while its onFail handler runs', async () => {
      const [started, mayEnd] = [makeGate(), makeGate()];
      const fails = task(
        'fails',
        () => {
          throw new Error('no');
        },
        {
          onFail: {
            handler: async () => {
              started.open();
              await mayEnd.opened;
            },
          },
        },
      );
      const { client } = await open({ tasks: [fails] });
      const handle = await client.runTask(fails);
      await started.opened;
      await expect(handle.delete()).rejects.toMatchObject({ code: 'INSTANCE_STILL_RUNNING' });
      mayEnd.open();
      await expect
        .poll(async () => (await handle.status()).task?.onFail, { interval: 5 })
        .toBe('completed');
      await handle.delete();
      expect(await client.get(handle.id)).toBeUndefined();
    });
  },
  modesWithoutTurns,
);
