import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from './gate.ts';

describeEngine(
  'onFail',
  (open) => {
    const fails = (): never => {
      throw Object.assign(new Error('the bank said no'), { code: 'REFUSED' });
    };

    it('onFail runs after the last attempt with input, headers and failure; the run stays failed', async () => {
      const told = makeGate<object>();
      const pay = task('pay', (_ctx, _input: { amount: number }) => fails(), {
        retry: { maxAttempts: 2, initialDelay: 1 },
        onFail: {
          handler: (ctx, failed) => {
            const { runId, taskName, attempt, headers } = ctx;
            told.open({ runId, taskName, attempt, headers, ...failed });
          },
        },
      });
      const { client } = await open({ tasks: [pay] });
      const handle = await client.runTask(pay, { amount: 3 }, { id: 'p', headers: { a: 'b' } });
      expect(await told.opened).toMatchObject({
        runId: 'p',
        taskName: 'pay',
        attempt: 1,
        headers: { a: 'b' },
        input: { amount: 3 },
        attempts: 2,
        failure: { message: 'the bank said no', code: 'REFUSED' },
      });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await expect
        .poll(async () => (await handle.status()).task?.onFail, { interval: 5 })
        .toBe('completed');
      expect(await handle.status()).toMatchObject({ status: 'failed' });
    });

    it('onFail runs for a run that was started by name', async () => {
      const told = makeGate();
      const pay = task('pay', fails, { onFail: { handler: () => told.open() } });
      const { client } = await open({ tasks: [pay] });
      await client.runTask('pay');
      await told.opened;
    });

    it('onFail has its own attempts, and its failure is recorded', async () => {
      let attempts = 0;
      const pay = task('pay', fails, {
        onFail: {
          retry: { maxAttempts: 3, initialDelay: 1 },
          handler: (ctx) => {
            attempts = ctx.attempt;
            throw new Error('nor can I');
          },
        },
      });
      const { client } = await open({ tasks: [pay] });
      const handle = await client.runTask(pay);
      await expect
        .poll(async () => (await handle.status()).task?.onFail, { interval: 5 })
        .toBe('failed');
      expect(attempts).toBe(3);
      expect(await handle.status()).toMatchObject({
        status: 'failed',
        failure: { message: 'the bank said no' },
        task: { onFailFailure: { message: 'nor can I' } },
      });
    });

    it('onFail does not run for a canceled, skipped or expired run', async () => {
      const started = makeGate();
      let calls = 0;
      const onFail = { handler: () => void (calls += 1) };
      const stopped = task(
        'stopped',
        async (ctx) => {
          started.open();
          await aborted(ctx.signal);
          throw new Error('a failure of its own');
        },
        { onFail },
      );
      const skips = task('skips', () => undefined, { onFail, condition: () => false });
      const expires = task('expires', () => undefined, { onFail });
      const { client, startWorker } = await open();
      const worker = await startWorker({ tasks: [stopped, skips] });
      const canceled = await client.runTask(stopped);
      await started.opened;
      await canceled.cancel();
      const over = [
        canceled,
        await client.runTask(skips),
        await client.runTask(expires, undefined, { expiresIn: 20 }),
      ];
      for (const handle of over) await client.wait(handle.id);
      await worker.stop();
      expect(calls).toBe(0);
      for (const handle of over) expect((await handle.status()).task).not.toHaveProperty('onFail');
    });

    it('cancel() and terminate() of a failed run do not stop its onFail', async () => {
      const [started, mayEnd] = [makeGate(), makeGate()];
      const pay = task('pay', fails, {
        onFail: {
          handler: async (ctx) => {
            started.open();
            await mayEnd.opened;
            ctx.throwIfCanceled();
          },
        },
      });
      const { client } = await open({ tasks: [pay] });
      const handle = await client.runTask(pay);
      await started.opened;
      expect(await handle.cancel()).toMatchObject({ changed: false, status: 'failed' });
      expect(await handle.terminate()).toMatchObject({ changed: false, status: 'failed' });
      expect((await handle.status()).task?.onFail).toBe('running');
      mayEnd.open();
      await expect
        .poll(async () => (await handle.status()).task?.onFail, { interval: 5 })
        .toBe('completed');
    });

    it('onFail that the worker no longer has fails with UNREGISTERED', async () => {
      const { client } = await open({ tasks: [task('pay', fails)] });
      const before = task('pay', fails, { onFail: { handler: () => undefined } });
      const handle = await client.runTask(before);
      await expect
        .poll(async () => (await handle.status()).task?.onFail, { interval: 5 })
        .toBe('failed');
      expect(await handle.status()).toMatchObject({
        task: { onFailFailure: { code: 'UNREGISTERED' } },
      });
    });
  },
  modesWithoutTurns,
);
