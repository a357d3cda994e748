import { describe, expect, it } from 'vitest';
import { drive, kindsOf, TurnDriver } from '../../test/replay/turn-driver.ts';
import { activity } from './activity.ts';
import type { OrchestrationContext } from './orchestration-context.ts';
import { event, orchestration } from './orchestration.ts';

const charge = activity('charge', async (_, amount: number) => `charged ${amount}`);
const careful = activity('careful', async () => 'ok', {
  retry: { maxAttempts: 5, backoff: 'fixed', jitter: 0 },
  attemptTimeout: '10s',
  timeout: '1m',
});

/** Returns the code of the error that the orchestration throws or rejects with. */
async function refusalOf(code: (ctx: OrchestrationContext<void>) => unknown): Promise<unknown> {
  const run = drive(async (ctx) => code(ctx));
  const events = await run.start();
  // A rejected call records nothing.
  expect(kindsOf(events)).toEqual(['executionStarted', 'executionFailed']);
  return run.failure.code;
}

describe('ctx.call', () => {
  it('schedules an activity once, without options', async () => {
    const run = drive(async (ctx) => ctx.call(charge, 5));
    const [, scheduled] = await run.start();
    expect(scheduled).toEqual({
      kind: 'activityScheduled',
      at: 1_000,
      operation: 1,
      name: 'charge',
      payload: '5',
    });
    await run.turn(run.completed(1, 'charged 5'));
    expect(run.output).toBe('charged 5');
  });

  it('uses the defaults of the definition unless the call overrides them', async () => {
    const run = drive(async (ctx) => {
      await ctx.all([
        ctx.call(careful),
        ctx.call(careful, undefined, { retry: { maxAttempts: 1 }, timeout: '2m' }),
      ]);
    });
    expect(await run.start()).toMatchObject([
      {},
      {
        name: 'careful',
        options: {
          attemptTimeoutMs: 10_000,
          retry: { maxAttempts: 5, backoff: 'fixed', initialDelayMs: 1_000, jitter: 0 },
        },
      },
      { kind: 'timerCreated', fireAt: 61_000 },
      { options: { attemptTimeoutMs: 10_000, retry: { maxAttempts: 1 } } },
      { kind: 'timerCreated', fireAt: 121_000 },
    ]);
  });

  it('withdraws the timer of its total timeout when the activity settles first', async () => {
    for (const answer of ['completed', 'failed'] as const) {
      const run = drive(async (ctx) =>
        ctx.call(charge, 5, { timeout: '1m' }).catch((error: { code: string }) => error.code),
      );
      await run.start();
      const events = await run.turn(run[answer](1));
      expect(events[1]).toMatchObject({
        kind: 'operationWithdrawn',
        target: 2,
        targetKind: 'timer',
      });
      expect(run.output).toBe(answer === 'failed' ? 'ACTIVITY_FAILED' : undefined);
    }
  });

  it('rejects with TIMEOUT and withdraws the activity when its total timeout fires first', async () => {
    const run = drive(async (ctx) => ctx.call(charge, 5, { timeout: '1m' }));
    await run.start();
    const events = await run.turn(run.fired(2));
    expect(kindsOf(events)).toEqual(['timerFired', 'operationWithdrawn', 'executionFailed']);
    expect(events[1]).toMatchObject({ target: 1, targetKind: 'activity', trigger: 'timeout' });
    expect(run.failure).toMatchObject({
      code: 'TIMEOUT',
      message: "Activity 'charge' did not finish within 60000 ms, its timeout.",
    });
  });

  it('resolves if the activity completed in the batch in which its total timeout fires', async () => {
    const run = drive(async (ctx) => ctx.call(charge, 5, { timeout: '1m' }));
    await run.start();
    const events = await run.turn(run.fired(2), run.completed(1, 'just in time'));
    expect(kindsOf(events)).toEqual(['timerFired', 'activityCompleted', 'executionCompleted']);
    expect(run.output).toBe('just in time');
  });

  it('cancel() of a call with a total timeout withdraws the activity and the timer', async () => {
    const run = drive(async (ctx) => {
      const call = ctx.call(charge, 5, { timeout: '1m' });
      call.cancel('no longer needed');
      return call.catch((error: { code: string }) => error.code);
    });
    const events = await run.start();
    expect(events.slice(3)).toMatchObject([
      { kind: 'operationWithdrawn', target: 1, trigger: 'cancel', reason: 'no longer needed' },
      { kind: 'operationWithdrawn', target: 2, trigger: 'cancel', reason: 'no longer needed' },
      { kind: 'executionCompleted', payload: '"OPERATION_CANCELED"' },
    ]);
  });

  it('rejects unserializable inputs, invalid names and invalid options, and records nothing', async () => {
    const cycle: Record<string, unknown> = {};
    cycle['self'] = cycle;
    expect(await refusalOf((ctx) => ctx.call('a', 10n))).toBe('NOT_SERIALIZABLE');
    expect(await refusalOf((ctx) => ctx.call('a', cycle))).toBe('NOT_SERIALIZABLE');
    expect(await refusalOf((ctx) => ctx.call('a', () => 1))).toBe('NOT_SERIALIZABLE');
    expect(await refusalOf((ctx) => ctx.call(''))).toBe('INVALID_NAME');
    expect(await refusalOf((ctx) => ctx.call(undefined as never))).toBe('INVALID_INPUT');
    expect(await refusalOf((ctx) => ctx.call(event('e') as never))).toBe('INVALID_INPUT');
    expect(await refusalOf((ctx) => ctx.call('a', 1, { timeuot: 5 } as never))).toBe(
      'INVALID_OPTION',
    );
    expect(await refusalOf((ctx) => ctx.call('a', 1, { timeout: 'soon' }))).toBe(
      'INVALID_DURATION',
    );
    expect(await refusalOf((ctx) => ctx.call('a', 1, { retry: { jitter: 2 } }))).toBe(
      'INVALID_OPTION',
    );
  });

  it('rejects an input above the payload limit', async () => {
    const run = drive(async (ctx) => ctx.call('a', 'x'.repeat(200)), { payloadLimitBytes: 100 });
    await run.start();
    expect(run.failure).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
  });
});

