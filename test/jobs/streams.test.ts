import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from '../tasks/gate.ts';

async function readAll(chunks: AsyncIterable<unknown>): Promise<unknown[]> {
  const read: unknown[] = [];
  for await (const chunk of chunks) read.push(chunk);
  return read;
}

describeEngine(
  'job streams',
  (open) => {
    const count = task('count', async (ctx, to: number) => {
      for (let n = 1; n <= to; n += 1) await ctx.emit(n);
      return 'counted';
    });

    it('a stream yields what a task, activity or step emits, in order', async () => {
      const steps = activity('steps', async (ctx, to: number) => {
        for (let n = 1; n <= to; n += 1) await ctx.emit({ n });
      });
      const walk = orchestration('walk', async (ctx, to: number) => {
        await ctx.call(steps, to);
        await ctx.call(steps, 1);
        return 'walked';
      });
      const talk = flow('talk')
        .step('say', async (ctx) => {
          await ctx.emit('hello');
          return 'said';
        })
        .output('say');
      const { client } = await open({
        tasks: [count],
        activities: [steps],
        orchestrations: [walk],
        flows: [talk],
      });
      const counted = client.submit(count, 5);
      expect(await readAll(counted.stream())).toEqual([1, 2, 3, 4, 5]);
      expect(await counted.result()).toBe('counted');
      const walked = client.submit(walk, 2);
      expect(await readAll(walked.stream())).toEqual([{ n: 1 }, { n: 2 }, { n: 1 }]);
      expect(await walked.result()).toBe('walked');
      const said = client.submit(talk);
      expect(await readAll(said.stream())).toEqual(['hello']);
      expect(await said.result()).toBe('said');
    });

    it('a stream with more chunks than the buffer holds arrives complete and in order', async () => {
      const { client } = await open({ tasks: [count] });
      const job = client.submit(count, 300);
      const read = await readAll(job.stream());
      expect(read).toEqual(Array.from({ length: 300 }, (_, n) => n + 1));
    });

    it('ctx.emit() waits while 256 chunks are unread and continues after a read', async () => {
      let emitted = 0;
      const eager = task('eager', async (ctx) => {
        for (; emitted < 300; emitted += 1) await ctx.emit(emitted);
      });
      const { client } = await open({ tasks: [eager] });
      const job = client.submit(eager);
      await expect.poll(() => emitted, { timeout: 20_000 }).toBe(256);
      const stream = job.stream();
      expect(await stream.next()).toEqual({ done: false, value: 0 });
      const rest = await readAll(stream);
      expect(rest).toHaveLength(299);
      expect(emitted).toBe(300);
    });

    it('leaving a partly read stream cancels its job and stops the handler', async () => {
      const stopped = makeGate<unknown>();
      const endless = task('endless', async (ctx) => {
        try {
          for (let n = 0; ; n += 1) await ctx.emit(n);
        } catch (error) {
          stopped.open(error);
          throw error;
        }
      });
      const { client } = await open({ tasks: [endless] });
      const job = client.submit(endless);
      for await (const chunk of job.stream<number>()) if (chunk === 3) break;
      expect(await stopped.opened).toMatchObject({ code: 'OPERATION_CANCELED' });
      expect(await client.wait(job.id)).toMatchObject({ status: 'canceled' });
    });

    it('a stream of a failed job rejects with its failure after the last chunk', async () => {
      const failing = task('failing', async (ctx) => {
        await ctx.emit('half');
        throw new RangeError('too far');
      });
      const { client } = await open({ tasks: [failing] });
      const stream = client.submit(failing).stream();
      expect(await stream.next()).toEqual({ done: false, value: 'half' });
      await expect(stream.next()).rejects.toMatchObject({
        code: 'INSTANCE_FAILED',
        failure: { name: 'RangeError' },
      });
    });

    it('ctx.emit() returns true in a run that is not a job: its chunk is recorded', async () => {
      const returned = makeGate<boolean>();
      const speak = task('speak', async (ctx) => {
        returned.open(await ctx.emit('chunk'));
      });
      const { client } = await open({ tasks: [speak] });
      await (await client.runTask(speak)).result();
      expect(await returned.opened).toBe(true);
    });

    it('awaiting only the result does not block a handler that emits 300 chunks', async () => {
      const { client } = await open({ tasks: [count] });
      expect(await client.submit(count, 300).result()).toBe('counted');
    });

    it('chunks of a completed job can be read before its result is taken', async () => {
      const { client } = await open({ tasks: [count] });
      const job = client.submit(count, 100);
      await expect
        .poll(async () => (await job.status()).status, { timeout: 20_000 })
        .toBe('completed');
      expect(await readAll(job.stream())).toHaveLength(100);
      expect(await job.result()).toBe('counted');
    });

    it('ctx.emit() rejects a value that is not serializable or too large', async () => {
      const careless = task('careless', async (ctx, what: 'cycle' | 'large') => {
        const cycle: { self?: unknown } = {};
        cycle.self = cycle;
        await ctx.emit(what === 'cycle' ? cycle : 'x'.repeat(5_000_000));
      });
      const { client } = await open({ tasks: [careless] });
      await expect(client.submit(careless, 'cycle').result()).rejects.toMatchObject({
        failure: { code: 'NOT_SERIALIZABLE' },
      });
      await expect(client.submit(careless, 'large').result()).rejects.toMatchObject({
        failure: { code: 'PAYLOAD_TOO_LARGE' },
      });
    });
  },
  modesWithoutTurns,
);
