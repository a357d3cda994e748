/** Seed cases about activities whose result is no longer needed; docs/seed-tests.md maps them. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { activity, event, orchestration, Perdure, type Logger } from 'perdure';
import { openSqlite } from 'perdure/sqlite';
import { createTestEnvironment, FakeClock, type TestEnvironmentOptions } from 'perdure/testing';
import { dropHints } from '../../src/testing/drop-hints.ts';

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function open(options: TestEnvironmentOptions) {
  const env = await createTestEnvironment(options);
  cleanups.push(() => env.close());
  return env;
}

const go = event('go');

/** An activity that runs until its signal is aborted, and the reason of the abort. */
function untilStopped() {
  const started = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<unknown>();
  const hold = activity('hold', async (ctx) => {
    started.resolve();
    await ctx.canceled();
    aborted.resolve(ctx.signal.reason);
    ctx.throwIfCanceled();
  });
  return { hold, started: started.promise, aborted: aborted.promise };
}

function recorder(): Logger & { readonly warnings: string[] } {
  const warnings: string[] = [];
  const quiet = (): void => undefined;
  const warn = (_fields: object, message: string): void => void warnings.push(message);
  return { warnings, debug: quiet, info: quiet, warn, error: warn };
}

it('an activity starts with a signal that is not aborted', async () => {
  const readSignal = activity('read-signal', async (ctx) => [ctx.signal.aborted, ctx.isCanceled]);
  const run = orchestration('run', async (ctx) => ctx.call(readSignal));
  const env = await open({ orchestrations: [run], activities: [readSignal] });
  expect(await env.result(await env.client.start(run))).toEqual([false, false]);
});

it('a running activity is aborted when its instance completes without it', async () => {
  const { hold, started, aborted } = untilStopped();
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(hold)]); // dropped on purpose
    await ctx.waitFor(go);
    return 'done';
  });
  const env = await open({ orchestrations: [run], activities: [hold] });
  const handle = await env.client.start(run);
  await started;
  await handle.raiseEvent(go);
  expect(await handle.result()).toBe('done');
  expect(await aborted).toMatchObject({ code: 'OPERATION_CANCELED' });
});

it('a running activity is aborted when its instance fails', async () => {
  const { hold, started, aborted } = untilStopped();
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(hold)]); // dropped on purpose
    await ctx.waitFor(go);
    throw new Error('enough');
  });
  const env = await open({ orchestrations: [run], activities: [hold] });
  const handle = await env.client.start(run);
  await started;
  await handle.raiseEvent(go);
  await expect(handle.result()).rejects.toThrow('enough');
  expect(await aborted).toMatchObject({ code: 'OPERATION_CANCELED' });
});

it('continue-as-new aborts activities of the old execution and ignores their results', async () => {
  const { hold, started, aborted } = untilStopped();
  const run = orchestration('run', async (ctx, round: number): Promise<string> => {
    if (round === 2)
      return `${String(await ctx.waitFor('answer'))} in execution ${ctx.executionId}`;
    void Promise.allSettled([ctx.call(hold)]); // dropped on purpose
    await ctx.waitFor(go);
    return await ctx.continueAsNew(2);
  });
  const env = await open({ orchestrations: [run], activities: [hold] });
  const handle = await env.client.start(run, 1);
  await started;
  await handle.raiseEvent(go);
  expect(await aborted).toMatchObject({ code: 'OPERATION_CANCELED' });
  await env.settle();
  await handle.raiseEvent('answer', 'yes');
  expect(await env.result(handle)).toBe('yes in execution 2');
  const { events } = await env.client.exportHistory(handle.id, 2);
  expect(events.map(({ kind }) => kind)).not.toContain('activityFailed');
});

it('an activity that loses a race is aborted while its instance continues', async () => {
  const { hold, started, aborted } = untilStopped();
  const run = orchestration('run', async (ctx) => {
    await ctx.race([ctx.call(hold), ctx.waitFor(go)]);
    ctx.setCustomStatus('going on');
    await ctx.waitFor('end');
  });
  const env = await open({ orchestrations: [run], activities: [hold] });
  const handle = await env.client.start(run);
  await started;
  await handle.raiseEvent(go);
  expect(await aborted).toMatchObject({ code: 'OPERATION_CANCELED' });
  await env.settle();
  expect(await handle.status()).toMatchObject({ status: 'running', customStatus: 'going on' });
});

