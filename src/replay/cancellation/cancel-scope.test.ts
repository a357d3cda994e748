import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from '../../model/event.ts';
import type { OrchestrationContext } from '../../orchestration/orchestration-context.ts';
import { drive, kindsOf } from '../../../test/replay/turn-driver.ts';

type Context = OrchestrationContext<void>;

const withdrawn = (events: readonly HistoryEvent[]) =>
  events.flatMap((event) => (event.kind === 'operationWithdrawn' ? [event.target] : []));

const scheduled = (events: readonly HistoryEvent[]) =>
  events.flatMap((event) => (event.kind === 'activityScheduled' ? [event.name] : []));

const triggerOf = (error: { trigger: string; reason: string }) => [error.trigger, error.reason];

describe('R11: an operation belongs to the scope it was issued in', () => {
  it('canceling a scope withdraws its operations, then those of inner scopes, and no others', async () => {
    const run = drive(async (ctx) => {
      const outside = ctx.call('outside');
      const scope = ctx.scope(async () => {
        const inner = ctx.scope(() => ctx.all([ctx.call('inner'), ctx.sleep(50)]));
        await Promise.all([inner, ctx.call('a'), ctx.child('c'), ctx.waitFor('e')]);
      });
      await ctx.call('decide');
      scope.cancel('not needed');
      return [await scope.catch(triggerOf), await outside];
    });
    await run.start();
    const events = await run.turn(run.completed(7));
    expect(events.slice(1)).toMatchObject(
      [4, 5, 6, 2, 3].map((target) => ({
        kind: 'operationWithdrawn',
        target,
        trigger: 'cancel',
        reason: 'not needed',
      })),
    );
    await run.turn(run.completed(1, 'out'));
    expect(run.output).toEqual([['cancel', 'not needed'], 'out']);
  });

  it('also if it is issued after awaits, in helpers and callbacks', async () => {
    const run = drive(async (ctx) => {
      const helper = async (name: string) => {
        await Promise.resolve();
        return ctx.call(name);
      };
      const scope = ctx.scope(async () => {
        await ctx.call('first');
        await Promise.all([helper('second'), Promise.resolve().then(() => ctx.call('third'))]);
      });
      const other = helper('other');
      await ctx.waitFor('stop');
      scope.cancel();
      return other;
    });
    await run.start();
    await run.turn(run.completed(1));
    expect(withdrawn(await run.turn(run.raised('stop')))).toEqual([4, 5]);
  });

  it('an operation awaited in another scope is withdrawn with its own scope', async () => {
    const run = drive(async (ctx) => {
      const mine = ctx.call('mine');
      const scope = ctx.scope(async () => mine);
      await ctx.call('decide');
      scope.cancel();
      return scope.catch(triggerOf);
    });
    await run.start();
    expect(withdrawn(await run.turn(run.completed(2)))).toEqual([]);
    await run.turn(run.completed(1));
    expect(run.output).toEqual(['cancel', 'canceled']);
  });

  it('a cancel of the instance reaches all scopes but no shield', async () => {
    const run = drive(async (ctx) => {
      await Promise.all([
        ctx.scope(() => ctx.call('scoped')),
        ctx.shield(() => ctx.call('shielded')),
        ctx.scope(() => ctx.shield(() => ctx.call('shield in scope'))),
        ctx.shield(() => ctx.scope(() => ctx.call('scope in shield'))),
      ]);
    });
    await run.start();
    expect(withdrawn(await run.turn(run.cancel()))).toEqual([1]);
    expect(run.history.filter((event) => 'shielded' in event)).toMatchObject([
      { name: 'shielded', shielded: true },
      { name: 'shield in scope', shielded: true },
      { name: 'scope in shield', shielded: true },
    ]);
    expect(run.outcome).toBeUndefined();
    await run.turn(run.completed(2), run.completed(3));
    expect(run.outcome).toBeUndefined();
    await run.turn(run.completed(4));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled', reason: 'stop' });
  });

  it('a shield is canceled by its own promise, not by a lost race', async () => {
    const run = drive(async (ctx) => {
      const shield = ctx.shield(() => ctx.call('release'));
      await ctx.race([shield, ctx.sleep(5)]);
      await ctx.call('next');
      shield.cancel('enough');
      return shield.catch(triggerOf);
    });
    await run.start();
    expect(withdrawn(await run.turn(run.fired(2)))).toEqual([]);
    expect(withdrawn(await run.turn(run.completed(3)))).toEqual([1]);
    expect(run.output).toEqual(['cancel', 'enough']);
  });

  it('a scope that loses a race is canceled and cleans up', async () => {
    const run = drive(async (ctx) => {
      const work = ctx.scope(async () => {
        try {
          await ctx.call('work');
        } finally {
          await ctx.shield(() => ctx.call('clean up'));
        }
      });
      await ctx.race([work, ctx.sleep('1m')]);
      return work.catch(triggerOf);
    });
    await run.start();
    const events = await run.turn(run.fired(2));
    expect(events.slice(1)).toMatchObject([
      { kind: 'operationWithdrawn', target: 1, trigger: 'race_lost', reason: 'race_lost:timeout' },
      { kind: 'activityScheduled', name: 'clean up', shielded: true },
    ]);
    await run.turn(run.completed(3));
    expect(run.output).toEqual(['race_lost', 'race_lost:timeout']);
  });
});

