import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from '../engine/describe-engine.ts';
import { makeGate } from '../tasks/gate.ts';
import { outcomeOf } from './outcome.ts';

// Workers query the results to dispose of every two poll intervals.
const options = { pollInterval: 100 };

describeEngine(
  'disposal of late results',
  (open) => {
    it('onAbandoned gets the output of a task that returns after close()', async () => {
      const [started, closed, disposed] = [makeGate(), makeGate(), makeGate<unknown>()];
      const rent = task(
        'rent',
        async () => {
          started.open();
          await closed.opened;
          return { machine: 7 };
        },
        { onAbandoned: (output, { name }) => disposed.open([name, output]) },
      );
      const { client } = await open({ tasks: [rent] }, options);
      const job = client.submit(rent);
      await started.opened;
      job.close();
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('canceling');
      closed.open();
      expect(await disposed.opened).toEqual(['rent', { machine: 7 }]);
      expect(await client.wait(job.id)).toMatchObject({ status: 'canceled' });
    });

    it('onAbandoned gets the output of a closed task past its point of no return', async () => {
      const [passed, closed, disposed] = [makeGate(), makeGate(), makeGate<unknown>()];
      const rent = task(
        'rent',
        async (ctx) => {
          await ctx.pointOfNoReturn();
          passed.open();
          await closed.opened;
          return 'a machine';
        },
        { onAbandoned: (output) => disposed.open(output) },
      );
      const { client } = await open({ tasks: [rent] }, options);
      const job = client.submit(rent);
      await passed.opened;
      job.close();
      await expect.poll(async () => (await client.get(job.id))?.cancel?.reason).toBeDefined();
      closed.open();
      expect(await disposed.opened).toBe('a machine');
      expect(await client.wait(job.id)).toMatchObject({ status: 'completed', output: 'a machine' });
    });

    it('onAbandoned gets the output of an orchestration that completes despite a cancel', async () => {
      const [started, closed, disposed] = [makeGate(), makeGate(), makeGate<unknown>()];
      const rent = activity('rent', async () => {
        started.open();
        await closed.opened;
        return 'a machine';
      });
      const provision = orchestration('provision', (ctx) => ctx.shield(() => ctx.call(rent)), {
        onAbandoned: (output) => disposed.open(output),
      });
      const { client } = await open({ orchestrations: [provision], activities: [rent] }, options);
      const job = client.submit(provision);
      await started.opened;
      job.close();
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('canceling');
      closed.open();
      expect(await disposed.opened).toBe('a machine');
    });

    it('close() calls onAbandoned for an untaken result and retries it until it succeeds', async () => {
      const disposed = makeGate<readonly unknown[]>();
      const rent = task('rent', () => 'a machine', {
        onAbandoned: (output, { attempt }) => {
          if (attempt < 3) throw new Error('not now');
          disposed.open([output, attempt]);
        },
      });
      const { client } = await open({ tasks: [rent] }, options);
      const job = client.submit(rent);
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('completed');
      job.close();
      expect(await disposed.opened).toEqual(['a machine', 3]);
      await expect
        .poll(() => client.sessions.jobs(job.sessionId), { timeout: 20_000 })
        .toEqual({ items: [] });
    });

    it('onAbandoned is never called for a taken result', async () => {
      const disposed: unknown[] = [];
      const rent = task('rent', () => 'a machine', {
        onAbandoned: (output) => void disposed.push(output),
      });
      const { client } = await open({ tasks: [rent] }, options);
      const session = await client.openSession();
      const job = session.submit(rent);
      expect(await job.result()).toBe('a machine');
      job.close();
      await session.shutdown('forceful');
      expect(disposed).toEqual([]);
    });

    it('a forceful shutdown disposes of late results before it resolves and delivers none', async () => {
      const [passed, closing] = [makeGate(), makeGate()];
      const order: string[] = [];
      const rent = task(
        'rent',
        async (ctx) => {
          await ctx.pointOfNoReturn();
          passed.open();
          await closing.opened;
          return 'a machine';
        },
        { onAbandoned: (output) => void order.push(`${output} is given back`) },
      );
      const { client } = await open({ tasks: [rent] }, options);
      const session = await client.openSession();
      const reply = outcomeOf(session.submit(rent).result());
      await passed.opened;
      const shutdown = session.shutdown('forceful').then(() => order.push('ended'));
      await expect.poll(async () => (await session.info()).state).toBe('closing');
      closing.open();
      await shutdown;
      expect(order).toEqual(['a machine is given back', 'ended']);
      expect(await reply).toMatchObject({ error: { code: 'SESSION_CLOSED' } });
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
