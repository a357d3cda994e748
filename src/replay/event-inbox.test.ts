import { describe, expect, it } from 'vitest';
import type { BufferedEvent } from '../model/event.ts';
import { drive } from '../../test/replay/turn-driver.ts';

describe('R5: external events', () => {
  it('are buffered per name, in order, until the code waits', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('slow');
      return [await ctx.waitFor('x'), await ctx.waitFor('y'), await ctx.waitFor('x')];
    });
    await run.start();
    await run.turn(run.raised('x', 1), run.raised('y', 2), run.raised('x', 3));
    await run.turn(run.completed(1));
    expect(run.output).toEqual([1, 2, 3]);
  });

  it('are delivered to waits in FIFO order', async () => {
    const run = drive(async (ctx) =>
      ctx.all([ctx.waitFor('x'), ctx.waitFor('y'), ctx.waitFor('x')]),
    );
    await run.start();
    await run.turn(run.raised('x', 'first'));
    await run.turn(run.raised('x', 'second'), run.raised('y', 'other'));
    expect(run.output).toEqual(['first', 'other', 'second']);
  });

  it('are not consumed by a wait that lost a race', async () => {
    const run = drive(async (ctx) => {
      await ctx.race([ctx.waitFor('x'), ctx.call('a')]);
      return ctx.waitFor('x');
    });
    await run.start();
    await run.turn(run.completed(2));
    await run.turn(run.raised('x', 'kept'));
    expect(run.output).toBe('kept');
  });

  it('are not consumed by a wait that timed out or was canceled', async () => {
    const run = drive(async (ctx) => {
      await ctx.waitFor('x', { timeout: '1m' }).catch(() => undefined);
      const second = ctx.waitFor('x');
      second.cancel();
      return ctx.waitFor('x');
    });
    await run.start();
    await run.turn(run.fired(2), run.raised('x', 'kept'));
    expect(run.output).toBe('kept');
  });

  it('skip a withdrawn wait among others', async () => {
    const run = drive(async (ctx) => {
      const waits = [1, 2, 3].map(() => ctx.waitFor('x'));
      waits[1]?.cancel();
      const settled = await ctx.allSettled(waits);
      return settled.map((wait) => (wait.status === 'fulfilled' ? wait.value : wait.status));
    });
    await run.start();
    await run.turn(run.raised('x', 'a'), run.raised('x', 'b'));
    expect(run.output).toEqual(['a', 'rejected', 'b']);
  });

  it('without a payload resolve to undefined', async () => {
    const run = drive(async (ctx) => (await ctx.waitFor('x')) === undefined);
    await run.start(undefined, run.raised('x'));
    expect(run.output).toBe(true);
  });

  it('that are unread are carried to the next execution, with those of the batch', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a');
      await ctx.waitFor('x');
      await ctx.continueAsNew();
    });
    await run.start();
    await run.turn(run.raised('x', 1), run.raised('y', 2), run.raised('x', 3));
    await run.turn(run.raised('x', 4), run.completed(1), run.raised('x', 5), run.raised('z'));
    const carried: readonly BufferedEvent[] = [
      { name: 'x', payload: '3' },
      { name: 'x', payload: '4' },
      { name: 'y', payload: '2' },
      { name: 'x', payload: '5' },
      { name: 'z', payload: null },
    ];
    expect(run.outcome).toMatchObject({ kind: 'executionContinuedAsNew', carried });
  });

  it('that were carried over are delivered before newer ones', async () => {
    const run = drive(async (ctx) => [await ctx.waitFor('x'), await ctx.waitFor('x')], {
      executionId: 2,
    });
    const start = {
      ...run.startMessage(),
      carried: [{ name: 'x', payload: '"older"' }],
    };
    await run.turn(run.raised('x', 'newer'), start);
    expect(run.output).toEqual(['older', 'newer']);
  });

  it('that are all consumed leave nothing to carry', async () => {
    const run = drive(async (ctx) => ctx.continueAsNew());
    await run.start();
    expect(run.outcome).not.toHaveProperty('carried');
  });

  it('that are buffered are counted if their number changes', async () => {
    const run = drive(async (ctx) => {
      await ctx.call('a');
      return ctx.waitFor('x');
    });
    await run.start();
    const events = [1, 2, 3].map((n) => run.raised('x', n));
    expect(await run.turnResult(...events)).toMatchObject({ bufferedEvents: 3 });
    expect(await run.turnResult(run.completed(1))).toMatchObject({ bufferedEvents: 2 });
    expect(run.output).toBe(1);
  });

  it('that are consumed immediately are not counted', async () => {
    const run = drive(async (ctx) => ctx.waitFor('x'));
    await run.start();
    expect(await run.turnResult(run.raised('x', 1))).not.toHaveProperty('bufferedEvents');
  });

  it('are consumed in linear time', async () => {
    const count = 20_000;
    const run = drive(
      async (ctx) => {
        await ctx.call('a');
        let sum = 0;
        for (let i = 0; i < count; i++) sum += (await ctx.waitFor('x')) as number;
        return sum;
      },
      { alwaysReplay: false },
    );
    await run.start();
    await run.turn(...Array.from({ length: count }, () => run.raised('x', 1)));
    await run.turn(run.completed(1));
    expect(run.output).toBe(count);
  });
});
