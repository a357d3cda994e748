import { describe, expect, it } from 'vitest';
import { CanceledError } from '../../model/failures/errors.ts';
import type { CancellationType } from '../../model/cancel.ts';
import type { Message } from '../../model/message.ts';
import { drive, kindsOf, type TurnDriver } from '../../../test/replay/turn-driver.ts';
import { isCancellation, isWithdrawal, toCanceledError } from './cancel-scope.ts';

/** Calls an activity or a child that is canceled later. Returns its outcome and that of the code after it. */
function canceledLater(kind: 'activity' | 'child', cancellation?: CancellationType): TurnDriver {
  return drive(async (ctx) => {
    const options = cancellation === undefined ? {} : { cancellation };
    const work =
      kind === 'activity'
        ? ctx.call('work', 1, options)
        : ctx.child('work', 1, { ...options, id: 'child' });
    await ctx.waitFor('stop');
    work.cancel('no more');
    const seen = await work.catch((error: Record<string, unknown>) => [
      error['code'],
      error['trigger'] ?? null,
      error['reason'] ?? null,
    ]);
    ctx.setCustomStatus('settled');
    return seen;
  });
}

describe('R14: how a withdrawn operation settles', () => {
  it.each(['activity', 'child'] as const)(
    'an %s rejects immediately by default, and its answer is not recorded',
    async (kind) => {
      for (const cancellation of [undefined, 'request'] as const) {
        const run = canceledLater(kind, cancellation);
        expect((await run.start())[1]).not.toHaveProperty('cancellation');
        const events = await run.turn(run.raised('stop'));
        expect(events[1]).toMatchObject({
          kind: 'operationWithdrawn',
          target: 1,
          targetKind: kind,
          trigger: 'cancel',
          reason: 'no more',
          ...(kind === 'child' && { childId: 'child' }),
        });
        expect(events[1]).not.toHaveProperty('abandoned');
        expect(run.output).toEqual(['OPERATION_CANCELED', 'cancel', 'no more']);
      }
    },
  );

  it.each(['activity', 'child'] as const)(
    'an %s canceled as `abandon` rejects immediately, and is recorded as abandoned',
    async (kind) => {
      const run = canceledLater(kind, 'abandon');
      expect((await run.start())[1]).toMatchObject({ cancellation: 'abandon' });
      expect((await run.turn(run.raised('stop')))[1]).toMatchObject({
        kind: 'operationWithdrawn',
        abandoned: true,
      });
      expect(run.output).toEqual(['OPERATION_CANCELED', 'cancel', 'no more']);
    },
  );

  const answers: readonly [string, (run: TurnDriver) => Message, unknown][] = [
    ['activity', (run) => run.completed(1, 'done after all'), 'done after all'],
    ['activity', (run) => run.failed(1), ['ACTIVITY_FAILED', null, null]],
    [
      'activity',
      (run) => run.canceled(1, { trigger: 'timeout', reason: 'x' }),
      ['OPERATION_CANCELED', 'timeout', 'x'],
    ],
    ['child', (run) => run.childCompleted(1, 'done after all'), 'done after all'],
    ['child', (run) => run.childFailed(1), ['CHILD_FAILED', null, null]],
    [
      'child',
      (run) => run.childCanceled(1, 'stopped'),
      ['OPERATION_CANCELED', 'cancel', 'stopped'],
    ],
  ];
  it.each(answers)(
    'an %s canceled as `wait` settles with its answer',
    async (kind, answer, output) => {
      const run = canceledLater(kind as 'activity', 'wait');
      expect((await run.start())[1]).toMatchObject({ cancellation: 'wait' });
      expect(kindsOf(await run.turn(run.raised('stop')))).toEqual([
        'eventReceived',
        'operationWithdrawn',
      ]);
      await run.turn(answer(run));
      expect(run.output).toEqual(output);
    },
  );

  it('a second withdrawal is not recorded', async () => {
    const run = drive(async (ctx) => {
      const work = ctx.call('work', 1, { cancellation: 'wait' });
      work.cancel('first');
      work.cancel('second');
      await work;
    });
    const events = await run.start();
    expect(events.filter(({ kind }) => kind === 'operationWithdrawn')).toMatchObject([
      { reason: 'first' },
    ]);
    expect(await run.turn(run.cancel('third'))).toMatchObject([{ kind: 'cancelRequested' }]);
    await run.turn(run.canceled(1, { reason: 'first' }));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'third' });
  });

  it('the type of a call overrides the default of the activity', async () => {
    const { activity } = await import('../../orchestration/activity.ts');
    const careful = activity('careful', async () => 1, { cancellation: 'wait' });
    const run = drive(async (ctx) => {
      await Promise.all([
        ctx.call(careful),
        ctx.call(careful, undefined, { cancellation: 'abandon' }),
        ctx.call(careful, undefined, { cancellation: 'request' }),
      ]);
    });
    const events = await run.start();
    expect(
      events.slice(1).map((event) => (event as { cancellation?: string }).cancellation),
    ).toEqual(['wait', 'abandon', undefined]);
    expect(() => activity('bad', async () => 1, { cancellation: 'kill' as never })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION' }),
    );
  });

  it('an unknown type rejects', async () => {
    for (const call of [
      (ctx) => ctx.call('a', 1, { cancellation: 'kill' as never }),
      (ctx) => ctx.child('a', 1, { cancellation: '' as never }),
    ] satisfies Parameters<typeof drive>[0][]) {
      const run = drive(async (ctx) => call(ctx));
      expect(kindsOf(await run.start())).toEqual(['executionStarted', 'executionFailed']);
      expect(run.failure.code).toBe('INVALID_OPTION');
    }
  });

  it('a `wait` call with an overall timeout settles with the outcome of its handler', async () => {
    for (const [answer, output] of [
      [(run: TurnDriver) => run.completed(1, 'past the point'), 'past the point'],
      [(run: TurnDriver) => run.canceled(1, { trigger: 'timeout', reason: 'timeout' }), 'TIMEOUT'],
      [(run: TurnDriver) => run.canceled(1), 'OPERATION_CANCELED'],
    ] as const) {
      const run = drive(async (ctx) =>
        ctx
          .call('work', 1, { timeout: 50, cancellation: 'wait' })
          .catch((error: { code: string }) => error.code),
      );
      await run.start();
      const events = await run.turn(run.fired(2));
      expect(events[1]).toMatchObject({ target: 1, trigger: 'timeout', reason: 'timeout' });
      expect(run.outcome).toBeUndefined();
      await run.turn(answer(run));
      expect(run.output).toBe(output);
    }
  });
});

