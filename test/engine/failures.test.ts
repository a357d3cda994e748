import { expect, it } from 'vitest';
import { isPerdureError, PerdureError, type FailedError } from '../../src/model/failures/errors.ts';
import { activity } from '../../src/orchestration/activity.ts';
import type { CallOptions } from '../../src/orchestration/call-options.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('failures and retries', (open) => {
  const endless = activity('endless', async (ctx) => {
    await ctx.canceled();
    ctx.throwIfCanceled();
  });

  it('a failed activity rejects in the orchestration with its error and cause', async () => {
    class CardError extends Error {
      override readonly name = 'CardError';
      readonly code = 'CARD_DECLINED';
      readonly details = { last4: '4242' };
    }
    const charge = activity('charge', async () => {
      throw new CardError('declined', { cause: new TypeError('inner') });
    });
    const pay = orchestration('pay', async (ctx) => {
      try {
        await ctx.call(charge);
        return undefined;
      } catch (error) {
        const { code, message, cause } = error as Error & { code: string; cause: Error };
        const inner = cause.cause as Error;
        return {
          code,
          message,
          cause: { name: cause.name, message: cause.message },
          inner: inner.message,
        };
      }
    });
    const { client } = await open({ orchestrations: [pay], activities: [charge] });
    expect(await (await client.start(pay, undefined)).result()).toMatchObject({
      code: 'ACTIVITY_FAILED',
      message: expect.stringContaining('declined') as string,
      cause: { name: 'CardError', message: 'declined' },
      inner: 'inner',
    });
  });

  it('an uncaught activity failure fails the instance and keeps the cause', async () => {
    const boom = activity('boom', async () => {
      throw new RangeError('too far');
    });
    const run = orchestration('run', async (ctx) => await ctx.call(boom));
    const { client } = await open({ orchestrations: [run], activities: [boom] });
    const handle = await client.start(run, undefined, { id: 'x' });
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect(await client.get('x')).toMatchObject({
      status: 'failed',
      failure: { code: 'ACTIVITY_FAILED', cause: { name: 'RangeError', message: 'too far' } },
    });
  });

  it.each([
    ['undefined', undefined],
    ['a string', 'just text'],
    ['null', null],
    ['an object', { reason: 'odd' }],
  ])(
    'throwing %s in an activity or an orchestration fails the instance',
    async (_title, thrown) => {
      const boom = activity('boom', async () => {
        throw thrown as unknown as Error;
      });
      const fromActivity = orchestration('fromActivity', async (ctx) => await ctx.call(boom));
      const fromCode = orchestration('fromCode', async () => {
        throw thrown as unknown as Error;
      });
      const { client } = await open({
        orchestrations: [fromActivity, fromCode],
        activities: [boom],
      });
      for (const definition of [fromActivity, fromCode]) {
        const handle = await client.start(definition, undefined);
        await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      }
    },
  );

  it('an activity is retried until it succeeds, without adding events to the history', async () => {
    let attempts = 0;
    const flaky = activity('flaky', async () => {
      attempts += 1;
      if (attempts < 4) throw new Error(`attempt ${attempts}`);
      return attempts;
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(flaky, undefined, { retry: { maxAttempts: 5, initialDelay: 1, backoff: 'fixed' } }),
    );
    const { client } = await open({ orchestrations: [run], activities: [flaky] });
    expect(await (await client.start(run, undefined, { id: 'f' })).result()).toBe(4);
    const { items } = await client.history('f');
    expect(items.map(({ event }) => event.kind)).toEqual([
      'executionStarted',
      'activityScheduled',
      'activityCompleted',
      'executionCompleted',
    ]);
  });

  it('retries end at maxAttempts, at a nonRetryable name and at a nonRetryable error', async () => {
    const tried: string[] = [];
    const fail = activity('fail', async (_ctx, name: string) => {
      tried.push(name);
      const error = new Error('no');
      error.name = name;
      throw Object.assign(error, name === 'Final' ? { nonRetryable: true } : {});
    });
    const run = orchestration('run', async (ctx, name: string) =>
      ctx.call(fail, name, {
        retry: { maxAttempts: 3, initialDelay: 1, nonRetryable: ['Listed'] },
      }),
    );
    const { client } = await open({ orchestrations: [run], activities: [fail] });
    for (const name of ['Plain', 'Listed', 'Final']) {
      await expect((await client.start(run, name)).result()).rejects.toMatchObject({
        code: 'INSTANCE_FAILED',
      });
    }
    expect(tried).toEqual(['Plain', 'Plain', 'Plain', 'Listed', 'Final']);
  });

  it('nonRetryable matches error classes and their subclasses', async () => {
    class Declined extends Error {}
    class DeclinedForever extends Declined {}
    const errors = { plain: Error, declined: Declined, forever: DeclinedForever };
    const tried: string[] = [];
    const fail = activity('fail', async (_ctx, kind: keyof typeof errors) => {
      tried.push(kind);
      throw new errors[kind]('no');
    });
    const nonRetryable = [Declined, 'Other'];
    const run = orchestration('run', async (ctx, kind: keyof typeof errors) =>
      ctx.call(fail, kind, { retry: { maxAttempts: 2, initialDelay: 1, nonRetryable } }),
    );
    const { client } = await open({ orchestrations: [run], activities: [fail] });
    for (const kind of ['plain', 'declined', 'forever'] as const) {
      await expect((await client.start(run, kind)).result()).rejects.toMatchObject({
        code: 'INSTANCE_FAILED',
      });
    }
    expect(tried).toEqual(['plain', 'plain', 'declined', 'forever']);
  });

  it('an attempt beyond attemptTimeout is aborted and retried', async () => {
    const reasons: unknown[] = [];
    const slow = activity('slow', async (ctx) => {
      if (ctx.attempt === 2) return 'quick';
      await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
      reasons.push(ctx.signal.reason);
      throw new Error('stopped');
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(slow, undefined, { attemptTimeout: 20, retry: { maxAttempts: 2, initialDelay: 1 } }),
    );
    const { client } = await open({ orchestrations: [run], activities: [slow] });
    expect(await (await client.start(run, undefined)).result()).toBe('quick');
    expect(reasons).toMatchObject([{ code: 'OPERATION_CANCELED', trigger: 'timeout' }]);
  });

  it('isPerdureError(error, "TIMEOUT") is true for the attempt timeout and for the overall timeout', async () => {
    const run = orchestration('run', async (ctx, options: CallOptions) => {
      try {
        await ctx.call(endless, undefined, options);
        return 'finished';
      } catch (error) {
        return isPerdureError(error, 'TIMEOUT') && error.message;
      }
    });
    const { client } = await open({ orchestrations: [run], activities: [endless] });
    const retry = { maxAttempts: 2, initialDelay: 1 };
    const attempt = await client.start(run, { attemptTimeout: 20, retry });
    const overall = await client.start(run, { timeout: 30 });
    expect(await attempt.result()).toMatch(/'endless' failed: Attempt 2 .* longer than 20 ms/);
    expect(await overall.result()).toMatch(/30 ms/);
  });

  it('an uncaught attempt timeout fails the instance with its code and its cause', async () => {
    const run = orchestration('run', async (ctx) =>
      ctx.call(endless, undefined, { attemptTimeout: 20 }),
    );
    const { client } = await open({ orchestrations: [run], activities: [endless] });
    const error: unknown = await (
      await client.start(run)
    )
      .result()
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: { name: 'FailedError', code: 'TIMEOUT', cause: { code: 'TIMEOUT' } },
      cause: { code: 'TIMEOUT', cause: { code: 'TIMEOUT' } },
    });
  });

  it('an error that a handler throws with code TIMEOUT or POISON is ACTIVITY_FAILED', async () => {
    const fails = activity('fails', (_ctx, code: 'TIMEOUT' | 'POISON') => {
      throw new PerdureError(code, 'of its own');
    });
    const run = orchestration('run', async (ctx, code: 'TIMEOUT' | 'POISON') => {
      return await ctx
        .call(fails, code)
        .catch((error: FailedError) => [error.code, error.failure.code]);
    });
    const { client } = await open({ orchestrations: [run], activities: [fails] });
    for (const code of ['TIMEOUT', 'POISON'] as const) {
      expect(await (await client.start(run, code)).result()).toEqual(['ACTIVITY_FAILED', code]);
    }
  });

  it('the timeout of a call rejects it with TIMEOUT and aborts the handler', async () => {
    let told: (reason: unknown) => void;
    const stopped = new Promise<unknown>((resolve) => (told = resolve));
    const slow = activity('slow', async (ctx) => {
      told(await ctx.canceled());
    });
    const run = orchestration('run', async (ctx) => {
      try {
        await ctx.call(slow, undefined, { timeout: 30 });
        return 'finished';
      } catch (error) {
        return (error as { code: string }).code;
      }
    });
    const { client } = await open({
      orchestrations: [run],
      activities: [slow],
      activityLease: 300,
    });
    expect(await (await client.start(run, undefined)).result()).toBe('TIMEOUT');
    expect(await stopped).toMatchObject({ code: 'OPERATION_CANCELED' });
  });

  it('a result that is not serializable or too large fails its activity or instance', async () => {
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    const results: Record<string, unknown> = {
      cyclic,
      big: 10n,
      fn: () => 1,
      large: 'x'.repeat(3_000_000),
    };
    const make = activity('make', async (_ctx, kind: string) => results[kind]);
    const viaActivity = orchestration('viaActivity', async (ctx, kind: string) =>
      ctx.call(make, kind),
    );
    const direct = orchestration('direct', async (_ctx, kind: string) => results[kind]);
    const { client } = await open({ orchestrations: [viaActivity, direct], activities: [make] });
    for (const kind of Object.keys(results)) {
      for (const definition of [viaActivity, direct]) {
        const handle = await client.start(definition, kind);
        await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
        const info = await client.get(handle.id);
        const failure = info?.failure;
        const code = definition === direct ? failure?.code : failure?.cause?.code;
        expect(code).toBe(kind === 'large' ? 'PAYLOAD_TOO_LARGE' : 'NOT_SERIALIZABLE');
      }
    }
  });
});
