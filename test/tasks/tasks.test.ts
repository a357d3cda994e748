import { expect, it } from 'vitest';
import { isPerdureError } from '../../src/model/failures/errors.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';
import { makeGate } from './gate.ts';

describeEngine(
  'tasks',
  (open) => {
    const double = task('double', async (_ctx, n: number) => n * 2);

    it('a worker runs a task, and the client reads its result', async () => {
      const { client } = await open({ tasks: [double] });
      const handle = await client.runTask(double, 21, { id: 'answer' });
      expect(handle).toMatchObject({ id: 'answer', created: true });
      expect(await handle.result()).toBe(42);
      expect(await handle.status()).toMatchObject({
        id: 'answer',
        kind: 'task',
        name: 'double',
        status: 'completed',
        output: 42,
        task: { priority: 0, failures: 0, headers: {} },
      });
    });

    it('a task enqueued without a worker runs on the first worker that has it', async () => {
      const { client, startWorker } = await open({ tasks: [task('other', () => undefined)] });
      const handle = await client.runTask('double', 4);
      expect(await handle.status()).toMatchObject({ status: 'pending' });
      await startWorker({ tasks: [double] });
      expect(await handle.result()).toBe(8);
    });

    it('runTask() with a taken id returns the run for equal input, rejects otherwise', async () => {
      const { client } = await open({ tasks: [double] });
      const first = await client.runTask(double, 1, { id: 'one' });
      const again = await client.runTask(double, 1, { id: 'one' });
      expect([first.created, again.created]).toEqual([true, false]);
      expect(await again.result()).toBe(2);
      await expect(client.runTask(double, 2, { id: 'one' })).rejects.toMatchObject({
        code: 'INSTANCE_ALREADY_EXISTS',
      });
      await expect(client.runTask('triple', 1, { id: 'one' })).rejects.toMatchObject({
        code: 'INSTANCE_ALREADY_EXISTS',
      });
    });

    it('runTasks() runs 250 tasks and returns handles in request order', async () => {
      const { client } = await open({ tasks: [double] });
      const requests = Array.from({ length: 250 }, (_, n) => ({ task: double, input: n }));
      const handles = await client.runTasks(requests);
      const results = await Promise.all(handles.map((handle) => handle.result()));
      expect(results).toEqual(requests.map(({ input }) => input * 2));
    });

    it('a task context has its run, headers, attempt and a stable idempotency key', async () => {
      const seen: object[] = [];
      const look = task(
        'look',
        async (ctx) => {
          seen.push({
            runId: ctx.runId,
            taskName: ctx.taskName,
            headers: ctx.headers,
            attempt: ctx.attempt,
            key: ctx.idempotencyKey,
            last: ctx.lastHeartbeat,
          });
          ctx.heartbeat({ reached: ctx.attempt });
          if (ctx.attempt === 1) throw new Error('once more');
        },
        { retry: { maxAttempts: 2, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [look] });
      const headers = { trace: 'abc' };
      const handle = await client.runTask(look, undefined, { id: 'r', headers });
      await handle.result();
      expect(seen).toMatchObject([
        { runId: 'r', taskName: 'look', headers, attempt: 1, last: undefined },
        { runId: 'r', taskName: 'look', headers, attempt: 2, last: { reached: 1 } },
      ]);
      expect(new Set(seen.map((one) => (one as { key: string }).key)).size).toBe(1);
      expect(await handle.status()).toMatchObject({ task: { failures: 1, headers } });
    });

    it('a task that fails every attempt ends as failed with its last error', async () => {
      let attempts = 0;
      const broken = task(
        'broken',
        () => {
          attempts += 1;
          throw Object.assign(new Error(`attempt ${attempts}`), { code: 'NO_LUCK' });
        },
        { retry: { maxAttempts: 3, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [broken] });
      const handle = await client.runTask(broken);
      await expect(handle.result()).rejects.toMatchObject({
        code: 'INSTANCE_FAILED',
        subject: 'broken',
        failure: { message: 'attempt 3', code: 'NO_LUCK' },
      });
      expect(attempts).toBe(3);
      expect(await handle.status()).toMatchObject({ status: 'failed', task: { failures: 3 } });
    });

    it('an attempt beyond attemptTimeout gets trigger timeout and is retried', async () => {
      const triggers: string[] = [];
      const slow = task(
        'slow',
        async (ctx) => {
          if (ctx.attempt === 2) return 'second';
          const { trigger } = await ctx.canceled();
          triggers.push(trigger);
          return ctx.throwIfCanceled();
        },
        { attemptTimeout: 20, retry: { maxAttempts: 2, initialDelay: 1 } },
      );
      const { client } = await open({ tasks: [slow] });
      expect(await (await client.runTask(slow)).result()).toBe('second');
      expect(triggers).toEqual(['timeout']);
    });

    it('tasks run by priority, and in order of creation among equals', async () => {
      const order: string[] = [];
      const note = task('note', (_ctx, name: string) => void order.push(name), { priority: 5 });
      const { client, startWorker } = await open();
      const runs = [
        { input: 'default' },
        { input: 'low', options: { priority: 0 } },
        { input: 'high', options: { priority: 100 } },
        { input: 'low too', options: { priority: 0 } },
        { input: 'high too', options: { priority: 100 } },
      ];
      const handles = await client.runTasks(runs.map((run) => ({ task: note, ...run })));
      await startWorker({ tasks: [note], activityConcurrency: 1 });
      await Promise.all(handles.map((handle) => handle.result()));
      expect(order).toEqual(['high', 'high too', 'default', 'low', 'low too']);
    });

    it('a worker runs queued activities and tasks in order of priority', async () => {
      const order: string[] = [];
      const note = task('note', (_ctx, name: string) => void order.push(name));
      const step = activity('step', (_ctx, name: string) => void order.push(name), {
        priority: 30,
      });
      const run = orchestration('run', async (ctx) => {
        await ctx.all([
          ctx.call(step, 'activity 30'),
          ctx.call(step, 'activity 90', { priority: 90 }),
          ctx.call(step, 'activity 0', { priority: 0 }),
        ]);
      });
      const { client, startWorker } = await open({ orchestrations: [run] });
      const instance = await client.start(run);
      // The activities are queued once the turn has committed.
      await expect.poll(async () => (await client.history(instance.id)).items.length).toBe(4);
      const tasks = await client.runTasks([
        { task: note, input: 'task 60', options: { priority: 60 } },
        { task: note, input: 'task 10', options: { priority: 10 } },
      ]);
      await startWorker({ activities: [step], tasks: [note], activityConcurrency: 1 });
      await Promise.all([instance, ...tasks].map((handle) => handle.result()));
      expect(order).toEqual(['activity 90', 'task 60', 'activity 30', 'task 10', 'activity 0']);
    });

    it('a delayed run does not start before its time', async () => {
      const { client } = await open({ tasks: [double] });
      const delayed = await client.runTask(double, 1, { delay: '1s' });
      const dated = await client.runTask(double, 1, { runAt: new Date(Date.now() + 1_000) });
      for (const handle of [delayed, dated]) {
        await handle.result();
        const { createdAt, startedAt = 0, task: info } = await handle.status();
        expect(startedAt).toBeGreaterThanOrEqual(info?.runAt ?? Infinity);
        expect(info?.runAt).toBeGreaterThan(createdAt);
      }
    });

    it('a run not started within expiresIn ends as expired, and result() rejects', async () => {
      const { client } = await open({ tasks: [task('other', () => undefined)] });
      const handle = await client.runTask('nobody has it', 1, { expiresIn: 30 });
      const error: unknown = await handle.result({ timeout: '10s' }).catch((thrown) => thrown);
      expect(isPerdureError(error, 'TASK_EXPIRED')).toBe(true);
      expect(await handle.status()).toMatchObject({ status: 'expired' });
      expect(await handle.cancel()).toEqual({ found: true, changed: false, status: 'expired' });
    });

    it('a run that started in time does not expire', async () => {
      const slow = task('slow', async () => {
        await new Promise((resolve) => setTimeout(resolve, 1_200));
        return 'done';
      });
      const { client } = await open({ tasks: [slow] });
      const handle = await client.runTask(slow, undefined, { expiresIn: '1s' });
      expect(await handle.result()).toBe('done');
    });

    it('a run whose condition returns false is skipped without calling its handler', async () => {
      let calls = 0;
      const picky = task('picky', () => void (calls += 1), {
        condition: (input: { wanted: boolean }) => input.wanted,
      });
      const { client } = await open({ tasks: [picky] });
      const unwanted = await client.runTask(picky, { wanted: false });
      await expect(unwanted.result()).rejects.toMatchObject({ code: 'TASK_SKIPPED' });
      expect(await unwanted.status()).toMatchObject({ status: 'skipped' });
      expect(calls).toBe(0);
      await (await client.runTask(picky, { wanted: true })).result();
      expect(calls).toBe(1);
    });

    it('a condition that throws or returns no boolean fails with CONDITION_FAILED', async () => {
      const retry = { maxAttempts: 5, initialDelay: 1 };
      const throws = task('throws', () => 'never', {
        retry,
        condition: () => {
          throw new Error('no such flag');
        },
      });
      const vague = task('vague', () => 'never', {
        retry,
        // @ts-expect-error: a condition returns a boolean.
        condition: () => 'perhaps',
      });
      const { client } = await open({ tasks: [throws, vague] });
      await expect((await client.runTask(throws)).result()).rejects.toMatchObject({
        failure: { code: 'CONDITION_FAILED', cause: { message: 'no such flag' } },
      });
      await expect((await client.runTask(vague)).result()).rejects.toMatchObject({
        failure: { code: 'CONDITION_FAILED' },
      });
    });

    it('concurrency limits the parallel runs of its task and no other task', async () => {
      let running = 0;
      let most = 0;
      const narrow = task(
        'narrow',
        async () => {
          running += 1;
          most = Math.max(most, running);
          await new Promise((resolve) => setTimeout(resolve, 5));
          running -= 1;
        },
        { concurrency: 2 },
      );
      const { client } = await open({ tasks: [narrow, double] });
      const narrows = await client.runTasks(Array.from({ length: 12 }, () => ({ task: narrow })));
      expect(await (await client.runTask(double, 2)).result()).toBe(4);
      await Promise.all(narrows.map((handle) => handle.result()));
      expect(most).toBe(2);
    });

    it('tasks with and without concurrency share the slots of their worker', async () => {
      let running = 0;
      let most = 0;
      const work = task('work', async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, 3));
        running -= 1;
      });
      const gated = task('gated', (ctx) => work.handler(ctx), { concurrency: 5 });
      const { client } = await open({ tasks: [work, gated], activityConcurrency: 3 });
      const handles = await client.runTasks(
        Array.from({ length: 20 }, (_, n) => ({ task: n % 2 === 0 ? work : gated })),
      );
      await Promise.all(handles.map((handle) => handle.result()));
      expect(most).toBe(3);
    });

    it.each([{ concurrency: 5 }, { circuitBreaker: {} }])(
      'the backlog of a task with %o does not delay a run of higher priority',
      async (bounds) => {
        const order: string[] = [];
        const urgent = task('urgent', () => void order.push('urgent'), { priority: 1 });
        const bounded = task(
          'bounded',
          async (ctx, n: number) => {
            order.push(`bounded ${n}`);
            if (n === 2) await ctx.client.runTask(urgent);
          },
          bounds,
        );
        const { client, startWorker } = await open();
        const backlog = await client.runTasks(
          Array.from({ length: 10 }, (_, n) => ({ task: bounded, input: n })),
        );
        await startWorker({ tasks: [urgent, bounded], activityConcurrency: 1 });
        await Promise.all(backlog.map((handle) => handle.result()));
        expect(order.slice(2, 5)).toEqual(['bounded 2', 'urgent', 'bounded 3']);
      },
    );

    it('list() filters task runs by kind and status', async () => {
      const { client } = await open({ tasks: [double] });
      const handle = await client.runTask(double, 1, { id: 'gone', dedupeKey: 'k' });
      await handle.result();
      const { items } = await client.list({ kind: 'task', status: 'completed' });
      expect(items.map(({ id }) => id)).toEqual(['gone']);
      expect((await client.list({ kind: 'orchestration' })).items).toEqual([]);
    });

    it('a handler can run other tasks through ctx.client', async () => {
      const parent = task('parent', async (ctx, n: number) => {
        const child = await ctx.client.runTask(double, n, { id: `${ctx.runId}/child` });
        return child.id;
      });
      const { client } = await open({ tasks: [double, parent] });
      const childId = await (await client.runTask(parent, 5, { id: 'p' })).result();
      expect(await client.handle(double, childId).result()).toBe(10);
    });

    it('stop() releases an unfinished run, and another worker runs it immediately', async () => {
      const started = makeGate();
      const held = task('held', async (ctx) => {
        if (ctx.attempt === 1 && ctx.lastHeartbeat === undefined) {
          ctx.heartbeat('seen');
          started.open();
          await ctx.canceled();
          ctx.throwIfCanceled();
        }
        return 'done elsewhere';
      });
      const { client, startWorker } = await open();
      const worker = await startWorker({ tasks: [held], shutdownGrace: 0 });
      const handle = await client.runTask(held);
      await started.opened;
      await worker.stop();
      expect(await handle.status()).toMatchObject({ status: 'running', task: { failures: 0 } });
      await startWorker({ tasks: [held] });
      expect(await handle.result()).toBe('done elsewhere');
    });
  },
  modesWithoutTurns,
);
