import { setTimeout as realDelay } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { drive } from '../../test/replay/turn-driver.ts';
import { silentLogger } from '../model/logger.ts';
import { activity } from '../orchestration/activity.ts';
import { event, orchestration } from '../orchestration/orchestration.ts';
import {
  createTestEnvironment,
  outstandingOperations,
  type TestEnvironment,
  type TestEnvironmentOptions,
} from './test-environment.ts';

const startAt = Date.UTC(2030, 0, 1);
const dayMs = 86_400_000;

const opened: TestEnvironment[] = [];
afterEach(async () => {
  for (const env of opened.splice(0)) await env.close();
});

async function open(options: TestEnvironmentOptions): Promise<TestEnvironment> {
  const env = await createTestEnvironment(options);
  opened.push(env);
  return env;
}

describe('TestEnvironment.start()', () => {
  it('starts an instance and resolves once it waits', async () => {
    const states: string[] = [];
    const note = activity('note', async (_ctx, state: string) => void states.push(state));
    const month = orchestration('month', async (ctx, days: number) => {
      await ctx.call(note, 'begun');
      await ctx.sleep(days * dayMs);
      return 'over';
    });
    const env = await open({ orchestrations: [month], activities: [note] });
    const handle = await env.start(month, 30, { id: 'm' });
    expect(states).toEqual(['begun']);
    await env.advance('30d');
    expect(await handle.result()).toBe('over');
    expect(handle.id).toBe('m');
  });
});

describe('TestEnvironment.result()', () => {
  it('skips a sleep of 30 days and stops at its end', async () => {
    const month = orchestration('month', async (ctx) => {
      await ctx.sleep('30d');
      return ctx.now();
    });
    const env = await open({ orchestrations: [month] });
    expect(await env.result(await env.client.start(month))).toBe(startAt + 30 * dayMs);
    expect(env.clock.now()).toBe(startAt + 30 * dayMs);
  });

  it('skips to the timeout of an instance', async () => {
    const waits = orchestration('waits', async (ctx) => ctx.waitFor('never'));
    const env = await open({ orchestrations: [waits] });
    const handle = await env.client.start(waits, undefined, { timeout: '30d' });
    await expect(env.result(handle)).rejects.toMatchObject({ trigger: 'timeout' });
    expect(env.clock.now()).toBe(startAt + 30 * dayMs);
  });

  it('skips three months of daily work, one activity a day', async () => {
    const days: number[] = [];
    const note = activity('note', async (_ctx, day: number) => void days.push(day));
    const months = orchestration('months', async (ctx) => {
      for (let day = 1; day <= 90; day += 1) {
        await ctx.sleep('1d');
        await ctx.call(note, day);
      }
    });
    const env = await open({ orchestrations: [months], activities: [note] });
    await env.result(await env.client.start(months));
    expect(days).toHaveLength(90);
    expect(env.clock.now()).toBe(startAt + 90 * dayMs);
  });

  it('skips the backoff between attempts', async () => {
    const attemptsAt: number[] = [];
    const flaky = activity('flaky', async (ctx) => {
      attemptsAt.push(env.clock.now() - startAt);
      if (ctx.attempt < 5) throw new Error('not yet');
      return 'at last';
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(flaky, undefined, {
        retry: { maxAttempts: 5, initialDelay: '1m', maxDelay: '5m', jitter: 0 },
      }),
    );
    const env = await open({ orchestrations: [run], activities: [flaky] });
    expect(await env.result(await env.client.start(run))).toBe('at last');
    expect(attemptsAt).toEqual([0, 60_000, 180_000, 420_000, 720_000]);
  });

  it('times out a wait for an event at its deadline', async () => {
    const run = orchestration('run', async (ctx) => {
      const outcome = await ctx.waitFor('answer', { timeout: '2h' }).catch(() => 'no answer');
      return [outcome, ctx.now() - startAt];
    });
    const env = await open({ orchestrations: [run] });
    expect(await env.result(await env.client.start(run))).toEqual(['no answer', 7_200_000]);
  });

  it('waits for the real I/O of an activity without firing its timeout', async () => {
    const slow = activity('slow', async () => {
      await realDelay(60);
      return 'from outside';
    });
    const run = orchestration('run', async (ctx) => {
      const result = await ctx.call(slow, undefined, { timeout: '10s', attemptTimeout: '5s' });
      return [result, ctx.now() - startAt];
    });
    const env = await open({ orchestrations: [run], activities: [slow] });
    expect(await env.result(await env.client.start(run))).toEqual(['from outside', 0]);
  });

  it('waits for parallel activities with real I/O of different lengths', async () => {
    const io = activity('io', async (_ctx, ms: number) => {
      await realDelay(ms);
      return env.clock.now() - startAt;
    });
    const run = orchestration('run', async (ctx) => {
      const quick = ctx.call(io, 5);
      const slow = ctx.call(io, 80);
      const timer = ctx.sleep('1d').then(() => 'timer');
      return await Promise.all([quick, slow, timer]);
    });
    const env = await open({ orchestrations: [run], activities: [io] });
    expect(await env.result(await env.client.start(run))).toEqual([0, 0, 'timer']);
  });

  it('resolves for concurrent callers', async () => {
    const nap = orchestration('nap', async (ctx, days: number) => {
      await ctx.sleep(days * dayMs);
      return (ctx.now() - startAt) / dayMs;
    });
    const env = await open({ orchestrations: [nap] });
    const handles = await Promise.all([3, 1, 2].map((days) => env.client.start(nap, days)));
    expect(await Promise.all(handles.map((handle) => env.result(handle)))).toEqual([3, 1, 2]);
  });

  it('rejects with the failure of the instance', async () => {
    const run = orchestration('run', async (ctx) => {
      await ctx.sleep('1d');
      throw new Error('too old');
    });
    const env = await open({ orchestrations: [run] });
    await expect(env.result(await env.client.start(run))).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: { message: 'too old' },
    });
  });

  it('rejects with the pending operations if the instance can never end', async () => {
    const go = event<string>('go');
    const run = orchestration('run', async (ctx) => {
      await ctx.sleep('1h');
      return ctx.all([ctx.waitFor(go), ctx.call('unregistered', 1)]);
    });
    const env = await open({ orchestrations: [run] });
    const handle = await env.client.start(run, undefined, { id: 'stuck' });
    await expect(env.result(handle)).rejects.toMatchObject({
      code: 'TIMEOUT',
      message: expect.stringMatching(/"stuck".*event "go", activity "unregistered"/) as string,
    });
    await handle.raiseEvent(go, 'late');
    await expect(env.result(handle)).rejects.toThrow(/waits for activity "unregistered"\./);
  });

  it('fails an instance whose code is nondeterministic', async () => {
    const step = activity('step', async () => undefined);
    const other = activity('other', async () => undefined);
    let runs = 0;
    const forgetful = orchestration('forgetful', async (ctx) => {
      runs += 1;
      const isFirstRun = runs <= 2;
      await ctx.call(step);
      await ctx.call(isFirstRun ? step : other);
      await ctx.sleep('1d');
    });
    const env = await open({ orchestrations: [forgetful], activities: [step, other] });
    const handle = await env.client.start(forgetful);
    await expect(env.result(handle)).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: { code: 'NONDETERMINISM' },
    });
  });
});

