import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from '../../model/event.ts';
import { drive, kindsOf } from '../../../test/replay/turn-driver.ts';

const withdrawn = (events: readonly HistoryEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'operationWithdrawn' ? [[event.target, event.trigger, event.reason]] : [],
  );

const describeError = (error: { code?: string; trigger?: string; message: string }) => [
  error.code ?? error.message,
  error.trigger ?? null,
];

describe('R13: a scope settles when nothing in it is outstanding', () => {
  it('resolves with the result of its code, and records no event of its own', async () => {
    const run = drive(async (ctx) => [
      await ctx.scope(() => 1),
      await ctx.scope(async () => ctx.call('a')),
      await ctx.shield(() => ctx.call('b')),
    ]);
    await run.start();
    await run.turn(run.completed(1, 2));
    await run.turn(run.completed(2, 3));
    expect(run.output).toEqual([1, 2, 3]);
    expect(kindsOf(run.history)).toEqual([
      'executionStarted',
      'activityScheduled',
      'activityCompleted',
      'activityScheduled',
      'activityCompleted',
      'executionCompleted',
    ]);
  });

  it('rejects with the error of its code, synchronous or not', async () => {
    const run = drive(async (ctx) => {
      const broken = () => {
        throw new Error('sync');
      };
      return [
        await ctx.scope(broken).catch(describeError),
        await ctx.shield(async () => broken()).catch(describeError),
      ];
    });
    await run.start();
    expect(run.output).toEqual([
      ['sync', null],
      ['sync', null],
    ]);
  });

  it('withdraws pending operations when its code returns or throws', async () => {
    for (const fails of [false, true]) {
      const run = drive(async (ctx) => {
        const kept = ctx.call('outside');
        await ctx
          .scope(async () => {
            void ctx.sleep(5);
            void ctx.scope(() => ctx.child('c', 1, { id: 'c' }));
            await ctx.call('a');
            if (fails) throw new Error('broke');
          })
          .catch(() => undefined);
        return kept;
      });
      await run.start();
      expect(withdrawn(await run.turn(run.completed(4)))).toEqual([
        [2, 'cancel', 'its scope has ended'],
        [3, 'cancel', 'its scope has ended'],
      ]);
      await run.turn(run.completed(1, 'kept'));
      expect(run.output).toBe('kept');
    }
  });

  it('waits for the clean-up of branches that are not awaited', async () => {
    const run = drive(async (ctx) => {
      const branch = async (name: string) => {
        try {
          await ctx.call(name);
        } finally {
          await ctx.shield(() => ctx.call(`undo ${name}`));
        }
      };
      await ctx.scope(() => Promise.all([branch('a'), branch('b')])).catch(() => undefined);
      return ctx.call('after');
    });
    await run.start();
    await run.turn(run.failed(1));
    const [, , third] = await run.turn(run.completed(3));
    expect(third).toMatchObject({ kind: 'activityScheduled', name: 'undo b', shielded: true });
    expect(kindsOf(await run.turn(run.completed(4)))).toEqual([
      'activityCompleted',
      'activityScheduled',
    ]);
    await run.turn(run.completed(5));
    expect(run.outcome?.kind).toBe('executionCompleted');
  });

  it('waits for work that was withdrawn as `wait`', async () => {
    const run = drive(async (ctx) => {
      await ctx.scope(async () => {
        void ctx.call('slow', 1, { cancellation: 'wait' });
        await ctx.call('quick');
      });
      return ctx.call('after');
    });
    await run.start();
    expect(kindsOf(await run.turn(run.completed(2)))).toEqual([
      'activityCompleted',
      'operationWithdrawn',
    ]);
    expect(kindsOf(await run.turn(run.canceled(1)))).toEqual([
      'activityCanceled',
      'activityScheduled',
    ]);
  });

  it('canceled by its promise, it rejects once its code has ended, regardless of the result', async () => {
    const run = drive(async (ctx) => {
      const scope = ctx.scope(async () => {
        try {
          await ctx.call('a');
        } catch {
          await ctx.shield(() => ctx.call('undo'));
        }
        return 'ignored';
      });
      await ctx.call('decide');
      scope.cancel('first');
      scope.cancel('second');
      const seen = await scope.catch(describeError);
      scope.cancel('too late');
      return seen;
    });
    await run.start();
    const events = await run.turn(run.completed(2));
    expect(withdrawn(events)).toEqual([[1, 'cancel', 'first']]);
    expect(run.outcome).toBeUndefined();
    await run.turn(run.completed(3));
    expect(run.output).toEqual(['OPERATION_CANCELED', 'cancel']);
  });

  it('canceled by its promise, it rejects with an error of its clean-up', async () => {
    const run = drive(async (ctx) => {
      const scope = ctx.scope(async () => {
        try {
          await ctx.call('a');
        } finally {
          await ctx.shield(() => ctx.call('undo'));
        }
      });
      scope.cancel();
      return scope.catch(describeError);
    });
    await run.start();
    await run.turn(run.failed(2));
    expect(run.output).toEqual(['ACTIVITY_FAILED', null]);
  });

  it('canceled by an outer scope, it resolves with the result of its code', async () => {
    const run = drive(async (ctx) =>
      ctx.scope(async () => {
        await ctx.call('a').catch(() => undefined);
        return 'done anyway';
      }),
    );
    await run.start();
    await run.turn(run.cancel());
    expect(run.output).toBe('done anyway');
  });

  it('its code must end inside a turn', async () => {
    const broken = Promise.withResolvers<void>();
    const run = drive(
      async (ctx) => {
        void ctx.call('pending');
        await ctx.scope(() => new Promise((resolve) => setImmediate(resolve)));
      },
      { onBroken: broken.resolve, alwaysReplay: false },
    );
    await run.start();
    await broken.promise;
    await run.turn({ kind: 'wake' });
    expect(run.failure).toMatchObject({ code: 'STRAY_AWAIT' });
    expect(run.failure.message).toContain('a scope ended outside a turn');
  });

  it('rejects invalid bodies and options', async () => {
    for (const [code, refused] of [
      ['INVALID_INPUT', (ctx) => ctx.scope('no' as never)],
      ['INVALID_INPUT', (ctx) => ctx.shield(undefined as never)],
      ['INVALID_DURATION', (ctx) => ctx.scope(() => 1, { timeout: -1 })],
      ['INVALID_DURATION', (ctx) => ctx.shield(() => 1, { timeout: 'soon' })],
      ['INVALID_NAME', (ctx) => ctx.scope(() => 1, { name: '' })],
      ['INVALID_OPTION', (ctx) => ctx.scope(() => 1, { timeuot: 1 } as object)],
      ['INVALID_OPTION', (ctx) => ctx.shield(() => 1, { name: 'x' } as object)],
    ] satisfies [string, Parameters<typeof drive>[0]][]) {
      const run = drive(async (ctx) => refused(ctx));
      expect(kindsOf(await run.start())).toEqual(['executionStarted', 'executionFailed']);
      expect(run.failure.code).toBe(code);
    }
  });
});