describe('R15: an operation with its answer in the same batch is not withdrawn', () => {
  it('its answer is recorded instead of the withdrawal, for every trigger', async () => {
    const run = drive(async (ctx) => {
      const [a, b, timer, child] = [ctx.call('a'), ctx.call('b'), ctx.sleep(5), ctx.child('c')];
      await ctx.waitFor('stop');
      for (const operation of [a, b, timer, child]) operation.cancel();
      return (await Promise.allSettled([a, b, timer, child])).map(({ status }) => status);
    });
    await run.start();
    const events = await run.turn(
      run.raised('stop'),
      run.failed(1),
      run.fired(3),
      run.childCompleted(4, 'c'),
    );
    expect(events).toMatchObject([
      { kind: 'eventReceived' },
      { kind: 'activityFailed', operation: 1 },
      { kind: 'operationWithdrawn', target: 2 },
      { kind: 'timerFired', operation: 3 },
      { kind: 'childCompleted', operation: 4 },
      { kind: 'executionCompleted' },
    ]);
    expect(run.output).toEqual(['rejected', 'rejected', 'fulfilled', 'fulfilled']);
  });

  it('a cancel request withdraws activities that answered after it', async () => {
    for (const answer of ['completed', 'failed'] as const) {
      const run = drive(async (ctx) => {
        await ctx.call('charge').catch(() => ctx.shield(() => ctx.call('look')));
        ctx.throwIfCanceled();
      });
      await run.start();
      const events = await run.turn(run.cancel(), run[answer](1));
      expect(events).toMatchObject([
        { kind: 'cancelRequested' },
        { kind: 'operationWithdrawn', target: 1, trigger: 'cancel' },
        { kind: 'activityScheduled', name: 'look' },
      ]);
      await run.turn(run.completed(2));
      expect(run.outcome?.kind).toBe('executionCanceled');
    }
  });

  it('a canceled instance keeps answers of `wait` and `abandon` calls and of children', async () => {
    const run = drive(async (ctx) => {
      const results = await Promise.allSettled([
        ctx.call('charge', null, { cancellation: 'wait' }),
        ctx.call('log', null, { cancellation: 'abandon' }),
        ctx.child('pack'),
        ctx.call('ship'),
      ]);
      return results.map(({ status }) => status);
    });
    await run.start();
    await run.turn(
      run.cancel(),
      run.completed(1, 'receipt'),
      run.completed(2),
      run.childCompleted(3, 'parcel'),
    );
    expect(run.output).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected']);
  });

  it('an answer before the request counts, although both are in one batch', async () => {
    const run = drive(async (ctx) => {
      const charged = await ctx.call('charge');
      await ctx.call('ship').catch(() => ctx.shield(() => ctx.call('refund', charged)));
      ctx.throwIfCanceled();
    });
    await run.start();
    const events = await run.turn(run.completed(1, 'receipt'), run.cancel());
    expect(events.at(-1)).toMatchObject({ name: 'refund', payload: '"receipt"' });
    await run.turn(run.completed(3));
    expect(run.outcome?.kind).toBe('executionCanceled');
  });

  it('an answer before the request counts if an earlier cancel had the same reason', async () => {
    for (const reason of ['another reason', 'canceled']) {
      const run = drive(async (ctx) => {
        const [unwanted, wanted] = [ctx.call('unwanted'), ctx.call('wanted')];
        await ctx.waitFor('go');
        unwanted.cancel();
        return wanted.catch(() => 'lost');
      });
      await run.start();
      await run.turn(run.raised('go'));
      const stopped = run.canceled(1, { trigger: 'cancel', reason: 'canceled' });
      await run.turn(stopped, run.completed(2, 'done'), run.cancel(reason));
      expect(run.output).toBe('done');
    }
  });

  it('does not apply to canceled work, nor to an event for a wait', async () => {
    const run = drive(async (ctx) => {
      const operations = [ctx.call('a'), ctx.waitFor('e')];
      await ctx.call('decide');
      for (const operation of operations) operation.cancel();
      return ctx.waitFor('e');
    });
    await run.start();
    const events = await run.turn(run.completed(3), run.canceled(1), run.raised('e', 'kept'));
    expect(kindsOf(events)).toEqual([
      'activityCompleted',
      'operationWithdrawn',
      'operationWithdrawn',
      'eventAwaited',
      'eventReceived',
      'executionCompleted',
    ]);
    expect(run.output).toBe('kept');
  });

  it('a duplicate of that answer later in the batch is dropped', async () => {
    const run = drive(async (ctx) => {
      await ctx.race([ctx.call('a'), ctx.call('b')]);
      return ctx.call('c');
    });
    await run.start();
    const events = await run.turn(run.completed(1), run.completed(2), run.completed(2));
    expect(kindsOf(events)).toEqual([
      'activityCompleted',
      'activityCompleted',
      'activityScheduled',
    ]);
  });

  it('a deadline that fires in the batch in which its scope ends has no effect', async () => {
    const run = drive(async (ctx) => {
      await ctx.waitFor('never').catch(() => undefined);
      await ctx.shield(() => ctx.call('undo'), { timeout: 5 });
      await ctx.call('refused');
    });
    await run.start();
    await run.turn(run.cancel());
    const events = await run.turn(run.completed(3), run.fired(2));
    expect(kindsOf(events)).toEqual(['activityCompleted', 'timerFired', 'executionCanceled']);
    expect(run.outcome).not.toHaveProperty('cleanupSkipped');
  });

  it('a replay detects code that no longer withdraws', async () => {
    const run = drive(async (ctx) =>
      ctx.call('use', await ctx.race([ctx.call('a'), ctx.call('b')])),
    );
    await run.start();
    await run.turn(run.completed(1), run.completed(2));
    const changed = drive(async (ctx) =>
      ctx.call('use', await Promise.race([ctx.call('a'), ctx.call('b')])),
    );
    await expect(changed.replayed(run.history)).rejects.toMatchObject({
      code: 'NONDETERMINISM',
      eventId: 5,
    });
  });
});

