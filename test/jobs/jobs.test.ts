import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { aborted, makeGate } from '../tasks/gate.ts';
import { outcomeOf } from './outcome.ts';

describeEngine(
  'jobs',
  (open) => {
    const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}!`);
    const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
    const double = task('double', async (_ctx, n: number) => n * 2);
    const sum = flow('sum')
      .input<readonly number[]>()
      .step('add', (_ctx, { input }) => input.reduce((total, n) => total + n, 0))
      .output('add');

    it('submit() runs an orchestration, a task and a flow and returns their results', async () => {
      const { client } = await open({
        orchestrations: [hello],
        activities: [greet],
        tasks: [double],
        flows: [sum],
      });
      const jobs = [
        client.submit(hello, 'World'),
        client.submit(double, 21),
        client.submit(sum, [1, 2, 3]),
        client.submit('hello', 'there'),
        client.submit('double', 4, { kind: 'task' }),
      ];
      const results = await Promise.all(jobs.map((job) => job.result()));
      expect(results).toEqual(['Hello, World!', 42, 6, 'Hello, there!', 8]);
      expect(await jobs[1]?.status()).toMatchObject({ kind: 'task', status: 'completed' });
    });

    it('result() can be awaited many times, and a taken job leaves its session', async () => {
      const { client } = await open({ tasks: [double] });
      const job = client.submit(double, 3);
      expect(await Promise.all([job.result(), job.result()])).toEqual([6, 6]);
      expect(await job.result()).toBe(6);
      job.close();
      await expect.poll(() => client.sessions.jobs(job.sessionId)).toEqual({ items: [] });
      expect(await job.status()).toMatchObject({ status: 'completed', output: 6 });
    });

    it('close() before the result cancels the job and aborts its handler', async () => {
      const started = makeGate();
      const stopped = makeGate();
      const endless = task('endless', async ({ signal }) => {
        started.open();
        await aborted(signal);
        stopped.open();
      });
      const { client } = await open({ tasks: [endless] });
      const job = client.submit(endless);
      await started.opened;
      expect(job.close()).toBeUndefined();
      job.close();
      await stopped.opened;
      const info = await client.wait(job.id);
      expect(info).toMatchObject({
        status: 'canceled',
        cancel: { reason: 'closed by its caller' },
      });
      await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CLOSED' });
      expect(() => job.stream()).toThrow(expect.objectContaining({ code: 'JOB_CLOSED' }));
    });

    it('result() that times out leaves the job running until close() cancels it', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const { client } = await open({ tasks: [endless] });
      const job = client.submit(endless);
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
      await expect(job.result({ timeout: 5 })).rejects.toMatchObject({ code: 'TIMEOUT' });
      expect(await job.status()).toMatchObject({ status: 'running' });
      job.close();
      expect(await client.wait(job.id)).toMatchObject({ status: 'canceled' });
    });

    it('close() rejects a pending result() with JOB_CLOSED', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const { client } = await open({ tasks: [endless] });
      const job = client.submit(endless);
      const waiting = outcomeOf(job.result());
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
      job.close();
      expect(await waiting).toMatchObject({ error: { code: 'JOB_CLOSED' } });
    });

    it('await using closes the job at the end of its block', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const { client } = await open({ tasks: [endless] });
      const id = await (async () => {
        await using job = client.submit(endless);
        await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
        return job.id;
      })();
      expect(await client.wait(id)).toMatchObject({ status: 'canceled' });
    });

    it('a canceled job rejects every result() call with OPERATION_CANCELED', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const { client } = await open({ tasks: [endless] });
      const job = client.submit(endless);
      const waiting = outcomeOf(job.result());
      await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
      const stopped = await job.cancel({ reason: 'enough', wait: true });
      expect(stopped).toEqual({ found: true, changed: true, status: 'canceled' });
      expect(await waiting).toMatchObject({
        error: {
          code: 'OPERATION_CANCELED',
          reason: 'enough',
        },
      });
      await expect(job.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    });

    it('a job past its point of no return completes despite cancel() or close()', async () => {
      const passed = makeGate();
      const closed = makeGate();
      const commit = task('commit', async (ctx) => {
        await ctx.pointOfNoReturn();
        passed.open();
        await closed.opened;
        return 'written';
      });
      const { client } = await open({ tasks: [commit] });
      const [kept, left] = [client.submit(commit), client.submit(commit)];
      await passed.opened;
      await expect.poll(async () => (await client.get(left.id))?.status).toBe('running');
      await kept.cancel();
      left.close();
      closed.open();
      expect(await kept.result()).toBe('written');
      expect(await client.wait(left.id)).toMatchObject({ status: 'completed', output: 'written' });
    });

    it('result() rejects with a typed error for a failed, terminated or deleted run', async () => {
      const failing = task('failing', () => {
        throw new TypeError('no such thing');
      });
      const endless = task('endless', ({ signal }) => aborted(signal));
      const { client } = await open({ tasks: [failing, endless] });
      await expect(client.submit(failing).result()).rejects.toMatchObject({
        code: 'INSTANCE_FAILED',
        failure: { name: 'TypeError', message: 'no such thing' },
      });
      const ended = client.submit(endless);
      await expect.poll(async () => (await client.get(ended.id))?.status).toBe('running');
      await client.terminate(ended.id);
      await expect(ended.result()).rejects.toMatchObject({ code: 'INSTANCE_TERMINATED' });
      const deleted = client.submit(endless);
      await expect.poll(async () => (await client.get(deleted.id))?.status).toBe('running');
      await client.deleteInstance(deleted.id, { force: true });
      await expect(deleted.result()).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    });

    it('submit() with the id of an existing run rejects, even for equal input', async () => {
      const { client } = await open({ tasks: [double] });
      const run = await client.runTask(double, 1, { id: 'taken' });
      const job = client.submit(double, 1, { id: 'taken' });
      await expect(job.result()).rejects.toMatchObject({ code: 'INSTANCE_ALREADY_EXISTS' });
      job.close();
      expect(await run.result()).toBe(2);
    });

    it('close() and cancel() do not affect a later run with the same id', async () => {
      const release = makeGate();
      const held = task('held', async () => release.opened);
      const { client } = await open({ tasks: [held] });
      const job = client.submit(held, undefined, { id: 'reused' });
      await expect.poll(async () => (await client.get('reused'))?.status).toBe('running');
      await client.deleteInstance('reused', { force: true });
      const later = await client.runTask(held, undefined, { id: 'reused' });
      job.close();
      expect(await job.cancel()).toEqual({ found: false, changed: false, status: null });
      release.open();
      await later.result();
    });

    it('client.close() cancels submitted jobs and rejects pending results with CLOSED', async () => {
      const endless = task('endless', ({ signal }) => aborted(signal));
      const { client, reopen } = await open();
      const other = await reopen();
      await other.startWorker({ tasks: [endless] });
      const job = client.submit(endless);
      const waiting = outcomeOf(job.result());
      await expect.poll(async () => (await other.client.get(job.id))?.status).toBe('running');
      await client.close();
      expect(await waiting).toMatchObject({ error: { code: 'CLOSED' } });
      expect(await other.client.wait(job.id)).toMatchObject({
        status: 'canceled',
        cancel: { reason: 'its session was closed' },
      });
      expect(() => client.submit(endless)).toThrow(expect.objectContaining({ code: 'CLOSED' }));
    });

    it('close() cancels every job while all slots are busy and more jobs wait', async () => {
      let started = 0;
      let stopped = 0;
      const endless = task('endless', async ({ signal }) => {
        started += 1;
        await aborted(signal);
        stopped += 1;
      });
      const { client, startWorker } = await open();
      await startWorker({ tasks: [endless], activityConcurrency: 20 });
      const session = await client.openSession({ maxInFlight: 60 });
      const jobs = Array.from({ length: 100 }, () => session.submit(endless));
      await expect
        .poll(async () => (await client.list({ status: 'running' })).items)
        .toHaveLength(20);
      await expect
        .poll(async () => (await client.list({ status: 'pending' })).items)
        .toHaveLength(40);
      // A claimed run that is canceled before its handler starts ends without a call.
      await expect.poll(() => started).toBe(20);
      for (const job of jobs) job.close();
      await session.shutdown('graceful');
      const { items } = await client.list();
      expect(items.map(({ status }) => status)).toEqual(Array(60).fill('canceled'));
      // PostgreSQL closes running jobs before pending ones, so a freed slot may start a pending job.
      expect(started).toBeGreaterThanOrEqual(20);
      expect(stopped).toBe(started);
    });

    it('a handler can poll ctx.isCanceled to notice the close of its job', async () => {
      const [started, answer] = [makeGate(), makeGate<unknown>()];
      const polling = task('polling', async (ctx) => {
        started.open();
        while (!ctx.isCanceled) await new Promise((resolve) => setTimeout(resolve, 1));
        answer.open([ctx.signal.aborted, (await ctx.canceled()).reason]);
        ctx.throwIfCanceled();
      });
      const { client } = await open({ tasks: [polling] });
      const job = client.submit(polling);
      await started.opened;
      job.close();
      expect(await answer.opened).toEqual([true, 'closed by its caller']);
      expect(await client.wait(job.id)).toMatchObject({ status: 'canceled' });
    });

    it('result() of a poisoned job rejects with POISON', async () => {
      const deadly = task('deadly', () => undefined);
      const { client, tamper, startWorker } = await open();
      const job = client.submit('deadly', 1, { kind: 'task' });
      await expect.poll(() => tamper('UPDATE worker_queue SET claims = 3')).toBe(1);
      await startWorker({ tasks: [deadly], maxClaims: 3 });
      await expect(job.result()).rejects.toMatchObject({
        code: 'POISON',
        failure: { code: 'POISON' },
      });
    });

    it('each of 500 jobs gets its own result', async () => {
      const { client } = await open({ tasks: [double] });
      const jobs = Array.from({ length: 500 }, (_, n) => client.submit(double, n));
      const results = await Promise.all(jobs.map((job) => job.result()));
      expect(results).toEqual(jobs.map((_, n) => n * 2));
    });
  },
  modesWithoutTurns,
);
