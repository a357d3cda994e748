import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { aborted, makeGate } from '../tasks/gate.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine(
  'onAbandoned',
  (open) => {
    it('onAbandoned gets the result of a canceled activity unless its caller waits for it', async () => {
      const disposed: unknown[] = [];
      const started = makeGate();
      const late = activity(
        'late',
        async (ctx, name: string) => {
          if (name === 'second') started.open();
          await aborted(ctx.signal);
          return name;
        },
        { onAbandoned: (name, { instanceId }) => void disposed.push([name, instanceId]) },
      );
      const run = orchestration('run', async (ctx) => {
        const waited = ctx.call(late, 'first', { cancellation: 'wait' });
        await Promise.all([waited, ctx.call(late, 'second')]);
      });
      const { client } = await open({ orchestrations: [run], activities: [late] });
      const handle = await client.start(run, undefined, { id: 'i' });
      await started.opened;
      await handle.cancel();
      await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      await expect.poll(() => disposed).toEqual([['second', 'i']]);
    });

    it('onAbandoned gets a result once if a cancel commits before its ack', async () => {
      const disposed: unknown[] = [];
      const hasty = task(
        'hasty',
        async (ctx) => {
          await ctx.client.cancel(ctx.runId);
          return 'made';
        },
        { onAbandoned: (made, { name, attempt }) => void disposed.push([made, name, attempt]) },
      );
      const { client } = await open({ tasks: [hasty] });
      const handle = await client.runTask(hasty);
      await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      await expect.poll(() => disposed).toEqual([['made', 'hasty', 1]]);
    });

    it('onAbandoned gets a result that its handler returns after the grace', async () => {
      const disposed = makeGate<unknown>();
      const returning = makeGate();
      const started = makeGate();
      const deaf = task(
        'deaf',
        async () => {
          started.open();
          await returning.opened;
          return 'made';
        },
        { onAbandoned: (made) => disposed.open(made) },
      );
      const { client } = await open({ tasks: [deaf], cancelGrace: 20 });
      const handle = await client.runTask(deaf);
      await started.opened;
      await handle.cancel();
      await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      returning.open();
      expect(await disposed.opened).toBe('made');
    });

    it('onAbandoned that throws is logged, and the run still ends as canceled', async () => {
      const logged: unknown[] = [];
      const log = (fields: object, message: string): void => void logged.push({ fields, message });
      const quiet = (): void => undefined;
      const failing = task(
        'failing',
        async (ctx) => {
          await ctx.cancel();
          return 'made';
        },
        {
          onAbandoned: () => {
            throw new Error('cannot dispose of it');
          },
        },
      );
      const logger = { debug: quiet, info: quiet, warn: quiet, error: log };
      const { client } = await open({ tasks: [failing], logger });
      const handle = await client.runTask(failing);
      await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      await expect.poll(() => logged.length).toBe(1);
      expect(logged[0]).toMatchObject({ fields: { name: 'failing', instanceId: handle.id } });
    });

    it('onAbandoned gets the output of a completed flow when its job is closed', async () => {
      const disposed = makeGate<unknown>();
      const started = makeGate();
      const finishing = flow('finishing')
        .step('make', { cancellation: 'wait' }, async (ctx) => {
          await ctx.pointOfNoReturn();
          started.open();
          await finish.opened;
          return 'made';
        })
        .onAbandoned((made, { name }) => disposed.open([made, name]))
        .output('make');
      const finish = makeGate();
      const { client } = await open({ flows: [finishing] });
      const job = client.submit(finishing);
      const { id, sessionId } = job;
      await started.opened;
      finish.open();
      await expect.poll(async () => (await client.get(id))?.status).toBe('completed');
      job.close();
      expect(await disposed.opened).toEqual(['made', 'finishing']);
      await expect.poll(() => client.sessions.jobs(sessionId)).toEqual({ items: [] });
    });

    it('onAbandoned that is not a function throws INVALID_OPTION in each definition', () => {
      const onAbandoned = 'delete it' as unknown as () => void;
      const invalid = expect.objectContaining({ code: 'INVALID_OPTION' });
      expect(() => task('a', () => 1, { onAbandoned })).toThrow(invalid);
      expect(() => activity('a', () => 1, { onAbandoned })).toThrow(invalid);
      expect(() => orchestration('a', () => 1, { onAbandoned })).toThrow(invalid);
    });
  },
  ['all fast paths', 'all hints dropped', 'PostgreSQL'],
);