describe('the timeout of a scope', () => {
  it('is a durable timer that is withdrawn when the scope ends first', async () => {
    const run = drive(async (ctx) => ctx.scope(() => ctx.call('a'), { timeout: '1m' }));
    expect(await run.start()).toMatchObject([
      {},
      { kind: 'timerCreated', operation: 1, fireAt: 61_000 },
      { kind: 'activityScheduled', operation: 2 },
    ]);
    expect(withdrawn(await run.turn(run.completed(2, 'in time')))).toEqual([
      [1, 'race_lost', 'race_lost'],
    ]);
    expect(run.output).toBe('in time');
  });

  it('cancels the scope, which rejects after its clean-up; the instance continues', async () => {
    const run = drive(async (ctx) => {
      const outside = ctx.call('outside');
      const inside = ctx.scope(
        async () => {
          try {
            await ctx.call('a');
          } finally {
            await ctx.shield(() => ctx.call('undo'));
          }
        },
        { timeout: 50, name: 'booking' },
      );
      const { reason, trigger } = await inside.then(
        () => ({ reason: 'none', trigger: 'none' }),
        (error: { reason: string; trigger: string }) => error,
      );
      return [reason, trigger, await outside];
    });
    await run.start();
    const events = await run.turn(run.fired(2));
    expect(withdrawn(events)).toEqual([[3, 'timeout', "scope 'booking' timed out after 50 ms"]]);
    await run.turn(run.completed(1, 'out'), run.completed(4));
    expect(run.output).toEqual(["scope 'booking' timed out after 50 ms", 'timeout', 'out']);
  });

  it('is an ordinary failure if it is not caught', async () => {
    const run = drive(async (ctx) => ctx.scope(() => ctx.call('a'), { timeout: 50 }));
    await run.start();
    await run.turn(run.fired(1));
    expect(run.failure).toMatchObject({
      name: 'CanceledError',
      code: 'OPERATION_CANCELED',
      message: 'Canceled (timeout): the scope timed out after 50 ms',
    });
  });

  it('is withdrawn if the scope is canceled for another reason', async () => {
    const run = drive(async (ctx) => ctx.scope(() => ctx.call('a'), { timeout: 50 }));
    await run.start();
    expect(withdrawn(await run.turn(run.cancel()))).toEqual([
      [2, 'cancel', 'stop'],
      [1, 'cancel', 'stop'],
    ]);
  });

  it('applies to a scope in a shield', async () => {
    const run = drive(async (ctx) =>
      ctx.shield(async () => ctx.scope(() => ctx.call('a'), { timeout: 50 }).catch(() => 'late')),
    );
    await run.start();
    expect(kindsOf(await run.turn(run.cancel()))).toEqual(['cancelRequested']);
    await run.turn(run.fired(1));
    expect(run.output).toBe('late');
  });
});

