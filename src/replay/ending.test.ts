import { describe, expect, it } from 'vitest';
import { CanceledError } from '../model/failures/errors.ts';
import type { HistoryEvent } from '../model/event.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import { drive, kindsOf, type TurnDriver } from '../../test/replay/turn-driver.ts';

type Context = OrchestrationContext<void>;

const withdrawn = (events: readonly HistoryEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'operationWithdrawn' ? [[event.target, event.reason]] : [],
  );

describe('R16: the first request to stop', () => {
  it('is recorded with its reason and actor, and rejects pending operations', async () => {
    const run = drive(async (ctx) => ctx.all([ctx.call('a'), ctx.sleep(5), ctx.child('c')]));
    await run.start();
    const events = await run.turn(run.cancel('changed my mind', 'jo'));
    expect(events).toMatchObject([
      { kind: 'cancelRequested', reason: 'changed my mind', actor: 'jo' },
      { target: 1, targetKind: 'activity', trigger: 'cancel', reason: 'changed my mind' },
      { target: 2, targetKind: 'timer', trigger: 'cancel' },
      { target: 3, targetKind: 'child', trigger: 'cancel', childId: 'instance/1.3' },
      { kind: 'executionCanceled', reason: 'changed my mind' },
    ]);
    expect(run.outcome).not.toHaveProperty('cleanupSkipped');
  });

  it('is recorded once, in the same batch and later', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a').catch(() => undefined);
      await ctx.shield(() => ctx.call('undo'));
      throw new CanceledError('mine', 'timeout');
    });
    await run.start();
    await run.turn(run.cancel('first'), run.cancel('second'));
    expect(await run.turn(run.cancel('third'))).toEqual([]);
    await run.turn(run.completed(2));
    expect(run.history.filter(({ kind }) => kind === 'cancelRequested')).toHaveLength(1);
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'first' });
  });

  it('in the batch of the start is applied after it, regardless of order', async () => {
    const code = async (ctx: Context) => ctx.call('a');
    for (const cancelFirst of [true, false]) {
      const run = drive(code);
      const messages = [run.startMessage(), run.cancel()];
      const events = await run.turn(...(cancelFirst ? messages.toReversed() : messages));
      expect(kindsOf(events)).toEqual([
        'executionStarted',
        'activityScheduled',
        'cancelRequested',
        'operationWithdrawn',
        'executionCanceled',
      ]);
    }
  });

  it('is applied before the activities that it canceled, regardless of order', async () => {
    const run = drive(async (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]));
    await run.start();
    const events = await run.turn(run.completed(2), run.canceled(1), run.cancel());
    expect(kindsOf(events)).toEqual([
      'activityCompleted',
      'cancelRequested',
      'operationWithdrawn',
      'executionCanceled',
    ]);
  });

  const ends: readonly [string, (ctx: Context) => Promise<unknown>, string][] = [
    [
      'a return',
      async (ctx) => ctx.call('a').catch(() => 'past the point of no return'),
      'executionCompleted',
    ],
    [
      'another error',
      async (ctx) =>
        ctx.call('a').catch(() => {
          throw new Error('clean-up failed');
        }),
      'executionFailed',
    ],
    [
      'a CanceledError of its own',
      async (ctx) =>
        ctx.call('a').catch(() => {
          throw new CanceledError('mine', 'timeout');
        }),
      'executionCanceled',
    ],
    [
      'nothing but CanceledErrors in an aggregate',
      async (ctx) => Promise.any([ctx.call('a'), ctx.call('b')]),
      'executionCanceled',
    ],
    [
      'an error that has one as its cause',
      async (ctx) =>
        ctx.call('a').catch((cause: unknown) => {
          throw new Error('wrapped', { cause });
        }),
      'executionFailed',
    ],
  ];
  it.each(ends)('may be answered with %s', async (_, code, kind) => {
    const run = drive(code);
    await run.start();
    await run.turn(run.cancel());
    expect(run.outcome?.kind).toBe(kind);
  });

  it('is required: without it, a CanceledError is an ordinary failure', async () => {
    for (const code of [
      async () => {
        throw new CanceledError('mine', 'cancel');
      },
      async (ctx) => ctx.child('c'),
      async (ctx) => {
        const work = ctx.call('a');
        work.cancel();
        return work;
      },
    ] satisfies ((ctx: Context) => Promise<unknown>)[]) {
      const run = drive(code);
      await run.start();
      if (run.outcome === undefined) await run.turn(run.childCanceled(1));
      expect(run.failure).toMatchObject({ name: 'CanceledError', code: 'OPERATION_CANCELED' });
    }
  });

  it('makes continue-as-new reject, also in a shield', async () => {
    const run = drive(async (ctx, n: number) => {
      await ctx.call('a').catch(() => undefined);
      const inShield = await ctx
        .shield(() => ctx.continueAsNew(n + 1))
        .catch((error: { code: string }) => error.code);
      ctx.setCustomStatus(inShield);
      await ctx.continueAsNew(n + 1);
    });
    await run.start(1);
    expect(await run.turn(run.cancel())).toMatchObject([
      {},
      {},
      { kind: 'customStatusSet', payload: '"OPERATION_CANCELED"' },
      { kind: 'executionCanceled' },
    ]);
  });

  it('that comes after continue-as-new in the batch is carried into the next execution', async () => {
    const run = drive(async (ctx, n: number) => {
      await ctx.waitFor('go');
      await ctx.continueAsNew(n + 1);
    });
    await run.start(1);
    const cancel = { reason: 'too late', actor: 'jo' };
    await run.turn(
      run.raised('go'),
      run.raised('go', 'carried'),
      run.cancel(cancel.reason, cancel.actor),
      run.cancel('second'),
    );
    expect(run.outcome).toMatchObject({
      kind: 'executionContinuedAsNew',
      carried: [{ name: 'go' }],
      cancel,
    });
  });

  it('that was carried starts the next execution canceled', async () => {
    const run = drive(
      async (ctx) => {
        try {
          await ctx.call('a');
        } finally {
          await ctx.shield(() => ctx.call('clean up'));
        }
      },
      { executionId: 2 },
    );
    const events = await run.turn(
      { ...run.startMessage(), cancel: { reason: 'earlier', actor: null } },
      run.cancel('later'),
    );
    expect(events).toMatchObject([
      { kind: 'executionStarted', cancel: { reason: 'earlier', actor: null } },
      { kind: 'activityScheduled', name: 'clean up', shielded: true },
    ]);
    await run.turn(run.completed(1));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'earlier' });
  });
});