describe('R10: a rejection that only reports a withdrawal', () => {
  const branchOf = (kind: string) =>
    drive(
      async (ctx) => {
        const work = ctx.call('work');
        const scope = ctx.scope(() => ctx.call('scoped'));
        // These are not awaited.
        void (async () => work)();
        void (async () => scope)();
        const first = await ctx.race([ctx.call('a'), ctx.waitFor('e')], { keepLosers: true });
        work.cancel();
        scope.cancel();
        await ctx.shield(() => ctx.call('clean up'));
        return first;
      },
      { onBroken: () => expect.unreachable(kind) },
    );

  it('fails no instance if it is unhandled', async () => {
    const run = branchOf('canceled by the code');
    await run.start();
    await run.turn(run.completed(3));
    await new Promise((resolve) => setImmediate(resolve));
    await run.turn(run.completed(5));
    expect(run.outcome?.kind).toBe('executionCompleted');
  });

  it('fails no instance if the instance is canceled', async () => {
    const run = drive(async (ctx) => {
      void (async () => ctx.call('background'))();
      try {
        await ctx.call('work');
      } finally {
        await ctx.shield(() => ctx.call('clean up'));
      }
    });
    await run.start();
    await run.turn(run.cancel());
    await new Promise((resolve) => setImmediate(resolve));
    await run.turn(run.completed(3));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled' });
  });

  it('differs from the cancel of a child by another caller', async () => {
    const run = drive(async (ctx) => {
      void (async () => ctx.child('c'))();
      await ctx.waitFor('e');
    });
    await run.start();
    await run.turn(run.childCanceled(1));
    await new Promise((resolve) => setImmediate(resolve));
    await run.turn({ kind: 'wake' });
    expect(run.failure).toMatchObject({ code: 'OPERATION_CANCELED' });
  });
});

describe('an error', () => {
  it('isWithdrawal is true only for errors that the engine created', () => {
    const canceled = toCanceledError({ trigger: 'cancel', reason: 'x' });
    expect(isWithdrawal(canceled)).toBe(true);
    expect(isWithdrawal(new CanceledError('x', 'cancel'))).toBe(false);
    for (const other of [undefined, null, 'x', {}, new Error('x')]) {
      expect(isWithdrawal(other)).toBe(false);
      expect(isCancellation(other)).toBe(false);
    }
  });

  it('isCancellation is true for an aggregate of cancellations', () => {
    const canceled = new CanceledError('x', 'cancel');
    expect(isCancellation(canceled)).toBe(true);
    expect(isCancellation(new AggregateError([canceled, canceled]))).toBe(true);
    expect(isCancellation(new AggregateError([canceled, new Error('x')]))).toBe(false);
    expect(isCancellation(new AggregateError([]))).toBe(false);
  });
});