describe('a shield', () => {
  it('is a scope that a cancel from outside does not enter', async () => {
    const run = drive(async (ctx) => {
      const result = await ctx.shield(async () => [await ctx.call('a'), await ctx.call('b')]);
      return [result, await ctx.call('c').catch(() => 'refused')];
    });
    await run.start();
    expect(kindsOf(await run.turn(run.cancel()))).toEqual(['cancelRequested']);
    await run.turn(run.completed(1, 'a'));
    await run.turn(run.completed(2, 'b'));
    expect(run.output).toEqual([['a', 'b'], 'refused']);
  });

  it('ends at its deadline, and the instance has cleanupSkipped', async () => {
    const run = drive(async (ctx) => {
      try {
        await ctx.call('a');
      } finally {
        await ctx.shield(() => ctx.call('undo'), { timeout: '10s' });
      }
    });
    await run.start();
    await run.turn(run.cancel());
    expect(withdrawn(await run.turn(run.fired(2)))).toEqual([
      [3, 'timeout', 'the shield timed out after 10000 ms'],
    ]);
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', cleanupSkipped: true });
  });

  it('whose deadline passes before any cancel does not set cleanupSkipped', async () => {
    const run = drive(async (ctx) => {
      await ctx.shield(() => ctx.call('a'), { timeout: '10s' }).catch(() => undefined);
      await ctx.waitFor('never');
    });
    await run.start();
    await run.turn(run.fired(1));
    await run.turn(run.cancel());
    expect(run.outcome).not.toHaveProperty('cleanupSkipped');
  });

  it('in a shield ends at the earlier deadline', async () => {
    for (const [fired, trigger] of [
      [1, 'the outer shield'],
      [2, 'the inner one'],
    ] as const) {
      const run = drive(async (ctx) =>
        ctx
          .shield(
            async () => {
              const inner = ctx.shield(() => ctx.call('a'), { timeout: 20 });
              return inner.catch((error: { reason: string }) => error.reason);
            },
            { timeout: 10 },
          )
          .catch((error: { reason: string }) => error.reason),
      );
      await run.start();
      expect(withdrawn(await run.turn(run.fired(fired)))[0]).toEqual([
        3,
        'timeout',
        `the shield timed out after ${fired === 1 ? 10 : 20} ms`,
      ]);
      expect([trigger, run.output]).toEqual([
        trigger,
        `the shield timed out after ${fired === 1 ? 10 : 20} ms`,
      ]);
    }
  });

  it('that is canceled by its promise leaves inner shields running until their deadline', async () => {
    const run = drive(async (ctx) => {
      const outer = ctx.shield(
        async () => {
          void ctx.shield(() => ctx.call('inner'));
          await ctx.call('outer');
        },
        { timeout: 10 },
      );
      await ctx.call('decide');
      outer.cancel();
      return outer.catch(describeError);
    });
    await run.start();
    expect(withdrawn(await run.turn(run.completed(4)))).toEqual([[3, 'cancel', 'canceled']]);
    expect(withdrawn(await run.turn(run.fired(1)))).toEqual([
      [2, 'timeout', 'the shield timed out after 10 ms'],
    ]);
    expect(run.output).toEqual(['OPERATION_CANCELED', 'cancel']);
  });

  it('does not delay a continue-as-new of its own code', async () => {
    const run = drive(async (ctx, n: number) =>
      ctx.shield(async () => {
        void ctx.call('dropped');
        await ctx.continueAsNew(n + 1);
      }),
    );
    expect(kindsOf(await run.start(1))).toEqual([
      'executionStarted',
      'activityScheduled',
      'executionContinuedAsNew',
    ]);
  });
});