describe('ctx.sleep and ctx.sleepUntil', () => {
  it('create timers relative to the deterministic time', async () => {
    const run = drive(async (ctx) => {
      await ctx.sleep('30d');
      await ctx.sleepUntil(new Date(5));
      await ctx.sleepUntil(ctx.now() + 1);
    });
    expect((await run.start())[1]).toMatchObject({ fireAt: 1_000 + 30 * 86_400_000 });
    expect((await run.turn(run.fired(1)))[1]).toMatchObject({ fireAt: 5 });
    expect((await run.turn(run.fired(2)))[1]).toMatchObject({ fireAt: 1_021 });
  });

  it('reject invalid times', async () => {
    expect(await refusalOf((ctx) => ctx.sleep(-5))).toBe('INVALID_DURATION');
    expect(await refusalOf((ctx) => ctx.sleep('soon'))).toBe('INVALID_DURATION');
    expect(await refusalOf((ctx) => ctx.sleepUntil(new Date('nonsense')))).toBe('INVALID_DURATION');
    expect(await refusalOf((ctx) => ctx.sleepUntil(-1))).toBe('INVALID_DURATION');
  });
});

describe('ctx.waitFor', () => {
  it('rejects with TIMEOUT and withdraws the wait', async () => {
    const run = drive(async (ctx) => ctx.waitFor(event('approved'), { timeout: '1h' }));
    await run.start();
    const events = await run.turn(run.fired(2));
    expect(events[1]).toMatchObject({ kind: 'operationWithdrawn', target: 1, targetKind: 'event' });
    expect(run.failure).toMatchObject({
      code: 'TIMEOUT',
      message: "Event 'approved' did not arrive within 3600000 ms, the timeout of the wait.",
    });
  });

  it('consumes a buffered event and withdraws the timer of its timeout', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a');
      return ctx.waitFor('approved', { timeout: '1h' });
    });
    await run.start();
    await run.turn(run.raised('approved', 'yes'), run.completed(1));
    expect(run.output).toBe('yes');
    expect(run.history.at(-2)).toMatchObject({ kind: 'operationWithdrawn', targetKind: 'timer' });
  });

  it('rejects a value that is not an event', async () => {
    expect(await refusalOf((ctx) => ctx.waitFor(charge as never))).toBe('INVALID_INPUT');
    expect(await refusalOf((ctx) => ctx.waitFor('e', { timeout: -1 }))).toBe('INVALID_DURATION');
  });
});

