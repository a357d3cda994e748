import { describe, expect, it } from 'vitest';
import { drive, kindsOf, type TurnDriver } from '../../test/replay/turn-driver.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { Message } from '../model/message.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';

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

  it('drops messages of another execution', async () => {
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

  it('drops an answer of an operation that has none', async () => {
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
  it('resolve with a new object', async () => {
    const run = drive(async (ctx) => {
      const [a, b] = await ctx.all([ctx.call('a'), ctx.call('b')]);
      return [a, b, a === b];
    });
    await run.start();
    await run.turn(run.completed(1, { x: [1] }), run.completed(2, { x: [1] }));
    expect(run.output).toEqual([{ x: [1] }, { x: [1] }, false]);
  });

  it('reject with a FailedError whose cause is the error of the activity', async () => {
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

  it('reject with CHILD_FAILED if a child failed', async () => {
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

/** What an execution has not awaited when it ends in the turn of these messages. */
async function neverAwaited(
  code: (ctx: OrchestrationContext) => Promise<unknown>,
  messages: (run: TurnDriver) => readonly Message[] = () => [],
): Promise<readonly string[] | undefined> {
  const run = drive(code);
  const first = await run.turnResult(run.startMessage());
  const given = messages(run);
  const last = given.length === 0 ? first : await run.turnResult(...given);
  expect(run.outcome).toBeDefined();
  return last.neverAwaited;
}

describe('an execution that returns', () => {
  it('names each operation that it never awaited, in the order of the calls', async () => {
    expect(
      await neverAwaited(async (ctx) => {
        void ctx.call('chargeCard', 1);
        void ctx.call('limited', 1, { timeout: '1h' });
        void ctx.sleep('1h');
        void ctx.waitFor('paid');
        void ctx.waitFor('late', { timeout: '1h' });
        void ctx.child('ship', 1);
      }),
    ).toEqual([
      'activity "chargeCard"',
      'activity "limited"',
      'timer (operation 4)',
      'event "paid"',
      'event "late"',
      'child "ship"',
    ]);
  });

  it('names an operation that has settled, and one that failed', async () => {
    const code = async (ctx: OrchestrationContext) => {
      void ctx.call('quick');
      void ctx.call('fails');
      await ctx.call('slow');
    };
    expect(
      await neverAwaited(code, (run) => [run.completed(1), run.failed(2), run.completed(3)]),
    ).toEqual(['activity "quick"', 'activity "fails"']);
  });

  it('names only dropped operations among many that settle before they are awaited', async () => {
    const code = async (ctx: OrchestrationContext) => {
      const calls = Array.from({ length: 200 }, (_, index) => ctx.call(`call${index}`));
      await ctx.call('last');
      for (const [index, call] of calls.entries()) if (index !== 150) await call;
    };
    expect(
      await neverAwaited(code, (run) =>
        Array.from({ length: 201 }, (_, index) => run.completed(index + 1)),
      ),
    ).toEqual(['activity "call150"']);
  });

  it('names a wait whose event was buffered', async () => {
    const code = async (ctx: OrchestrationContext) => {
      await ctx.call('a');
      void ctx.waitFor('early');
    };
    expect(await neverAwaited(code, (run) => [run.raised('early'), run.completed(1)])).toEqual([
      'event "early"',
    ]);
  });

  it('names operations that a continue-as-new drops', async () => {
    expect(
      await neverAwaited(async (ctx) => {
        void ctx.call('a');
        await ctx.continueAsNew();
      }),
    ).toEqual(['activity "a"']);
  });

  it.each<[string, (ctx: OrchestrationContext) => Promise<unknown>]>([
    ['handed to ctx.all', async (ctx) => void ctx.all([ctx.call('a')])],
    ['handed to ctx.race', async (ctx) => void ctx.race([ctx.call('a'), ctx.sleep(1)])],
    ['handed to ctx.any', async (ctx) => void ctx.any([ctx.call('a')])],
    ['handed to ctx.select', async (ctx) => void ctx.select({ a: ctx.call('a') })],
    ['handed to ctx.allSettled', async (ctx) => void ctx.allSettled([ctx.call('a')])],
    ['handed to Promise.all', async (ctx) => void Promise.all([ctx.call('a'), ctx.sleep(1)])],
    ['handed to Promise.race', async (ctx) => void Promise.race([ctx.call('a'), ctx.sleep(1)])],
    ['handled with then', async (ctx) => void ctx.call('a').then(() => undefined)],
    ['handled with catch', async (ctx) => void ctx.call('a').catch(() => undefined)],
    ['canceled', async (ctx) => ctx.call('a').cancel()],
    ['with a timeout and canceled', async (ctx) => ctx.call('a', 1, { timeout: 1 }).cancel()],
    ['left in a scope', async (ctx) => ctx.scope(() => void ctx.call('a'))],
    ['left in a shield', async (ctx) => ctx.shield(() => void ctx.call('a'))],
    ['abandoned', async (ctx) => void ctx.call('a', 1, { cancellation: 'abandon' })],
    ['detached', async (ctx) => void ctx.startDetached('a', 1, { id: 'x' })],
  ])('does not name an operation that is %s', async (_, code) => {
    expect(await neverAwaited(code)).toBeUndefined();
  });

  it('does not name the losers of a race', async () => {
    const code = async (ctx: OrchestrationContext) =>
      ctx.race([ctx.call('a'), ctx.call('b'), ctx.sleep('1h')]);
    expect(await neverAwaited(code, (run) => [run.completed(1)])).toBeUndefined();
  });
});

describe('an execution that does not return', () => {
  it('names nothing if it throws or is canceled before it awaits', async () => {
    const code = async (ctx: OrchestrationContext) => {
      const later = ctx.call('later');
      await ctx.call('first');
      return later;
    };
    expect(await neverAwaited(code, (run) => [run.failed(2)])).toBeUndefined();
    expect(await neverAwaited(code, (run) => [run.cancel()])).toBeUndefined();
  });
});

describe('a failing member of select', () => {
  const failWith = async (select: (ctx: OrchestrationContext) => Promise<unknown>) => {
    let thrown: unknown;
    const run = drive(async (ctx) => {
      await select(ctx).catch((error: unknown) => (thrown = error));
    });
    await run.start();
    await run.turn(run.failed(2, { message: 'no stock' }));
    return thrown as PerdureError;
  };

  it('has its key as selectKey, and keeps its class, code and message', async () => {
    const error = await failWith((ctx) =>
      ctx.select({ mail: ctx.call('mail'), stock: ctx.call('stock') }),
    );
    expect(error).toBeInstanceOf(PerdureError);
    expect(error.selectKey).toBe('stock');
    expect(error.code).toBe('ACTIVITY_FAILED');
    expect(error.message).toBe("Activity 'stock' failed: no stock");
    expect(Object.keys(error)).not.toContain('selectKey');
  });

  it('has its index as selectKey in a list', async () => {
    const error = await failWith((ctx) => ctx.select([ctx.call('mail'), ctx.call('stock')]));
    expect(error.selectKey).toBe(1);
  });

  it('may reject with any value, also a frozen one', async () => {
    const frozen = Object.freeze(new Error('frozen'));
    const reject = async (reason: unknown): Promise<never> => {
      throw reason;
    };
    const run = drive(async (ctx) => {
      const seen = [frozen, 'text'].map((reason) =>
        ctx.select({ a: reject(reason) }).catch((error: unknown) => error === reason),
      );
      return Promise.all(seen);
    });
    await run.start();
    expect(run.output).toEqual([true, true]);
  });

  it('has no selectKey in a race', async () => {
    const error = await failWith((ctx) => ctx.race([ctx.call('mail'), ctx.call('stock')]));
    expect(error.selectKey).toBeUndefined();
  });
});
