/** Seed cases about activities of a canceled instance; docs/seed-tests.md maps them. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, it } from 'vitest';
import { activity, orchestration, Perdure, type Logger } from 'perdure';
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

function recorder(): Logger & { readonly warnings: string[] } {
  const warnings: string[] = [];
  const quiet = (): void => undefined;
  const warn = (_fields: object, message: string): void => void warnings.push(message);
  return { warnings, debug: quiet, info: quiet, warn, error: warn };
}

/** `all` resolves after `expected` calls of `arrive`. */
function gate(expected: number) {
  const all = Promise.withResolvers<void>();
  let count = 0;
  return {
    get count() {
      return count;
    },
    arrive: (): void => {
      count += 1;
      if (count === expected) all.resolve();
    },
    all: all.promise,
  };
}

it('cancel() of an instance stops its running activity', async () => {
  const started = Promise.withResolvers<void>();
  const ends: string[] = [];
  const long = activity('long', async (ctx) => {
    started.resolve();
    try {
      await delay(3_600_000, undefined, { signal: ctx.signal });
      ends.push('ran to its end');
    } catch (error) {
      ends.push('stopped');
      throw error;
    }
  });
  const run = orchestration('run', async (ctx) => ctx.call(long));
  const env = await open({ orchestrations: [run], activities: [long] });
  const handle = await env.client.start(run);
  await started.promise;
  await handle.cancel({ reason: 'enough' });
  await expect(handle.result()).rejects.toMatchObject({
    code: 'OPERATION_CANCELED',
    reason: 'enough',
  });
  expect(ends).toEqual(['stopped']);
});

it('a handler that polls isCanceled sees the cancel within one renewal', async () => {
  const clock = new FakeClock();
  const perdure = await Perdure.open(dropHints(await openSqlite({ path: ':memory:', clock }), 1), {
    clock,
  });
  cleanups.push(() => perdure.close());
  const started = Promise.withResolvers<void>();
  const left = Promise.withResolvers<unknown>();
  let rounds = 0;
  const loop = activity('loop', async (ctx) => {
    started.resolve();
    for (; !ctx.isCanceled; rounds += 1) await delay(1);
    left.resolve(ctx.signal.reason);
    ctx.throwIfCanceled();
  });
  const run = orchestration('run', async (ctx) => ctx.call(loop));
  const lease = { activityLease: '30s', shutdownGrace: 0 } as const;
  await perdure.startWorker({ orchestrations: [run], activities: [loop], ...lease });
  const handle = await perdure.client.start(run);
  await started.promise;
  await handle.cancel({ reason: 'leave' });
  // Every hint is lost: the renewal at a third of the lease delivers the cancel.
  let hasLeft = false;
  void left.promise.then(() => (hasLeft = true));
  await clock.advance('9s');
  expect(hasLeft).toBe(false);
  expect(rounds).toBeGreaterThan(0);
  await clock.advance('1s');
  expect(await left.promise).toMatchObject({ trigger: 'cancel', reason: 'leave' });
});

it('a canceled handler that stops within its grace causes no warning', async () => {
  const started = Promise.withResolvers<void>();
  const logger = recorder();
  const tidy = activity('tidy', async (ctx) => {
    started.resolve();
    await ctx.canceled();
    await delay(20);
    ctx.throwIfCanceled();
  });
  const run = orchestration('run', async (ctx) => ctx.call(tidy));
  const env = await open({ orchestrations: [run], activities: [tidy], logger });
  const handle = await env.client.start(run);
  await started.promise;
  await handle.cancel({ wait: true });
  await env.clock.advance('1m');
  expect(logger.warnings).toEqual([]);
  expect(await handle.status()).not.toHaveProperty('leaked');
});

it('a canceled handler that ignores its signal is logged, and its slot is freed', async () => {
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const logger = recorder();
  const ends: string[] = [];
  const deaf = activity('deaf', async () => {
    started.resolve();
    await finish.promise;
    ends.push('went on');
  });
  const quick = activity('quick', async () => 'ran');
  const run = orchestration('run', async (ctx) => ctx.call(deaf));
  const next = orchestration('next', async (ctx) => ctx.call(quick));
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
  await handle.cancel();
  await env.clock.advance('9s');
  expect(await handle.status()).toMatchObject({ status: 'canceling', running: [{ name: 'deaf' }] });
  expect(await waiting.status()).toMatchObject({ status: 'running' });
  await env.clock.advance('2s');
  expect(logger.warnings).toEqual([expect.stringMatching(/still runs after its grace/)]);
  expect(await env.result(waiting)).toBe('ran');
  expect(await handle.status()).toMatchObject({ status: 'canceled', leaked: 1 });
  // A leaked handler runs on, but no longer affects its instance.
  finish.resolve();
  await expect.poll(() => ends).toEqual(['went on']);
  expect(await handle.status()).toMatchObject({ status: 'canceled', leaked: 1 });
});

it('an activity that completes before it sees the cancel counts as completed', async () => {
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  const brief = activity('brief', async () => {
    started.resolve();
    await finish.promise;
    return 'made it';
  });
  const run = orchestration('run', async (ctx) =>
    ctx.call(brief, undefined, { cancellation: 'wait' }),
  );
  // Every hint is lost, and the next renewal is far away.
  const store = dropHints(await openSqlite({ path: ':memory:' }), 1);
  const perdure = await Perdure.open(store, { pollInterval: 5 });
  cleanups.push(() => perdure.close());
  await perdure.startWorker({ orchestrations: [run], activities: [brief], shutdownGrace: 0 });
  const handle = await perdure.client.start(run);
  await started.promise;
  await handle.cancel();
  finish.resolve();
  expect(await handle.result()).toBe('made it');
});