describe('R17: the end of an execution', () => {
  const leaves = (options: { fails?: boolean; continues?: boolean }) => async (ctx: Context) => {
    void ctx.call('request');
    void ctx.sleep(500);
    void ctx.child('request');
    void ctx.call('abandon', 1, { cancellation: 'abandon' });
    await ctx.call('work');
    if (options.fails === true) throw new Error('broke');
    if (options.continues === true) await ctx.continueAsNew();
    return 'done';
  };

  it.each([
    ['executionCompleted', {}],
    ['executionFailed', { fails: true }],
    ['executionContinuedAsNew', { continues: true }],
  ])('is immediate and records no withdrawals: %s', async (kind, options) => {
    const run = drive(leaves(options));
    await run.start();
    expect(kindsOf(await run.turn(run.completed(5)))).toEqual(['activityCompleted', kind]);
  });

  const waits = (options: { fails?: boolean; continues?: boolean }) => async (ctx: Context) => {
    void ctx.call('a', 1, { cancellation: 'wait' });
    void ctx.child('c', 1, { cancellation: 'wait' });
    await leaves(options)(ctx);
    return 'done';
  };

  it.each([
    ['executionCompleted', 'completed', {}],
    ['executionFailed', 'failed', { fails: true }],
    ['executionContinuedAsNew', 'continued as new', { continues: true }],
  ])(
    'waits for work of type `wait`, and stops the rest meanwhile: %s',
    async (kind, reason, how) => {
      const run = drive(waits(how));
      await run.start();
      const events = await run.turn(run.completed(7));
      expect(withdrawn(events)).toEqual([1, 2, 3, 4, 5, 6].map((target) => [target, reason]));
      expect(events.at(-1)).toMatchObject({ target: 6, abandoned: true });
      expect(kindsOf(await run.turn(run.canceled(1), run.completed(3)))).toEqual([
        'activityCanceled',
      ]);
      run.nowMs = 5_000;
      const last = await run.turn(run.childCompleted(2));
      expect(last).toMatchObject([{ kind: 'childCompleted' }, { kind, at: 5_000 }]);
    },
  );

  it('waits for all open shields, and for those that they open', async () => {
    const run = drive(async (ctx) => {
      void (async () => {
        try {
          await ctx.shield(() => ctx.call('inner clean-up'));
        } finally {
          await ctx.shield(() => ctx.call('outer clean-up'));
        }
      })();
      return ctx.call('work');
    });
    await run.start();
    expect(kindsOf(await run.turn(run.completed(2, 'result')))).toEqual(['activityCompleted']);
    expect(kindsOf(await run.turn(run.completed(1)))).toEqual([
      'activityCompleted',
      'activityScheduled',
    ]);
    await run.turn(run.completed(3));
    expect(run.output).toBe('result');
  });

  it('waits for the clean-up of every branch of a canceled instance, at any depth', async () => {
    const run = drive(async (ctx) => {
      const nested = async (depth: number): Promise<unknown> =>
        depth === 0 ? ctx.call('work') : await nested(depth - 1);
      const branch = async (depth: number) => {
        try {
          await nested(depth);
        } finally {
          if (depth > 0) await ctx.shield(() => ctx.call(`clean up ${depth}`));
        }
      };
      await Promise.all([branch(0), branch(3), branch(9)]);
    });
    await run.start();
    const events = await run.turn(run.cancel());
    expect(events.slice(-2)).toMatchObject([
      { kind: 'activityScheduled', name: 'clean up 3' },
      { kind: 'activityScheduled', name: 'clean up 9' },
    ]);
    await run.turn(run.completed(5));
    expect(run.outcome).toBeUndefined();
    await run.turn(run.completed(4));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled' });
  });

  it('ignores commands outside a shield', async () => {
    const run = drive(async (ctx) => {
      const wait = ctx.call('wait', 1, { cancellation: 'wait' });
      void (async () => {
        await wait;
        ctx.setCustomStatus('too late');
        await ctx.call('too late');
      })();
      void ctx.shield(async () => {
        await wait;
        ctx.setCustomStatus('from the shield');
      });
      return ctx.call('work');
    });
    await run.start();
    await run.turn(run.completed(2, 'result'));
    expect(await run.turn(run.completed(1))).toMatchObject([
      { kind: 'activityCompleted' },
      { kind: 'customStatusSet', payload: '"from the shield"' },
      { kind: 'executionCompleted', payload: '"result"' },
    ]);
  });

  it('is not changed by a later cancel; a continue-as-new carries the cancel over', async () => {
    const endings: [boolean, string][] = [
      [false, 'executionCompleted'],
      [true, 'executionContinuedAsNew'],
    ];
    for (const [continues, kind] of endings) {
      const run = drive(waits({ continues }));
      await run.start();
      await run.turn(run.completed(7));
      expect(kindsOf(await run.turn(run.cancel('late')))).toEqual(['cancelRequested']);
      await run.turn(run.canceled(1), run.childCanceled(2));
      expect(run.outcome?.kind).toBe(kind);
      if (continues) {
        expect(run.outcome).toMatchObject({ cancel: { reason: 'late', actor: null } });
      }
    }
  });

  it('carries events that arrive while it waits to the next execution', async () => {
    const run = drive(waits({ continues: true }));
    await run.start();
    await run.turn(run.completed(7), run.raised('e', 1));
    await run.turn(run.raised('e', 2), run.canceled(1), run.childCanceled(2), run.raised('e', 3));
    expect(run.outcome).toMatchObject({
      carried: [1, 2, 3].map((n) => ({ name: 'e', payload: String(n) })),
    });
  });

  it('fails if a shield waits for nothing durable', async () => {
    const run = drive(async (ctx) => {
      void ctx.shield(() => new Promise(() => undefined));
      return ctx.call('work');
    });
    await run.start();
    await run.turn(run.completed(1));
    expect(run.failure).toMatchObject({ code: 'STRAY_AWAIT' });
  });
});

