import { describe, expect, it } from 'vitest';
import type { FailedError } from '../model/failures/errors.ts';
import { activity } from '../orchestration/activity.ts';
import {
  event,
  orchestration,
  update,
  type OrchestrationDefinition,
} from '../orchestration/orchestration.ts';
import type { OrchestrationContext } from '../orchestration/orchestration-context.ts';
import { createTestEnvironment, type TestEnvironmentOptions } from './test-environment.ts';

const heads = activity('heads', async () => undefined);
const tails = activity('tails', async () => undefined);

/** Runs an orchestration that flips a coin, and expects that it fails only if the flips of its runs differ. */
async function flip(
  body: (ctx: OrchestrationContext, coin: () => boolean) => Promise<unknown>,
  options: TestEnvironmentOptions & { readonly runs: number; readonly coin?: () => boolean },
): Promise<{ readonly differed: number; readonly caught: number }> {
  const { runs, coin = fairCoin, ...rest } = options;
  const landings = new Map<string, Set<boolean>>();
  const program: OrchestrationDefinition = orchestration('coin', async (ctx) => {
    const landed = landings.get(ctx.instanceId) ?? new Set();
    landings.set(ctx.instanceId, landed);
    return await body(ctx, () => {
      const side = coin();
      landed.add(side);
      return side;
    });
  });
  await using env = await createTestEnvironment({
    orchestrations: [program],
    activities: [heads, tails],
    // The patched globals would make the coin deterministic.
    deterministicGlobals: false,
    ...rest,
  });
  let differed = 0;
  let caught = 0;
  for (let run = 0; run < runs; run += 1) {
    const handle = await env.client.start(program);
    const failure = await env.result(handle).then(
      () => undefined,
      (error: FailedError) => error.failure,
    );
    if (failure !== undefined) {
      expect(failure.code).toBe('NONDETERMINISM');
      expect(failure.message).toMatch(/history records .*, but the code /);
      expect((await env.client.get(handle.id))?.status).toBe('failed');
      caught += 1;
    }
    if (landings.get(handle.id)?.size === 2) differed += 1;
    else expect(failure).toBeUndefined();
  }
  return { differed, caught };
}

function fairCoin(): boolean {
  return (crypto.getRandomValues(new Uint8Array(1))[0] ?? 0) < 128;
}

/** Returns heads for the first `after` flips, then tails. */
function coinThatSwitches(after: number): () => boolean {
  let flips = 0;
  return () => (flips += 1) <= after;
}

describe('replay of an orchestration that flips a coin', () => {
  it('fails exactly those of 200 runs whose replays flip differently', async () => {
    const { differed, caught } = await flip(
      async (ctx, coin) => {
        await ctx.call(coin() ? heads : tails);
        await ctx.sleep('1h');
        await ctx.call(heads);
      },
      { runs: 200 },
    );
    expect(caught).toBe(differed);
    // Three replays per run: seven of eight runs are expected to differ.
    expect(caught).toBeGreaterThan(120);
  });

  it.each([
    ['with fast paths', true],
    ['without fast paths', false],
  ])('fails a run whose replay flips differently in any kind of turn, %s', async (_, fastPaths) => {
    const turns: Record<
      string,
      (ctx: OrchestrationContext, coin: () => boolean) => Promise<unknown>
    > = {
      'first turn': async (ctx, coin) => ctx.call(coin() ? heads : tails),
      'after an activity': async (ctx, coin) => {
        await ctx.call(heads);
        await (coin() ? ctx.call(heads) : ctx.sleep('1h'));
      },
      'after a timer': async (ctx, coin) => {
        await ctx.sleep('1h');
        await ctx.call(coin() ? heads : tails);
      },
      'result of the first turn': async (_ctx, coin) => coin(),
      'result of the last turn': async (ctx, coin) => {
        await ctx.call(heads);
        return coin();
      },
      'thrown or returned': async (ctx, coin) => {
        await ctx.sleep('1h');
        if (coin()) throw new Error('heads');
      },
      'in a custom status that is set or not': async (ctx, coin) => {
        await ctx.sleep('1h');
        if (coin()) ctx.setCustomStatus('heads');
        await ctx.sleep('1h');
      },
    };
    for (const [where, body] of Object.entries(turns)) {
      const counts = await flip(body, { runs: 1, coin: coinThatSwitches(1), fastPaths });
      expect({ where, ...counts }).toEqual({ where, differed: 1, caught: 1 });
    }
  });

  it('fails a run whose first replay differs although later replays agree', async () => {
    let flips = 0;
    const odd = (): boolean => (flips += 1) !== 2;
    const counts = await flip(
      async (ctx, coin) => {
        await ctx.call(coin() ? heads : tails);
        await ctx.call(heads);
      },
      { runs: 1, coin: odd },
    );
    expect(counts).toEqual({ differed: 1, caught: 1 });
  });

  it('fails with an error that names the recorded and the issued command', async () => {
    const program = orchestration('named', async (ctx) => ctx.call(toss() ? heads : tails));
    const toss = coinThatSwitches(1);
    await using env = await createTestEnvironment({
      orchestrations: [program],
      activities: [heads, tails],
    });
    const handle = await env.client.start(program);
    await expect(env.result(handle)).rejects.toMatchObject({
      code: 'INSTANCE_FAILED',
      failure: {
        code: 'NONDETERMINISM',
        message: expect.stringMatching(
          /event 2: history records a call of activity "heads".*, but the code issued a call of activity "tails"/,
        ) as string,
      },
    });
  });
});

describe('replay after each turn', () => {
  it('keeps the failure of an unhandled rejection that does not recur in the replay', async () => {
    const program = orchestration('broken', async (ctx) => {
      if (!ctx.isReplaying) void Promise.reject(new Error('from outside'));
      await ctx.sleep('1h');
    });
    await using env = await createTestEnvironment({ orchestrations: [program] });
    const handle = await env.client.start(program);
    await expect(env.result(handle)).rejects.toMatchObject({
      failure: { message: 'from outside' },
    });
  });

  it('finds a validation of an update that changes a variable of the code', async () => {
    const add = update<number, number>('add');
    const go = event('go');
    const program = orchestration('counting', async (ctx) => {
      let rejected = 0;
      ctx.onUpdate(add, {
        validate: () => {
          // A replay does not run it: a rejected update has no event.
          rejected += 1;
          return false;
        },
        handle: (value) => value,
      });
      await ctx.waitFor(go);
      await ctx.call(rejected > 0 ? heads : tails);
    });
    await using env = await createTestEnvironment({
      orchestrations: [program],
      activities: [heads, tails],
    });
    const handle = await env.client.start(program);
    await expect(env.client.update(handle.id, add, 1)).rejects.toMatchObject({
      code: 'UPDATE_REJECTED',
    });
    await handle.raiseEvent(go);
    await expect(env.result(handle)).rejects.toMatchObject({ failure: { code: 'NONDETERMINISM' } });
  });

  it('blocks the instance with onNondeterminism: block', async () => {
    const program = orchestration('held', async (ctx) => ctx.call(toss() ? heads : tails));
    const toss = coinThatSwitches(1);
    await using env = await createTestEnvironment({
      orchestrations: [program],
      activities: [heads, tails],
      onNondeterminism: 'block',
    });
    const handle = await env.client.start(program);
    await env.settle();
    expect(await handle.status()).toMatchObject({
      status: 'pending',
      blocked: { reason: expect.stringMatching(/but the code issued/) as string },
    });
  });
});
