import { expect, it } from 'vitest';
import { isolatedActivity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { isolatedTask, task } from '../../src/tasks/task.ts';
import { makeGate } from '../tasks/gate.ts';
import { describeEngine } from './describe-engine.ts';

async function readAll(chunks: AsyncIterable<unknown>): Promise<readonly unknown[]> {
  const read: unknown[] = [];
  for await (const chunk of chunks) read.push(chunk);
  return read;
}

const module = new URL('./workers/isolated-handlers.ts', import.meta.url);

describeEngine(
  'emitted chunks',
  (open) => {
    it('emit() in a thread keeps its order and resolves once each chunk is stored', async () => {
      const emitCount = isolatedActivity<number, readonly boolean[]>('count', {
        module,
        exportName: 'emitCount',
      });
      const run = orchestration('run', async (ctx, to: number) => ctx.call(emitCount, to));
      const { client } = await open({ orchestrations: [run], activities: [emitCount] });
      const job = client.submit(run, 3);
      expect(await readAll(job.stream())).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
      expect(await job.result()).toEqual([true, true, true]);
      const plain = await client.start(run, 2);
      expect(await plain.result()).toEqual([true, true]);
    });

    it('a cancel stops a handler in a thread that waits in emit()', async () => {
      const emitEndlessly = isolatedTask('emit', { module, exportName: 'emitEndlessly' });
      const { client } = await open({ tasks: [emitEndlessly] });
      const job = client.submit(emitEndlessly);
      const { value } = await job.stream()[Symbol.asyncIterator]().next();
      expect(value).toBe('more');
      await job.cancel({ wait: true });
      expect(await job.status()).toMatchObject({ status: 'canceled' });
      expect(await job.status()).not.toHaveProperty('leaked');
    });

    it('emit() calls without await keep their order and are stored before the run ends', async () => {
      const count = 300;
      const burst = task('burst', async (ctx) => {
        const emits = Array.from({ length: count }, (_, n) => ctx.emit(n));
        return (await Promise.all(emits)).every(Boolean);
      });
      const { client } = await open({ tasks: [burst] });
      const job = client.submit(burst);
      const chunks = await readAll(job.stream());
      expect(chunks).toEqual(Array.from({ length: count }, (_, n) => n));
      expect(await job.result()).toBe(true);
    });

    it('pending emit() calls without await crash nothing when their run is canceled', async () => {
      const refused = makeGate<unknown>();
      const careless = task('careless', async (ctx) => {
        // More than the stream stores, including chunks that were read but not confirmed.
        for (let n = 0; n < 600; n += 1) void ctx.emit(n);
        await ctx.emit('last').catch((error: unknown) => refused.open(error));
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [careless] });
      const job = client.submit(careless);
      await job.stream()[Symbol.asyncIterator]().next();
      job.close();
      expect(await refused.opened).toMatchObject({ code: 'OPERATION_CANCELED' });
      await expect.poll(async () => (await job.status()).status).toBe('canceled');
    });

    it('emit(undefined) is read as null', async () => {
      const quiet = task('quiet', (ctx) => ctx.emit(undefined));
      const { client } = await open({ tasks: [quiet] });
      expect(await readAll(client.submit(quiet).stream())).toEqual([null]);
    });
  },
  ['all fast paths', 'all hints dropped', 'PostgreSQL'],
);