describe('R12: a canceled scope issues no operations', () => {
  const everything = (ctx: Context): Promise<unknown>[] => [
    ctx.call('a'),
    ctx.sleep(1),
    ctx.sleepUntil(5),
    ctx.waitFor('e', { timeout: 5 }),
    ctx.child('c'),
    ctx.startDetached('d', 1, { id: 'd' }),
    ctx.scope(() => ctx.call('b'), { timeout: 5 }),
    ctx.all([ctx.call('x'), ctx.call('y', 1, { timeout: 1 })]),
  ];

  it('its operations reject immediately with the cancel reason and are not recorded', async () => {
    const run = drive(async (ctx) => {
      await ctx.waitFor('never').catch(() => undefined);
      const results = await Promise.allSettled(everything(ctx));
      return results.map((result) =>
        result.status === 'rejected' ? triggerOf(result.reason as never) : result.value,
      );
    });
    await run.start();
    const events = await run.turn(run.cancel('enough'));
    expect(kindsOf(events)).toEqual([
      'cancelRequested',
      'operationWithdrawn',
      'executionCompleted',
    ]);
    expect(run.output).toEqual(Array.from({ length: 8 }, () => ['cancel', 'enough']));
  });

  it('they also reject after a scope has ended', async () => {
    const run = drive(async (ctx) => {
      let late: Promise<unknown> = Promise.resolve();
      await ctx.scope(async () => {
        late = Promise.resolve().then(async () => {
          for (let i = 0; i < 20; i++) await Promise.resolve();
          return ctx.call('late');
        });
      });
      return late.catch(triggerOf);
    });
    expect(kindsOf(await run.start())).toEqual(['executionStarted', 'executionCompleted']);
    expect(run.output).toEqual(['cancel', 'its scope has ended']);
  });

  it('an inner shield runs, also inside an inner scope', async () => {
    const run = drive(async (ctx) => {
      try {
        await ctx.waitFor('never');
      } finally {
        await ctx.scope(async () => {
          await ctx.call('refused').catch(() => undefined);
          await ctx.shield(() => ctx.call('release'));
        });
      }
    });
    await run.start();
    expect(scheduled(await run.turn(run.cancel()))).toEqual(['release']);
    await run.turn(run.completed(2));
    expect(run.outcome).toMatchObject({ kind: 'executionCanceled' });
  });

  it('a buffered event is not consumed by a rejected wait', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a').catch(() => undefined);
      await ctx.waitFor('e').catch(() => undefined);
      return ctx.shield(() => ctx.waitFor('e'));
    });
    await run.start(undefined, run.raised('e', 'kept'));
    await run.turn(run.cancel());
    expect(run.output).toBe('kept');
  });

  it('a custom status is still recorded', async () => {
    const run = drive(async (ctx) => {
      try {
        await ctx.call('a');
      } finally {
        ctx.setCustomStatus('cleaning up');
      }
    });
    await run.start();
    expect(kindsOf(await run.turn(run.cancel()))).toEqual([
      'cancelRequested',
      'operationWithdrawn',
      'customStatusSet',
      'executionCanceled',
    ]);
  });

  it('code that ignores the rejections in an endless loop fails its instance only', async () => {
    const run = drive(
      async (ctx) => {
        for (;;) {
          try {
            await ctx.call('poll');
          } catch {
            // Tried again for ever.
          }
        }
      },
      { alwaysReplay: false },
    );
    await run.start();
    await run.turn(run.cancel());
    expect(run.failure).toMatchObject({ code: 'CANCEL_IGNORED' });
    expect(run.failure.message).toContain('clean up in ctx.shield()');
    await run.replayed();
  });

  it('a long list of rejected calls is not an endless loop', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a').catch(() => undefined);
      const calls = Array.from({ length: 20_000 }, (_, i) => ctx.call('b', i));
      return (await Promise.allSettled(calls)).length;
    });
    await run.start();
    await run.turn(run.cancel());
    expect(run.output).toBe(20_000);
  });
});
