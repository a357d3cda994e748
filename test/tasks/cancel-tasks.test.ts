import { expect, it } from 'vitest';
import { CanceledError, isPerdureError } from '../../src/model/failures/errors.ts';
import type { TaskEnded } from '../../src/runtime/hooks.ts';
import { task, type TaskContext } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from './gate.ts';

describeEngine(
  'canceling tasks',
  (open) => {
    it('cancel() of a queued or delayed run ends it immediately; its handler never runs', async () => {
      let calls = 0;
      const work = task('work', () => void (calls += 1));
      const { client, startWorker } = await open();
      const handle = await client.runTask(work, undefined, { id: 'queued' });
      const delayed = await client.runTask(work, undefined, { id: 'delayed', delay: '1h' });
      for (const one of [handle, delayed]) {
        expect(await one.cancel({ reason: 'not needed', actor: 'ops' })).toEqual({
          found: true,
          changed: true,
          status: 'canceled',
        });
        const error: unknown = await one.result().catch((thrown) => thrown);
        expect(error).toBeInstanceOf(CanceledError);
        expect(error).toMatchObject({ reason: 'not needed', trigger: 'cancel' });
      }
      await startWorker({ tasks: [work] });
      await (await client.runTask(work)).result();
      expect(calls).toBe(1);
      expect(await handle.status()).toMatchObject({
        status: 'canceled',
        cancel: { reason: 'not needed', actor: 'ops' },
      });
    });

    it('a canceled running task is canceling until its handler stops, then canceled', async () => {
      const [started, mayEnd, told] = [makeGate(), makeGate(), makeGate<unknown>()];
      const work = task('work', async (ctx) => {
        started.open();
        await aborted(ctx.signal);
        told.open(ctx.signal.reason);
        await mayEnd.opened;
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [work] });
      const handle = await client.runTask(work);
      await started.opened;
      expect(await handle.cancel({ reason: 'stop' })).toEqual({
        found: true,
        changed: true,
        status: 'canceling',
      });
      expect(await told.opened).toMatchObject({ reason: 'stop', trigger: 'cancel' });
      expect(await handle.status()).toMatchObject({
        status: 'canceling',
        running: [{ name: 'work', cancel: { reason: 'stop' } }],
      });
      mayEnd.open();
      await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
      const { status, cancel, endedAt = 0 } = await handle.status();
      expect([status, cancel?.reason]).toEqual(['canceled', 'stop']);
      expect(endedAt).toBeGreaterThanOrEqual(cancel?.requestedAt ?? Infinity);
    });

    it('a result or error after a cancel is dropped, and the run ends canceled', async () => {
      const ended: TaskEnded[] = [];
      const gates = new Map(['returns', 'throws'].map((how) => [how, makeGate()]));
      const late = task(
        'late',
        async (ctx, how: string) => {
          gates.get(how)?.open();
          await aborted(ctx.signal);
          if (how === 'throws') throw new Error('an error of its own');
          return 'a result';
        },
        { retry: { maxAttempts: 5, initialDelay: 1 } },
      );
      const { client } = await open({
        tasks: [late],
        hooks: { taskEnded: (run) => ended.push(run) },
      });
      for (const [how, gate] of gates) {
        const handle = await client.runTask(late, how, { id: how });
        await gate.opened;
        await handle.cancel();
        expect(await client.wait(how)).toMatchObject({ status: 'canceled' });
        expect(await client.wait(how)).not.toHaveProperty('output');
      }
      expect(ended.map(({ instanceId, status }) => [instanceId, status])).toEqual([
        ['returns', 'canceled'],
        ['throws', 'canceled'],
      ]);
    });

    it('a handler past its grace is counted as leaked, and its result is dropped', async () => {
      const [started, mayEnd] = [makeGate(), makeGate()];
      const deaf = task('deaf', async () => {
        started.open();
        await mayEnd.opened;
        return 'too late';
      });
      const { client } = await open({ tasks: [deaf], cancelGrace: 30 });
      const handle = await client.runTask(deaf);
      await started.opened;
      await handle.cancel();
      expect(await client.wait(handle.id)).toMatchObject({ status: 'canceled', leaked: 1 });
      mayEnd.open();
      expect(await handle.cancel()).toMatchObject({ changed: false, status: 'canceled' });
    });

    it('cancel() between two attempts ends the run immediately, without another attempt', async () => {
      let calls = 0;
      const failing = task(
        'failing',
        () => {
          calls += 1;
          throw new Error('not yet');
        },
        { retry: { maxAttempts: 10, initialDelay: '1h', jitter: 0 } },
      );
      const failed = makeGate();
      const { client } = await open({
        tasks: [failing],
        hooks: { attemptEnded: ({ outcome }) => outcome === 'retried' && failed.open() },
      });
      const handle = await client.runTask(failing);
      await failed.opened;
      await expect
        .poll(async () => (await handle.status()).task?.failures, { interval: 5 })
        .toBe(1);
      expect(await handle.status()).toMatchObject({ status: 'running' });
      expect(await handle.cancel()).toMatchObject({ changed: true, status: 'canceled' });
      expect(calls).toBe(1);
    });

    it('ten concurrent cancel() calls keep the first reason; later ones change nothing', async () => {
      const [started, mayEnd] = [makeGate(), makeGate()];
      const work = task('work', async (ctx) => {
        started.open();
        await mayEnd.opened;
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [work] });
      const handle = await client.runTask(work);
      await started.opened;
      const results = await Promise.all(
        Array.from({ length: 10 }, (_, n) => handle.cancel({ reason: `reason ${n}` })),
      );
      expect(results.filter(({ changed }) => changed)).toHaveLength(1);
      const before = await handle.status();
      expect(before.cancel?.reason).toBe('reason 0');
      mayEnd.open();
      await expect(handle.result()).rejects.toMatchObject({ reason: 'reason 0' });
      const over = await handle.status();
      expect(await handle.cancel({ reason: 'again' })).toMatchObject({ changed: false });
      expect(await handle.status()).toEqual(over);
    });

    it('cancel() of an unknown or ended run returns changed: false', async () => {
      const work = task('work', () => 1);
      const { client } = await open({ tasks: [work] });
      expect(await client.cancel('nobody')).toEqual({ found: false, changed: false, status: null });
      const handle = await client.runTask(work);
      await handle.result();
      const over = await handle.status();
      expect(await handle.cancel()).toEqual({ found: true, changed: false, status: 'completed' });
      expect(await handle.status()).toEqual(over);
    });

    it('a handler that calls ctx.cancel() ends canceled, whether it returns or throws', async () => {
      const signals: boolean[] = [];
      const quits = task(
        'quits',
        async (ctx, how: 'returns' | 'throws') => {
          await ctx.cancel(`it ${how}`);
          signals.push(ctx.signal.aborted);
          if (how === 'throws') throw new Error('after its own cancel');
          return 'nothing';
        },
        { retry: { maxAttempts: 3, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [quits] });
      for (const how of ['returns', 'throws'] as const) {
        const handle = await client.runTask(quits, how);
        await expect(handle.result()).rejects.toMatchObject({ reason: `it ${how}` });
      }
      expect(signals).toEqual([true, true]);
    });

    it('ctx.cancel() after the handler has ended rejects with OUTSIDE_HANDLER', async () => {
      const kept: TaskContext[] = [];
      const work = task('work', (ctx) => void kept.push(ctx));
      const { client } = await open({ tasks: [work] });
      const handle = await client.runTask(work);
      await handle.result();
      const error: unknown = await kept[0]?.cancel('too late').catch((thrown) => thrown);
      expect(isPerdureError(error, 'OUTSIDE_HANDLER')).toBe(true);
      expect(await handle.status()).toMatchObject({ status: 'completed' });
    });

    it('a run past its point of no return completes although it is canceled', async () => {
      const [passed, mayEnd] = [makeGate(), makeGate()];
      const pay = task('pay', async (ctx) => {
        await ctx.pointOfNoReturn();
        passed.open();
        await mayEnd.opened;
        return ctx.isCanceled ? 'stopped' : 'paid';
      });
      const { client } = await open({ tasks: [pay] });
      const handle = await client.runTask(pay);
      await passed.opened;
      await handle.cancel({ reason: 'too late' });
      mayEnd.open();
      expect(await handle.result()).toBe('paid');
      expect(await handle.status()).toMatchObject({ cancel: { reason: 'too late' } });
    });

    it('a handler gets the trigger and reason of a cancel, terminate or shutdown', async () => {
      const triggers: string[] = [];
      const started = new Map(['cancel', 'shutdown', 'terminate'].map((id) => [id, makeGate()]));
      const work = task('work', async (ctx) => {
        started.get(ctx.runId)?.open();
        const { trigger, reason } = await ctx.canceled();
        triggers.push(`${ctx.runId}: ${trigger} (${reason})`);
        ctx.throwIfCanceled();
      });
      const { client, startWorker } = await open();
      const worker = await startWorker({ tasks: [work], shutdownGrace: 0 });
      for (const [id, gate] of started) {
        await client.runTask(work, undefined, { id });
        await gate.opened;
      }
      await client.cancel('cancel', { reason: 'asked' });
      await client.wait('cancel');
      await client.terminate('terminate', { reason: 'now' });
      await expect.poll(() => triggers.length).toBe(2);
      await worker.stop();
      expect(triggers).toEqual([
        'cancel: cancel (asked)',
        'terminate: cancel (now)',
        'shutdown: shutdown (the worker is shutting down)',
      ]);
    });

    it('terminate() ends a run immediately, and a late result is dropped', async () => {
      const [started, mayEnd] = [makeGate(), makeGate()];
      const ended: TaskEnded[] = [];
      const work = task('work', async () => {
        started.open();
        await mayEnd.opened;
        return 'late';
      });
      const { client, startWorker } = await open();
      const worker = await startWorker({
        tasks: [work],
        hooks: { taskEnded: (run) => ended.push(run) },
      });
      const handle = await client.runTask(work);
      await started.opened;
      expect(await handle.terminate({ reason: 'now' })).toMatchObject({ status: 'terminated' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_TERMINATED' });
      mayEnd.open();
      await worker.stop();
      expect(await handle.status()).toMatchObject({ status: 'terminated' });
      expect(ended).toEqual([]);
    });
  },
  modesWithoutTurns,
);
