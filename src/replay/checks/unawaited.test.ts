import { describe, expect, it } from 'vitest';
import { drive, type TurnDriver } from '../../../test/replay/turn-driver.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { OrchestrationContext } from '../../orchestration/orchestration-context.ts';
import type { Message } from '../../model/message.ts';

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

  it('names an operation that has settled meanwhile, and one that failed', async () => {
    const code = async (ctx: OrchestrationContext) => {
      void ctx.call('quick');
      void ctx.call('fails');
      await ctx.call('slow');
    };
    expect(
      await neverAwaited(code, (run) => [run.completed(1), run.failed(2), run.completed(3)]),
    ).toEqual(['activity "quick"', 'activity "fails"']);
  });

  it('names only what was dropped among many that settle before they are awaited', async () => {
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

  it('names an event that was there already', async () => {
    const code = async (ctx: OrchestrationContext) => {
      await ctx.call('a');
      void ctx.waitFor('early');
    };
    expect(await neverAwaited(code, (run) => [run.raised('early'), run.completed(1)])).toEqual([
      'event "early"',
    ]);
  });

  it('names what a continue-as-new drops', async () => {
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
  it('names nothing when it throws or is canceled before it could await', async () => {
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

  it('is named by its key, and keeps its class, code and message', async () => {
    const error = await failWith((ctx) =>
      ctx.select({ mail: ctx.call('mail'), stock: ctx.call('stock') }),
    );
    expect(error).toBeInstanceOf(PerdureError);
    expect(error.selectKey).toBe('stock');
    expect(error.code).toBe('ACTIVITY_FAILED');
    expect(error.message).toBe("Activity 'stock' failed: no stock");
    expect(Object.keys(error)).not.toContain('selectKey');
  });

  it('is named by its index in a list', async () => {
    const error = await failWith((ctx) => ctx.select([ctx.call('mail'), ctx.call('stock')]));
    expect(error.selectKey).toBe(1);
  });

  it('may reject with anything, also with what cannot be changed', async () => {
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

  it('has no key in a race', async () => {
    const error = await failWith((ctx) => ctx.race([ctx.call('mail'), ctx.call('stock')]));
    expect(error.selectKey).toBeUndefined();
  });
});