describe('R18: when the clean-up limit expires', () => {
  const cleaning = async (ctx: Context): Promise<unknown> => {
    try {
      return await ctx.call('work');
    } finally {
      await ctx.shield(() => ctx.waitFor('never'));
    }
  };

  async function canceling(): Promise<TurnDriver> {
    const run = drive(cleaning);
    await run.start();
    await run.turn(run.cancel('enough'));
    expect(run.outcome).toBeUndefined();
    return run;
  }

  it('the execution ends canceled, with cleanupSkipped', async () => {
    const run = await canceling();
    expect(await run.turn(run.cleanupExpired('another'), run.raised('never'))).toMatchObject([
      { kind: 'executionCanceled', reason: 'enough', cleanupSkipped: true },
    ]);
    expect(await run.turn(run.raised('never'))).toEqual([]);
  });

  it('the execution also ends if the code has returned and waits for work to stop', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a', 1, { cancellation: 'wait' });
    });
    await run.start();
    await run.turn(run.cancel());
    await run.turn(run.cleanupExpired());
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', cleanupSkipped: true });
  });

  it('earlier messages of the batch are applied', async () => {
    const run = drive((ctx) => cleaning(ctx).catch(() => 'cleaned up'));
    await run.start();
    await run.turn(run.cancel());
    await run.turn(run.raised('never'), run.cleanupExpired());
    expect(run.output).toBe('cleaned up');
  });

  it('nothing happens without a cancel request', async () => {
    const run = drive(async (ctx) => ctx.call('a'));
    await run.start();
    expect(await run.turn(run.cleanupExpired())).toEqual([]);
    await run.turn(run.completed(1, 'a'));
    expect(run.output).toBe('a');
  });

  it('the execution ends if both messages are in one batch, in any order', async () => {
    for (const reversed of [false, true]) {
      const run = drive(cleaning);
      await run.start();
      const messages = [run.cancel(), run.cleanupExpired()];
      await run.turn(...(reversed ? messages.toReversed() : messages));
      expect(run.outcome).toMatchObject({ kind: 'executionCanceled', cleanupSkipped: true });
    }
  });

  it('the execution does not continue as new, even if that came first in the batch', async () => {
    const run = drive(async (ctx, n: number) => {
      await ctx.waitFor('go');
      await ctx.continueAsNew(n + 1);
    });
    await run.start(1);
    const events = await run.turn(run.raised('go'), run.cancel('stop'), run.cleanupExpired('stop'));
    expect(events.slice(1)).toMatchObject([
      { kind: 'executionCanceled', reason: 'stop', cleanupSkipped: true },
    ]);
  });
});

describe('R16: a cancel request keeps its order', () => {
  it('after messages that were committed before it, even if other work was canceled', async () => {
    const run = drive(async (ctx) => {
      await ctx.race([ctx.call('a'), ctx.sleep(1)]);
      await ctx.waitFor('go');
      return 1;
    });
    await run.start();
    await run.turn(run.fired(2));
    const events = await run.turn(
      {
        kind: 'activityCanceled',
        executionId: 1,
        operation: 1,
        trigger: 'race_lost',
        reason: 'race_lost:timeout',
      },
      run.raised('go'),
      run.cancel(),
    );
    expect(kindsOf(events)).toEqual(['eventReceived', 'executionCompleted']);
  });
});