it('cancel() aborts three parallel activities, and each ends independently', async () => {
  const running = gate(3);
  const logger = recorder();
  const ends: string[] = [];
  const part = activity('part', async (ctx, how: string) => {
    running.arrive();
    await ctx.canceled();
    if (how === 'deaf') await new Promise(() => undefined);
    if (how === 'slow') await delay(20);
    ends.push(how);
    ctx.throwIfCanceled();
  });
  const run = orchestration('run', async (ctx) =>
    Promise.all(['quick', 'slow', 'deaf'].map((how) => ctx.call(part, how))),
  );
  const env = await open({
    orchestrations: [run],
    activities: [part],
    cancelGrace: '10s',
    logger,
  });
  const handle = await env.client.start(run);
  await running.all;
  await handle.cancel();
  await expect.poll(() => ends).toEqual(['quick', 'slow']);
  await expect
    .poll(async () => (await handle.status()).running?.map(({ operation }) => operation))
    .toEqual([3]);
  await env.clock.advance('11s');
  expect(await handle.status()).toMatchObject({ status: 'canceled', leaked: 1 });
  expect(logger.warnings).toHaveLength(1);
});

it('operations that share the signal of a canceled activity stop with it', async () => {
  const running = gate(2);
  const ends: string[] = [];
  const parent = activity('parent', async (ctx) => {
    const child = async (name: string): Promise<void> => {
      running.arrive();
      await delay(60_000, undefined, { signal: ctx.signal }).catch(() => ends.push(name));
    };
    await Promise.all([child('a'), child('b')]);
    ctx.throwIfCanceled();
  });
  const run = orchestration('run', async (ctx) => ctx.call(parent));
  const env = await open({ orchestrations: [run], activities: [parent] });
  const handle = await env.client.start(run);
  await running.all;
  await handle.cancel({ wait: true });
  expect(ends).toEqual(['a', 'b']);
  expect(await handle.status()).toMatchObject({ status: 'canceled' });
});

it('canceling 100 instances with five activities each leaks no slot or timer', async () => {
  const running = gate(500);
  const again = gate(500);
  let aborted = 0;
  const hold = activity('hold', async (ctx) => {
    running.arrive();
    await ctx.canceled();
    aborted += 1;
    ctx.throwIfCanceled();
  });
  // Completes only if all 500 run concurrently, so every slot must be free again.
  const meet = activity('meet', async () => {
    again.arrive();
    await again.all;
  });
  const holds = orchestration('holds', async (ctx) =>
    ctx.all([1, 2, 3, 4, 5].map(() => ctx.call(hold))),
  );
  const meets = orchestration('meets', async (ctx) => {
    await ctx.all([1, 2, 3, 4, 5].map(() => ctx.call(meet)));
    return 'met';
  });
  const env = await open({
    orchestrations: [holds, meets],
    activities: [hold, meet],
    activityConcurrency: 500,
    alwaysReplay: false,
  });
  await env.settle();
  const idleAlarms = env.clock.alarmCount;
  const handles = await Promise.all(Array.from({ length: 100 }, () => env.client.start(holds)));
  await running.all;
  const answers = await Promise.all(handles.map((handle) => handle.cancel()));
  expect(answers.every(({ changed }) => changed)).toBe(true);
  const ends = await Promise.all(handles.map(({ id }) => env.client.wait(id)));
  expect(ends.map(({ status }) => status)).toEqual(ends.map(() => 'canceled'));
  expect(aborted).toBe(500);
  await env.advance('1m');
  expect(env.clock.alarmCount).toBe(idleAlarms);
  const others = await Promise.all(Array.from({ length: 100 }, () => env.client.start(meets)));
  expect(await Promise.all(others.map((handle) => handle.result()))).toEqual(
    others.map(() => 'met'),
  );
});

it('cancel() reaches activities that hold all slots, and queued work then completes', async () => {
  const running = gate(4);
  const hold = activity('hold', async (ctx) => {
    running.arrive();
    await ctx.canceled();
    ctx.throwIfCanceled();
  });
  const quick = activity('quick', async (_ctx, n: number) => n);
  const holds = orchestration('holds', async (ctx) => ctx.all([ctx.call(hold), ctx.call(hold)]));
  const works = orchestration('works', async (ctx, n: number) => ctx.call(quick, n));
  const env = await open({
    orchestrations: [holds, works],
    activities: [hold, quick],
    activityConcurrency: 4,
  });
  const holders = [await env.client.start(holds), await env.client.start(holds)];
  await running.all;
  const queued = await Promise.all(
    Array.from({ length: 50 }, (_, n) => env.client.start(works, n)),
  );
  for (const { id } of queued) expect((await env.client.get(id))?.status).not.toBe('completed');
  await Promise.all(holders.map((holder) => holder.cancel()));
  for (const holder of holders) expect((await env.client.wait(holder.id)).status).toBe('canceled');
  const results = await Promise.all(queued.map((handle) => handle.result()));
  expect(results).toEqual(queued.map((_, n) => n));
});
