import { describe, expect, it } from 'vitest';
import { drive } from '../../test/replay/turn-driver.ts';
import { outstandingOperations } from './outstanding-operations.ts';

describe('the operations that an execution waits for', () => {
  it('are those that it issued and that were neither answered nor withdrawn', async () => {
    const run = drive(async (ctx) => {
      const later = ctx.waitFor('later');
      const both = [ctx.call('a'), ctx.child('c', 1, { id: 'the-child' })];
      await ctx.select([...both, ctx.sleep(500), later], { keepLosers: true });
      later.cancel();
      await Promise.all(both);
    });
    await run.start();
    expect(outstandingOperations(run.history)).toEqual([
      "event 'later'",
      "activity 'a'",
      "child 'the-child'",
      'a timer for 1970-01-01T00:00:01.500Z',
    ]);
    await run.turn(run.fired(4));
    expect(outstandingOperations(run.history)).toEqual(["activity 'a'", "child 'the-child'"]);
    await run.turn(run.completed(2), run.childCompleted(3));
    expect(outstandingOperations(run.history)).toEqual([]);
  });

  it('do not include a wait whose event was there before it, or one that came after a withdrawn wait', async () => {
    const run = drive(async (ctx) => {
      ctx.waitFor('x').cancel();
      await ctx.call('slow');
      await ctx.waitFor('x');
      await ctx.waitFor('x');
    });
    await run.turn({ ...run.startMessage(), carried: [] }, run.raised('x'));
    await run.turn(run.completed(2));
    expect(outstandingOperations(run.history)).toEqual(["event 'x'"]);
    await run.turn(run.raised('x'));
    expect(outstandingOperations(run.history)).toEqual([]);
  });

  it('include work that was told to stop, if it is waited for', async () => {
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
      "activity 'a' to stop",
      "child 'child' to stop",
    ]);
    await run.turn(run.canceled(1), run.childCanceled(2));
    expect(outstandingOperations(run.history)).toEqual([]);
  });
});
