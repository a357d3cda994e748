import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from './gate.ts';

describeEngine(
  'deleting tasks',
  (open) => {
    it('a run that is over is deleted, and its id is free at once', async () => {
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

    it('a run that waits or runs is deleted by force alone; its handler is told, and its key is free', async () => {
      const [started, told] = [makeGate(), makeGate<string>()];
      const work = task('work', async (ctx) => {
        started.open();
        const { trigger } = await ctx.canceled();
        told.open(trigger);
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [work] });
      const options = { concurrencyKey: 'k' };
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

    it('a failed run whose handler for failures has not ended counts as running', async () => {
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