describe('ctx.child and ctx.startDetached', () => {
  const part = orchestration('part', async (_, n: number) => n * 2, { version: '3' });

  it('start a child with a derived id and the version of the definition', async () => {
    const run = drive(async (ctx) => ctx.all([ctx.child(part, 1), ctx.child('part', 2)]));
    expect(await run.start()).toMatchObject([
      {},
      { kind: 'childScheduled', childId: 'instance/1.1', version: '3', payload: '1' },
      { kind: 'childScheduled', childId: 'instance/1.2', version: null, payload: '2' },
    ]);
    await run.turn(run.childCompleted(2, 4), run.childCompleted(1, 2));
    expect(run.output).toEqual([2, 4]);
  });

  it('derive a different child id in every execution', async () => {
    const ids = [1, 2].map(async (executionId) => {
      const run = drive(async (ctx) => ctx.child(part, 1), { executionId });
      return (await run.start())[1];
    });
    expect(await Promise.all(ids)).toMatchObject([
      { childId: 'instance/1.1' },
      { childId: 'instance/2.1' },
    ]);
  });

  it('use an explicit id and version unchanged', async () => {
    const run = drive(async (ctx) => ctx.child(part, 1, { id: 'mine', version: '2' }));
    expect((await run.start())[1]).toMatchObject({ childId: 'mine', version: '2' });
  });

  it('resolve a detached start with its id once the store has confirmed it', async () => {
    const run = drive(async (ctx) => ctx.startDetached(part, 1, { id: 'other' }));
    expect(await run.start()).toMatchObject([
      {},
      { kind: 'detachedStarted', operation: 1, childId: 'other', name: 'part', version: '3' },
    ]);
    expect(await run.turn(run.detachedConfirmed(1))).toMatchObject([
      { kind: 'detachedConfirmed', operation: 1 },
      { kind: 'executionCompleted', payload: '"other"' },
    ]);
  });

  it('reject a detached start whose id is taken with INSTANCE_ALREADY_EXISTS', async () => {
    const run = drive(async (ctx) => ctx.startDetached(part, 1, { id: 'taken' }));
    await run.start();
    await run.turn(run.detachedFailed(1, { message: 'it is taken' }));
    expect(run.failure).toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
      message: 'it is taken',
    });
  });

  it('do not cancel a detached instance when the wait for its start is canceled', async () => {
    const run = drive(async (ctx) => ctx.startDetached(part, 1, { id: 'other' }));
    await run.start();
    expect(await run.turn(run.cancel())).toMatchObject([
      { kind: 'cancelRequested' },
      { kind: 'operationWithdrawn', target: 1, targetKind: 'detached', abandoned: true },
      { kind: 'executionCanceled' },
    ]);
  });

  it('keep a detached start of the turn that continues as new', async () => {
    const run = drive(async (ctx) => {
      void ctx.startDetached(part, 1, { id: 'other' });
      await ctx.continueAsNew();
    });
    expect(kindsOf(await run.start())).toEqual([
      'executionStarted',
      'detachedStarted',
      'executionContinuedAsNew',
    ]);
  });

  it('reject invalid ids and references', async () => {
    expect(await refusalOf((ctx) => ctx.child('part', 1, { id: '' }))).toBe('INVALID_ID');
    expect(await refusalOf((ctx) => ctx.startDetached('part', 1, { id: 'a\0' }))).toBe(
      'INVALID_ID',
    );
    expect(await refusalOf((ctx) => ctx.startDetached('part', 1, {} as never))).toBe('INVALID_ID');
    expect(await refusalOf((ctx) => ctx.child(charge as never, 1))).toBe('INVALID_INPUT');
    expect(await refusalOf((ctx) => ctx.child('part', 1n))).toBe('NOT_SERIALIZABLE');
  });
});

