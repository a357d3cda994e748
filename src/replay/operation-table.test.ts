import { describe, expect, it } from 'vitest';
import type { Message } from '../model/message.ts';
import { drive, kindsOf } from '../../test/replay/turn-driver.ts';

describe('R4: only answers to outstanding operations are recorded', () => {
  const twoActivities = () => drive(async (ctx) => ctx.all([ctx.call('a'), ctx.call('b')]));

  it('drops the second completion of an operation, in the same batch and later', async () => {
    const run = twoActivities();
    await run.start();
    const events = await run.turn(run.completed(1, 'first'), run.completed(1, 'second'));
    expect(kindsOf(events)).toEqual(['activityCompleted']);
    expect(await run.turn(run.completed(1, 'third'), run.failed(1))).toEqual([]);
    await run.turn(run.completed(2, 'b'));
    expect(run.output).toEqual(['first', 'b']);
  });

  it('drops what is addressed to another execution', async () => {
    const run = drive(async (ctx) => ctx.call('a'), { executionId: 2 });
    await run.start();
    const stale: Message = {
      kind: 'activityCompleted',
      executionId: 1,
      operation: 1,
      payload: '"old"',
    };
    expect(await run.turn(stale)).toEqual([]);
    await run.turn(run.completed(1, 'new'));
    expect(run.output).toBe('new');
  });

  it('drops an answer of the wrong kind, and one to an unknown operation', async () => {
    const run = twoActivities();
    await run.start();
    const wrong = [run.fired(1), run.childCompleted(1), run.childFailed(2), run.completed(99)];
    expect(await run.turn(...wrong)).toEqual([]);
  });

  it('drops an answer to something that never has one', async () => {
    const run = drive(async (ctx) => {
      ctx.setCustomStatus('working');
      await ctx.startDetached('other', 1, { id: 'other-1' });
      await ctx.call('a');
    });
    await run.start();
    expect(await run.turn(run.completed(1), run.childCompleted(2))).toEqual([]);
  });

  it('drops an answer to a withdrawn operation', async () => {
    const run = drive(async (ctx) => {
      await ctx.race([ctx.call('a'), ctx.call('b')]);
      return ctx.call('c');
    });
    await run.start();
    const events = await run.turn(run.completed(1, 'a'));
    expect(kindsOf(events)).toEqual([
      'activityCompleted',
      'operationWithdrawn',
      'activityScheduled',
    ]);
    expect(await run.turn(run.completed(2, 'b'), run.canceled(2))).toEqual([]);
  });

  it('drops a wake, and a second start', async () => {
    const run = twoActivities();
    await run.start();
    expect(await run.turn({ kind: 'wake' }, run.startMessage())).toEqual([]);
  });
});

describe('answers', () => {
  it('give the code the value, as a fresh object', async () => {
    const run = drive(async (ctx) => {
      const [a, b] = await ctx.all([ctx.call('a'), ctx.call('b')]);
      return [a, b, a === b];
    });
    await run.start();
    await run.turn(run.completed(1, { x: [1] }), run.completed(2, { x: [1] }));
    expect(run.output).toEqual([{ x: [1] }, { x: [1] }, false]);
  });

  it('reject with a typed error whose cause is what the activity failed with', async () => {
    const run = drive(async (ctx) => {
      try {
        return await ctx.call('charge');
      } catch (error) {
        const { code, subject, message, cause } = error as Error & {
          code: string;
          subject: string;
        };
        return [code, subject, message, (cause as Error).name, (cause as { code?: string }).code];
      }
    });
    await run.start();
    await run.turn(run.failed(1, { name: 'CardError', message: 'declined', code: 'E_CARD' }));
    expect(run.output).toEqual([
      'ACTIVITY_FAILED',
      'charge',
      "Activity 'charge' failed: declined",
      'CardError',
      'E_CARD',
    ]);
  });

  it('reject with CHILD_FAILED when a child failed', async () => {
    const run = drive(async (ctx) => ctx.child('part', 1));
    await run.start();
    await run.turn(run.childFailed(1, { message: 'broken' }));
    expect(run.failure).toMatchObject({
      code: 'CHILD_FAILED',
      message: "Child orchestration 'part' failed: broken",
      cause: { message: 'broken' },
    });
  });

  it('never pollute a prototype', async () => {
    const run = drive(async (ctx) => {
      const value = (await ctx.call('a')) as Record<string, unknown>;
      return [Object.keys(value), 'polluted' in {}];
    });
    await run.start();
    await run.turn({
      kind: 'activityCompleted',
      executionId: 1,
      operation: 1,
      payload: '{"a":1,"__proto__":{"polluted":true}}',
    });
    expect(run.output).toEqual([['a'], false]);
  });
});
