import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from '../model/event.ts';
import { drive, kindsOf } from '../../test/replay/turn-driver.ts';
import type { OrchestrationContext, RaceOptions } from './orchestration-context.ts';

const withdrawn = (events: readonly HistoryEvent[]) =>
  events.flatMap((event) =>
    event.kind === 'operationWithdrawn' ? [[event.target, event.reason]] : [],
  );

describe('ctx.all, ctx.allSettled and ctx.any', () => {
  it('settle like the native combinators', async () => {
    const run = drive(async (ctx) => {
      const calls = () => [ctx.call('a'), ctx.call('b')] as const;
      const all = ctx.all(calls());
      const settled = ctx.allSettled(calls());
      const any = ctx.any(calls());
      const statuses = (await settled).map(({ status }) => status);
      return [await all, statuses, await any];
    });
    await run.start();
    await run.turn(
      run.completed(1, 'a'),
      run.failed(3),
      run.failed(5),
      run.completed(6, 'second'),
      run.completed(4),
      run.completed(2, 'b'),
    );
    expect(run.output).toEqual([['a', 'b'], ['rejected', 'fulfilled'], 'second']);
    expect(withdrawn(run.history)).toEqual([]);
  });

  it('withdraw pending operations after the first success of ctx.any, unless keepLosers is set', async () => {
    for (const keepLosers of [false, true]) {
      const run = drive(async (ctx) => {
        const calls = [ctx.call('a'), ctx.call('b'), ctx.call('c')];
        const winner = await ctx.any(calls, { keepLosers });
        return [winner, await ctx.call('next')];
      });
      await run.start();
      expect(withdrawn(await run.turn(run.failed(1)))).toEqual([]);
      const events = await run.turn(run.completed(2, 'b'));
      expect(withdrawn(events)).toEqual(keepLosers ? [] : [[3, 'race_lost']]);
      await run.turn(run.completed(4, 'next'));
      expect(run.output).toEqual(['b', 'next']);
    }
  });

  it('ctx.any of an empty list rejects like Promise.any', async () => {
    const run = drive(async (ctx) => ctx.any([]));
    await run.start();
    expect(run.failure).toMatchObject({ name: 'AggregateError' });
  });

  it('reject like the native combinators, and leave the other members running', async () => {
    const run = drive(async (ctx) => {
      const calls = [ctx.call('a'), ctx.call('b')];
      return [
        await ctx.all(calls).catch((error: Error) => error.message),
        await ctx.any(calls.slice(0, 1)).catch((error: Error) => error.constructor.name),
        await calls[1],
      ];
    });
    await run.start();
    await run.turn(run.failed(1, { message: 'broke' }));
    await run.turn(run.completed(2, 'b'));
    expect(run.output).toEqual(["Activity 'a' failed: broke", 'AggregateError', 'b']);
  });

  it('settle immediately for an empty list', async () => {
    const run = drive(async (ctx) => [await ctx.all([]), await ctx.allSettled([])]);
    await run.start();
    expect(run.output).toEqual([[], []]);
  });

  it('accept plain values and native promises', async () => {
    const run = drive(async (ctx) => ctx.all([1, Promise.resolve(2), ctx.call('a')]));
    await run.start();
    await run.turn(run.completed(1, 3));
    expect(run.output).toEqual([1, 2, 3]);
  });

  it('cancel() on the group withdraws all members and rejects with a CanceledError', async () => {
    const run = drive(async (ctx) => {
      const groups = [
        ctx.all([ctx.call('a'), ctx.sleep(5)]),
        ctx.any([ctx.call('b'), ctx.waitFor('e')]),
        ctx.allSettled([ctx.call('c'), ctx.child('part')]),
      ];
      for (const group of groups) group.cancel('stop');
      const results = await Promise.allSettled(groups);
      return results.map((result) =>
        result.status === 'rejected' ? (result.reason as { code: string }).code : 'fulfilled',
      );
    });
    await run.start();
    expect(run.output).toEqual(Array.from({ length: 3 }, () => 'OPERATION_CANCELED'));
    expect(withdrawn(run.history).map(([target]) => target)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it('cancel() after the group has settled has no effect', async () => {
    const run = drive(async (ctx) => {
      const calls = [ctx.call('a'), ctx.call('b')];
      const any = ctx.any(calls, { keepLosers: true });
      await any;
      any.cancel();
      return calls[1];
    });
    await run.start();
    await run.turn(run.completed(1));
    expect(withdrawn(run.history)).toEqual([]);
  });
});

describe('ctx.race and ctx.select', () => {
  it('withdraw the activities, timers and waits that lost', async () => {
    const run = drive(async (ctx) =>
      ctx.race([ctx.call('a'), ctx.call('b'), ctx.sleep('1h'), ctx.waitFor('e')]),
    );
    await run.start();
    const events = await run.turn(run.completed(2, 'b'));
    expect(withdrawn(events)).toEqual([
      [1, 'race_lost'],
      [3, 'race_lost'],
      [4, 'race_lost'],
    ]);
    expect(run.output).toBe('b');
  });

  it('record the reason race_lost:timeout when a timer won', async () => {
    const run = drive(async (ctx) => ctx.race([ctx.call('a'), ctx.sleep('1h')]));
    await run.start();
    expect(withdrawn(await run.turn(run.fired(2)))).toEqual([[1, 'race_lost:timeout']]);
  });

  it('withdraw the losers when the first to settle failed', async () => {
    const run = drive(async (ctx) => ctx.race([ctx.call('a'), ctx.call('b')]));
    await run.start();
    const events = await run.turn(run.failed(1));
    expect(withdrawn(events)).toEqual([[2, 'race_lost']]);
    expect(run.failure.code).toBe('ACTIVITY_FAILED');
  });

  it('cancel a child that lost', async () => {
    const run = drive(async (ctx) => {
      await ctx.race([ctx.child('part', 1, { id: 'child' }), ctx.call('a')]);
      return ctx.call('next');
    });
    await run.start();
    expect((await run.turn(run.completed(2)))[1]).toMatchObject({
      kind: 'operationWithdrawn',
      target: 1,
      targetKind: 'child',
      childId: 'child',
      trigger: 'race_lost',
    });
    expect(await run.turn(run.childCanceled(1, 'race_lost'))).toEqual([]);
  });

  it('leave the losers running with keepLosers', async () => {
    for (const combinator of ['race', 'select'] as const) {
      const run = drive(async (ctx) => {
        const loser = ctx.child('part');
        const both = [loser, ctx.call('a')];
        if (combinator === 'race') await ctx.race(both, { keepLosers: true });
        else await ctx.select(both, { keepLosers: true });
        return loser;
      });
      await run.start();
      expect(kindsOf(await run.turn(run.completed(2)))).toEqual(['activityCompleted']);
      await run.turn(run.childCompleted(1, 'later'));
      expect(run.output).toBe('later');
    }
  });

  it('R15: record the completion of a loser in the same batch instead of canceling it', async () => {
    const run = drive(async (ctx) => {
      const calls = [ctx.call('a'), ctx.call('b'), ctx.call('c')] as const;
      const winner = await ctx.race(calls);
      return [winner, ...(await Promise.allSettled(calls)).map(({ status }) => status)];
    });
    await run.start();
    const events = await run.turn(run.completed(2, 'b'), run.completed(3, 'c'));
    expect(events).toMatchObject([
      { kind: 'activityCompleted', operation: 2 },
      { kind: 'operationWithdrawn', target: 1 },
      { kind: 'activityCompleted', operation: 3 },
      { kind: 'executionCompleted' },
    ]);
    expect(run.output).toEqual(['b', 'rejected', 'fulfilled', 'fulfilled']);
  });

  it('reject unknown options', async () => {
    const options: RaceOptions = { keepLoosers: true } as object;
    for (const combine of [
      (ctx) => ctx.race([1], options),
      (ctx) => ctx.select([1], options),
      (ctx) => ctx.any([1], options),
    ] satisfies ((ctx: OrchestrationContext<void>) => unknown)[]) {
      const run = drive(async (ctx) => combine(ctx));
      await run.start();
      expect(run.failure.code).toBe('INVALID_OPTION');
    }
  });

  it('withdraw losers inside nested groups', async () => {
    const run = drive(async (ctx) =>
      ctx.race([
        ctx.all([ctx.call('a'), ctx.call('b', undefined, { timeout: 5 })]),
        ctx.race([ctx.call('c'), ctx.waitFor('e')]),
        ctx.sleep('1m'),
      ]),
    );
    await run.start();
    expect(withdrawn(await run.turn(run.fired(6))).map(([target]) => target)).toEqual([
      1, 2, 3, 4, 5,
    ]);
  });

  it('select resolves with the index or key of the winner', async () => {
    const run = drive(async (ctx) => [
      await ctx.select([ctx.call('a'), ctx.call('b')]),
      await ctx.select({ slow: ctx.call('c'), fast: ctx.call('d') }),
    ]);
    await run.start();
    await run.turn(run.completed(2, 'B'));
    await run.turn(run.completed(4, 'D'));
    expect(run.output).toEqual([
      { index: 1, value: 'B' },
      { key: 'fast', value: 'D' },
    ]);
  });

  it('the first in the list wins a tie, durable or not', async () => {
    const run = drive(async (ctx) => {
      const [a, b] = [ctx.call('a'), ctx.call('b')];
      await ctx.all([a, b]);
      return [
        await ctx.select([b, a]),
        await ctx.select([a, Promise.resolve('native')]),
        await ctx.select([Promise.resolve('native'), a]),
      ];
    });
    await run.start();
    await run.turn(run.completed(1, 'a'), run.completed(2, 'b'));
    expect(run.output).toEqual([
      { index: 0, value: 'b' },
      { index: 0, value: 'a' },
      { index: 0, value: 'native' },
    ]);
  });

  it('the first completion in history wins, also within one batch', async () => {
    for (const [first, second, key] of [
      [1, 2, 'a'],
      [2, 1, 'b'],
    ] as const) {
      const run = drive(async (ctx) => {
        const { key: winner } = await ctx.select({ a: ctx.call('a'), b: ctx.call('b') });
        return winner;
      });
      await run.start();
      await run.turn(run.completed(first), run.completed(second));
      expect(run.output).toBe(key);
    }
  });

  it('an already settled promise loses a tie only if it comes later in the list', async () => {
    const run = drive(async (ctx) => {
      const early = ctx.call('early');
      await early;
      return ctx.select([ctx.call('never'), early]);
    });
    await run.start();
    await run.turn(run.completed(1, 'x'));
    expect(run.output).toEqual({ index: 1, value: 'x' });
    expect(withdrawn(run.history)).toEqual([[2, 'race_lost']]);
  });

  it('reject a loser that other code awaits with a CanceledError', async () => {
    const run = drive(async (ctx) => {
      const loser = ctx.call('loser');
      const watched = loser.catch((error: { trigger: string }) => error.trigger);
      await ctx.race([ctx.call('winner'), loser]);
      return watched;
    });
    await run.start();
    await run.turn(run.completed(2));
    expect(run.output).toBe('race_lost');
  });

  it('reject an empty list', async () => {
    const run = drive(async (ctx) => ctx.race([]));
    await run.start();
    expect(run.failure.code).toBe('INVALID_INPUT');
    const other = drive(async (ctx) => ctx.select({}));
    await other.start();
    expect(other.failure.code).toBe('INVALID_INPUT');
  });

  it('keepLosers lets a loop race the same promise again', async () => {
    const run = drive(async (ctx) => {
      const work = ctx.call('work');
      let beats = 0;
      for (;;) {
        const winner = await Promise.race([
          work.then(() => 'work'),
          ctx.sleep(10).then(() => 'beat'),
        ]);
        if (winner === 'work') return beats;
        beats += 1;
      }
    });
    await run.start();
    await run.turn(run.fired(2));
    await run.turn(run.fired(3));
    await run.turn(run.completed(1));
    expect(run.output).toBe(2);
  });
});