describe('ctx.continueAsNew', () => {
  it('ends the execution with the input and, by default, the version of the next', async () => {
    const run = drive(async (ctx, n: number) => ctx.continueAsNew(n + 1));
    await run.start(1);
    expect(run.outcome).toMatchObject({
      kind: 'executionContinuedAsNew',
      version: '1',
      payload: '2',
    });
  });

  it('can change the version', async () => {
    const run = drive(async (ctx) => ctx.continueAsNew({ any: 'input' }, { version: '2' }));
    await run.start();
    expect(run.outcome).toMatchObject({ version: '2', payload: '{"any":"input"}' });
  });

  it('takes effect despite catch, finally, a race or a return', async () => {
    const codes: readonly ((ctx: OrchestrationContext<number>) => unknown)[] = [
      async (ctx) => {
        try {
          return await ctx.continueAsNew(2);
        } catch {
          return 'caught';
        } finally {
          await ctx.call('cleanup');
        }
      },
      async (ctx) => Promise.race([ctx.continueAsNew(2), ctx.call('a'), Promise.resolve('won')]),
      async (ctx) => {
        void ctx.continueAsNew(2);
        return 'returned';
      },
      async (ctx) => {
        void ctx.continueAsNew(2);
        throw new Error('thrown');
      },
      async (ctx) => {
        void ctx.continueAsNew(2);
        void ctx.continueAsNew(3);
      },
    ];
    for (const code of codes) {
      const run = drive<number>(code);
      expect(kindsOf(await run.start(1))).toEqual(['executionStarted', 'executionContinuedAsNew']);
      expect(run.outcome).toMatchObject({ payload: '2' });
    }
  });

  it('keeps the operations issued before it in the same turn', async () => {
    const run = drive(async (ctx) => {
      void ctx.call('before');
      void ctx.continueAsNew();
      void ctx.call('after');
    });
    expect(kindsOf(await run.start())).toEqual([
      'executionStarted',
      'activityScheduled',
      'executionContinuedAsNew',
    ]);
  });

  it('rejects an input that cannot be serialized', async () => {
    expect(await refusalOf(async (ctx) => ctx.continueAsNew(1n as never))).toBe('NOT_SERIALIZABLE');
  });
});

describe('ctx', () => {
  it('has its instance, execution, name and version', async () => {
    const definition = orchestration(
      'named',
      async (ctx) => [ctx.instanceId, ctx.executionId, ctx.name, ctx.version],
      { version: '7' },
    );
    const run = new TurnDriver(definition, { instanceId: 'i', executionId: 3 });
    await run.start();
    expect(run.output).toEqual(['i', 3, 'named', '7']);
  });

  it('isReplaying is true only during replay', async () => {
    const seen: boolean[] = [];
    const run = drive(
      async (ctx) => {
        seen.push(ctx.isReplaying);
        await ctx.call('a');
        seen.push(ctx.isReplaying);
        await ctx.call('b');
      },
      { alwaysReplay: false },
    );
    await run.start();
    const cold = await run.replayed();
    await cold.turn({ messages: [run.completed(1)], nowMs: 1, version: '1' });
    expect(seen).toEqual([false, true, false]);
  });

  it('setCustomStatus is recorded in order', async () => {
    const run = drive(async (ctx) => {
      ctx.setCustomStatus({ done: 1 });
      await ctx.call('a');
      ctx.setCustomStatus(undefined);
    });
    expect((await run.start())[1]).toMatchObject({
      kind: 'customStatusSet',
      payload: '{"done":1}',
    });
    expect((await run.turn(run.completed(2)))[1]).toMatchObject({ payload: null });
    expect(await refusalOf((ctx) => ctx.setCustomStatus(Symbol('x')))).toBe('NOT_SERIALIZABLE');
  });
});

describe('ctx.isCanceled and ctx.throwIfCanceled', () => {
  it('report a cancel in the code and its scopes, but not in a shield', async () => {
    const run = drive(async (ctx) => {
      const seen: unknown[] = [ctx.isCanceled];
      ctx.throwIfCanceled();
      const scope = ctx.scope(async () => {
        await ctx.sleep('1m').catch(() => seen.push(ctx.isCanceled));
      });
      scope.cancel('enough');
      await scope.catch(() => seen.push(ctx.isCanceled));
      // A pending `wait` operation still settles after the cancel; only isCanceled reveals it.
      await ctx.call('charge', undefined, { cancellation: 'wait' });
      seen.push(ctx.isCanceled);
      await ctx.shield(async () => {
        seen.push(ctx.isCanceled);
        ctx.throwIfCanceled();
        await ctx.call('tell', seen);
      });
      ctx.throwIfCanceled();
    });
    await run.start();
    const call = 2;
    await run.turn(run.cancel('no more'), run.completed(call, 'receipt'));
    const told = run.history.findLast((one) => one.kind === 'activityScheduled');
    expect(JSON.parse(told?.payload ?? 'null')).toEqual([false, true, false, true, false]);
    await run.turn(run.completed(told?.operation ?? 0));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'no more' });
  });

  it('throw outside the code and turn of their own orchestration', async () => {
    let context: OrchestrationContext<void> | undefined;
    const run = drive(async (ctx) => {
      context = ctx;
      await ctx.sleep('1m');
    });
    await run.start();
    expect(() => context?.isCanceled).toThrow(/was called/);
  });
});
