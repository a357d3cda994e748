import { expect, it } from 'vitest';
import type { CanceledError } from '../../src/model/failures/errors.ts';
import type { Logger } from '../../src/model/logger.ts';
import { activity, isolatedActivity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';
import { signalled } from './signalled.ts';

const module = new URL('./workers/isolated-handlers.ts', import.meta.url);

describeEngine('handlers of deleted instances', (open) => {
  it('a force delete aborts a running handler, grants its grace and frees its slot', async () => {
    const started = signalled<void>();
    const finish = signalled<void>();
    const told = signalled<unknown>();
    const outcomes: string[] = [];
    const leaks: string[] = [];
    const hold = activity('hold', async (ctx, wait: boolean) => {
      if (!wait) return 'next';
      started.resolve();
      told.resolve(await ctx.canceled());
      await finish.promise;
      return 'late';
    });
    const run = orchestration('run', async (ctx, wait: boolean) => ctx.call(hold, wait));
    const { client } = await open({
      orchestrations: [run],
      activities: [hold],
      activityConcurrency: 1,
      hooks: {
        attemptEnded: ({ outcome }) => outcomes.push(outcome),
        handlerLeaked: ({ instanceId }) => leaks.push(instanceId),
      },
    });
    const handle = await client.start(run, true, { id: 'i' });
    await started.promise;
    await client.deleteInstance('i', { force: true });
    expect(await told.promise).toMatchObject({
      trigger: 'deleted',
      reason: 'the instance of this activity was deleted',
    });
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    expect(outcomes).toEqual([]);
    finish.resolve();
    // The same id, in the freed slot.
    expect(await (await client.start(run, false, { id: 'i' })).result()).toBe('next');
    expect(outcomes).toEqual(['deleted', 'completed']);
    expect(leaks).toEqual([]);
  });

  it('a handler that outlives a force delete is reported as leaked and frees its slot', async () => {
    const started = signalled<void>();
    const finish = signalled<void>();
    const leaked = signalled<string>();
    const deaf = activity('deaf', async (_ctx, wait: boolean) => {
      if (!wait) return 'next';
      started.resolve();
      await finish.promise;
      return 'late';
    });
    const run = orchestration('run', async (ctx, wait: boolean) => ctx.call(deaf, wait));
    const { client } = await open({
      orchestrations: [run],
      activities: [deaf],
      activityConcurrency: 1,
      cancelGrace: 30,
      hooks: { handlerLeaked: ({ instanceId }) => leaked.resolve(instanceId) },
    });
    await client.start(run, true, { id: 'i' });
    await started.promise;
    await client.deleteInstance('i', { force: true });
    expect(await leaked.promise).toBe('i');
    const next = await client.start(run, false, { id: 'i' });
    expect(await next.result()).toBe('next');
    finish.resolve();
    expect(await client.get('i')).toMatchObject({ status: 'completed', output: 'next' });
  });

  it.each(['listen', 'spin'])(
    'a force delete ends the thread of an isolated handler (%s)',
    async (exportName) => {
      const work = isolatedActivity('work', { module, exportName });
      const run = orchestration('run', async (ctx) => ctx.call(work));
      const { client } = await open({
        orchestrations: [run],
        activities: [work],
        cancelGrace: exportName === 'spin' ? 20 : '1h',
      });
      await client.start(run, undefined, { id: 'i' });
      const hasThread = (): boolean => process.getActiveResourcesInfo().includes('MessagePort');
      await expect.poll(hasThread).toBe(true);
      await client.deleteInstance('i', { force: true });
      await expect.poll(hasThread).toBe(false);
    },
  );

  it.each([
    ['a force delete aborts a handler past its point of no return', 'before'],
    ['pointOfNoReturn() after a force delete rejects', 'after'],
  ] as const)('%s', async (_title, when) => {
    const ready = signalled<void>();
    const go = signalled<void>();
    const trigger = signalled<string>();
    const pay = activity('pay', async (ctx) => {
      if (when === 'before') await ctx.pointOfNoReturn();
      ready.resolve();
      await go.promise;
      if (when === 'before') trigger.resolve((await ctx.canceled()).trigger);
      else
        await ctx.pointOfNoReturn().catch((error: CanceledError) => trigger.resolve(error.trigger));
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(pay, undefined, { cancellation: 'wait' }),
    );
    const { client } = await open({ orchestrations: [run], activities: [pay] });
    await client.start(run, undefined, { id: 'i' });
    await ready.promise;
    await client.deleteInstance('i', { force: true });
    go.resolve();
    expect(await trigger.promise).toBe('deleted');
  });

  it('pruning an execution aborts its abandoned activity', async () => {
    const started = signalled<void>();
    const told = signalled<unknown>();
    const hold = activity('hold', async (ctx) => {
      started.resolve();
      told.resolve(await ctx.canceled());
      ctx.throwIfCanceled();
    });
    const gate = activity('gate', async () => started.promise);
    const run = orchestration('run', async (ctx, again: boolean): Promise<unknown> => {
      if (again) return await ctx.waitFor('go');
      void ctx.call(hold, undefined, { cancellation: 'abandon' });
      await ctx.call(gate);
      return await ctx.continueAsNew(true);
    });
    const { client } = await open({ orchestrations: [run], activities: [hold, gate] });
    const handle = await client.start(run, false, { id: 'i' });
    await expect.poll(async () => (await handle.status()).executionId).toBe(2);
    await client.pruneExecutions('i', { keepLast: 1 });
    expect(await told.promise).toMatchObject({ trigger: 'deleted' });
    await handle.raiseEvent('go', 'gone on');
    expect(await handle.result()).toBe('gone on');
  });

  it('results, retries and turns of deleted instances are dropped without a warning', async () => {
    const lines: unknown[] = [];
    // A retry that was stored before the deletion is logged. That is not a warning of the deletion.
    const isRetry = (message: string): boolean => message === 'activity attempt failed, will retry';
    const warn = (fields: object, message: string): void => {
      if (!isRetry(message)) lines.push({ fields, message });
    };
    const logger: Logger = { debug: () => undefined, info: () => undefined, warn, error: warn };
    const finishes = [signalled<void>(), signalled<void>()];
    let started = 0;
    const work = activity('work', async (_ctx, n: number) => {
      started += 1;
      await finishes[n]?.promise;
      if (n === 1) throw new Error('try again');
      return n;
    });
    const run = orchestration('run', async (ctx, n: number) => {
      if (n === 2) return await ctx.waitFor('go');
      return await ctx.call(work, n, { retry: { maxAttempts: 5, initialDelay: 1 } });
    });
    const { client } = await open({ orchestrations: [run], activities: [work], logger });
    const ids = ['completes', 'fails', 'goes on'];
    await Promise.all(ids.map((id, n) => client.start(run, n, { id })));
    await expect.poll(() => started).toBe(2);
    const raised = client.raiseEvent('goes on', 'go', null).catch(() => 'refused');
    finishes.forEach(({ resolve }) => resolve());
    await Promise.all(ids.map((id) => client.deleteInstance(id, { force: true })));
    await raised;
    // Pending acks have been committed once another instance has completed.
    await (await client.start(run, 0, { id: 'after' })).result();
    expect(lines).toEqual([]);
    expect((await client.list()).items.map(({ id }) => id)).toEqual(['after']);
    expect(await client.cancel('fails')).toEqual({ found: false, changed: false, status: null });
    expect(await client.terminate('fails')).toEqual({ found: false, changed: false, status: null });
  });
});