describe('TestEnvironment.advance()', () => {
  it('fires every timer on the way and stops at the exact time', async () => {
    const ticks: number[] = [];
    const tick = activity('tick', async () => void ticks.push(env.clock.now() - startAt));
    const clockwork = orchestration('clockwork', async (ctx): Promise<void> => {
      for (;;) {
        await ctx.sleep('1h');
        await ctx.call(tick);
      }
    });
    const env = await open({ orchestrations: [clockwork], activities: [tick] });
    await env.client.start(clockwork);
    await env.advance('3h');
    expect(ticks).toEqual([3_600_000, 7_200_000, 10_800_000]);
    await env.advance('30m');
    expect(env.clock.now()).toBe(startAt + 12_600_000);
    expect(ticks).toHaveLength(3);
  });

  it('waits for real I/O that a timer starts before time advances', async () => {
    const seenAt: number[] = [];
    const io = activity('io', async () => {
      await realDelay(10);
      seenAt.push(env.clock.now() - startAt);
    });
    const run = orchestration('run', async (ctx) => {
      for (let i = 0; i < 3; i += 1) {
        await ctx.sleep('1d');
        await ctx.call(io);
      }
    });
    const env = await open({ orchestrations: [run], activities: [io] });
    await env.client.start(run);
    await env.advance('10d');
    expect(seenAt).toEqual([dayMs, 2 * dayMs, 3 * dayMs]);
  });

  it('rejects an invalid duration', async () => {
    const env = await open({});
    await expect(env.advance('soon')).rejects.toMatchObject({ code: 'INVALID_DURATION' });
  });
});

describe('TestEnvironment.settle()', () => {
  it('resolves once no work can start without time passing', async () => {
    const step = activity('step', async () => undefined);
    const run = orchestration('run', async (ctx) => {
      for (let i = 0; i < 10; i += 1) await ctx.call(step);
      ctx.setCustomStatus('waiting');
      await ctx.sleep('1d');
    });
    const env = await open({ orchestrations: [run], activities: [step] });
    const handle = await env.client.start(run);
    await env.settle();
    expect(await handle.status()).toMatchObject({ status: 'running', customStatus: 'waiting' });
    expect(env.clock.now()).toBe(startAt);
  });
});