it('the next renewal aborts a running activity when every hint is lost', async () => {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const perdure = await Perdure.open(dropHints(provider, 1), { clock });
  cleanups.push(() => perdure.close());
  const { hold, started, aborted } = untilStopped();
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(hold)]); // dropped on purpose
    await ctx.waitFor(go);
  });
  await perdure.startWorker({
    orchestrations: [run],
    activities: [hold],
    activityLease: '30s',
    orchestrationLease: '30s',
    shutdownGrace: 0,
  });
  const handle = await perdure.client.start(run);
  await started;
  await handle.raiseEvent(go);
  await handle.result();
  let isAborted = false;
  void aborted.then(() => (isAborted = true));
  await clock.advance('9s');
  expect(isAborted).toBe(false);
  await clock.advance('1s');
  expect(await aborted).toMatchObject({ code: 'OPERATION_CANCELED' });
});

it('an aborted handler that stops within its grace causes no warning', async () => {
  const { hold, started, aborted } = untilStopped();
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(hold)]); // dropped on purpose
    await ctx.waitFor(go);
  });
  const logger = recorder();
  const env = await open({ orchestrations: [run], activities: [hold], logger });
  const handle = await env.client.start(run);
  await started;
  await handle.raiseEvent(go);
  await aborted;
  await env.settle();
  await env.clock.advance('1m');
  expect(logger.warnings).toEqual([]);
});

it('an aborted handler that outlives its grace is logged, and its slot is freed', async () => {
  const started = Promise.withResolvers<void>();
  const deaf = activity('deaf', async () => {
    started.resolve();
    await new Promise(() => undefined);
  });
  const quick = activity('quick', async () => 'ran');
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(deaf)]); // dropped on purpose
    await ctx.waitFor(go);
  });
  const next = orchestration('next', async (ctx) => ctx.call(quick));
  const logger = recorder();
  const env = await open({
    orchestrations: [run, next],
    activities: [deaf, quick],
    activityConcurrency: 1,
    cancelGrace: '10s',
    logger,
  });
  const handle = await env.client.start(run);
  await started.promise;
  const waiting = await env.client.start(next);
  await handle.raiseEvent(go);
  await handle.result();
  await env.clock.advance('9s');
  expect(logger.warnings).toEqual([]);
  expect(await waiting.status()).toMatchObject({ status: 'running' });
  await env.clock.advance('2s');
  expect(logger.warnings).toEqual([expect.stringMatching(/still runs after its grace/)]);
  expect(await env.result(waiting)).toBe('ran');
});

it('a leaked handler does not block the shutdown of its worker', async () => {
  const started = Promise.withResolvers<void>();
  const deaf = activity('deaf', async () => {
    started.resolve();
    await new Promise(() => undefined);
  });
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(deaf)]); // dropped on purpose
    await ctx.waitFor(go);
  });
  const env = await open({ orchestrations: [run], activities: [deaf], cancelGrace: '1s' });
  const handle = await env.client.start(run);
  await started.promise;
  await handle.raiseEvent(go);
  await handle.result();
  await env.clock.advance('2s');
  await env.close();
  await expect(env.client.get(handle.id)).rejects.toMatchObject({ code: 'CLOSED' });
});

it('operations that share the signal of an aborted activity stop with it', async () => {
  const started = Promise.withResolvers<void>();
  const ends: string[] = [];
  const parent = activity('parent', async (ctx) => {
    const child = async (name: string) => {
      await delay(60_000, undefined, { signal: ctx.signal }).catch(() => ends.push(name));
    };
    const children = Promise.all([child('a'), child('b')]);
    started.resolve();
    await children;
  });
  const run = orchestration('run', async (ctx) => {
    void Promise.allSettled([ctx.call(parent)]); // dropped on purpose
    await ctx.waitFor(go);
  });
  const env = await open({ orchestrations: [run], activities: [parent] });
  const handle = await env.client.start(run);
  await started.promise;
  await handle.raiseEvent(go);
  await handle.result();
  await env.settle();
  expect(ends).toEqual(['a', 'b']);
});