describe('TestEnvironment', () => {
  it('starts its clock at startAt', async () => {
    const now = orchestration('now', async () => new Date().toISOString());
    const env = await open({ orchestrations: [now], startAt: new Date('2031-05-06T07:08:09Z') });
    expect(await env.result(await env.client.start(now))).toBe('2031-05-06T07:08:09.000Z');
  });

  it('times out a hanging activity when its clock is advanced manually', async () => {
    const hangs = activity('hangs', async (ctx) => {
      await ctx.canceled();
      ctx.throwIfCanceled();
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(hangs, undefined, { attemptTimeout: '1m' }).catch((error: Error) => error.message),
    );
    const env = await open({ orchestrations: [run], activities: [hangs] });
    const handle = await env.client.start(run);
    await env.clock.advance('1m');
    expect(await env.result(handle)).toMatch(/took longer than 60000 ms/);
  });

  it('closes immediately while an activity hangs', async () => {
    const started = Promise.withResolvers<void>();
    const hangs = activity('hangs', async () => {
      started.resolve();
      await new Promise(() => undefined);
    });
    const run = orchestration('run', async (ctx) => ctx.call(hangs));
    const env = await createTestEnvironment({ orchestrations: [run], activities: [hangs] });
    await env.client.start(run);
    await started.promise;
    await env.close();
    await expect(env.client.get('x')).rejects.toMatchObject({ code: 'CLOSED' });
  });

  it('rejects with ALREADY_REGISTERED if an orchestration is registered twice', async () => {
    const twice = orchestration('twice', async () => undefined);
    await expect(createTestEnvironment({ orchestrations: [twice, twice] })).rejects.toMatchObject({
      code: 'ALREADY_REGISTERED',
    });
  });
});

describe('operation that is never awaited', () => {
  const charge = activity('chargeCard', async () => undefined);
  const careless = orchestration('careless', async (ctx) => {
    void ctx.call(charge);
    await ctx.sleep('1h');
    return 'done';
  });

  it('fails the instance with an error that names the operation', async () => {
    const env = await open({ orchestrations: [careless], activities: [charge] });
    await expect(env.result(await env.client.start(careless))).rejects.toMatchObject({
      failure: {
        code: 'NEVER_AWAITED',
        message: expect.stringContaining('activity "chargeCard"') as string,
        stack: expect.stringContaining('test-environment.test.ts:') as string,
      },
    });
  });

  it.each([true, false])(
    'is logged once with onUnawaited: warn, alwaysReplay: %s',
    async (alwaysReplay) => {
      const lines: unknown[] = [];
      const logger = {
        ...silentLogger,
        warn: (fields: unknown, message: unknown) => void lines.push([fields, message]),
      };
      const env = await open({
        orchestrations: [careless],
        activities: [charge],
        onUnawaited: 'warn',
        alwaysReplay,
        logger,
      });
      const handle = await env.client.start(careless);
      expect(await env.result(handle)).toBe('done');
      await env.settle();
      // The lines of the calls are found by a replay after the commit.
      await expect.poll(() => lines.length).toBeGreaterThan(0);
      expect(lines).toEqual([
        [
          {
            instanceId: handle.id,
            orchestration: 'careless',
            operations: ['activity "chargeCard"'],
            places: [expect.stringContaining('test-environment.test.ts:') as string],
          },
          'orchestration ended with operations that it never awaited',
        ],
      ]);
    },
  );
});

describe('outstandingOperations', () => {
  it('returns the issued operations that have neither settled nor been withdrawn', async () => {
    const run = drive(async (ctx) => {
      const later = ctx.waitFor('later');
      const both = [ctx.call('a'), ctx.child('c', 1, { id: 'the-child' })];
      await ctx.select([...both, ctx.sleep(500), later], { keepLosers: true });
      later.cancel();
      await Promise.all(both);
    });
    await run.start();
    expect(outstandingOperations(run.history)).toEqual([
      'event "later"',
      'activity "a"',
      'child "the-child"',
      'a timer for 1970-01-01T00:00:01.500Z',
    ]);
    await run.turn(run.fired(4));
    expect(outstandingOperations(run.history)).toEqual(['activity "a"', 'child "the-child"']);
    await run.turn(run.completed(2), run.childCompleted(3));
    expect(outstandingOperations(run.history)).toEqual([]);
  });

  it('excludes a wait with a buffered event, also after a withdrawn wait', async () => {
    const run = drive(async (ctx) => {
      ctx.waitFor('x').cancel();
      await ctx.call('slow');
      await ctx.waitFor('x');
      await ctx.waitFor('x');
    });
    await run.turn({ ...run.startMessage(), carried: [] }, run.raised('x'));
    await run.turn(run.completed(2));
    expect(outstandingOperations(run.history)).toEqual(['event "x"']);
    await run.turn(run.raised('x'));
    expect(outstandingOperations(run.history)).toEqual([]);
  });

  it('includes canceled operations with cancellation wait', async () => {
    const run = drive(async (ctx) => {
      await Promise.all([
        ctx.call('a', 1, { cancellation: 'wait' }),
        ctx.child('c', 1, { id: 'child', cancellation: 'wait' }),
        ctx.call('b'),
        ctx.call('c', 1, { cancellation: 'abandon' }),
      ]);
    });
    await run.start();
    await run.turn(run.cancel());
    expect(outstandingOperations(run.history)).toEqual([
      'activity "a" to stop',
      'child "child" to stop',
    ]);
    await run.turn(run.canceled(1), run.childCanceled(2));
    expect(outstandingOperations(run.history)).toEqual([]);
  });
});
