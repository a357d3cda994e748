import { setTimeout as delay } from 'node:timers/promises';
import { activity, orchestration } from '../../../src/index.ts';
import type { ActivityContext } from '../../../src/orchestration/activity-context.ts';
import type { Ledger } from '../oracles/ledger.ts';

interface EffectInput {
  readonly value: number;
  readonly ms: number;
  /** The first attempt fails. */
  readonly flaky?: boolean;
}

/** The result of an effect: `run` identifies the recorded execution in the history. */
export interface EffectOutput {
  readonly value: number;
  readonly run: string;
}

interface Kind {
  /** The expected result of an instance of this kind. */
  readonly result: (n: number) => number;
  /** Events that it waits for. */
  readonly events: number;
  /** How many of twenty instances are of this kind. */
  readonly share: number;
}

/** The mix of instances, by the name of the orchestration. */
export const kinds: Readonly<Record<string, Kind>> = {
  sequence: { result: (n) => n + 4, events: 0, share: 4 },
  fanOut: { result: (n) => 5 * n + 15, events: 0, share: 4 },
  timer: { result: (n) => n + 2, events: 0, share: 3 },
  events: { result: (n) => n + 2 + 10 + 20, events: 2, share: 3 },
  children: { result: (n) => 2 * n + 9, events: 0, share: 2 },
  generations: { result: (n) => n + 3, events: 0, share: 2 },
  flaky: { result: (n) => n + 1, events: 0, share: 1 },
  slow: { result: (n) => n + 1, events: 0, share: 1 },
};

const mix = Object.entries(kinds).flatMap(([name, { share }]) =>
  Array.from({ length: share }, () => name),
);
const mixWithoutEvents = mix.filter((name) => kinds[name]?.events === 0);

/** The kind of the instance with this number. */
export function kindOf(n: number, { events = true } = {}): string {
  const cycle = events ? mix : mixWithoutEvents;
  return cycle[(n * 7) % cycle.length] ?? 'sequence';
}

/** An id from which the verifier derives the expected result. */
export function idOf(starter: string, kind: string, n: number): string {
  return `${starter}:${kind}:${n}`;
}

/** The input of the instance with this id. */
export function inputOf(id: string): number {
  return Number(id.split(':')[2]);
}

/** The expected result of the instance with this id. */
export function expectedResult(id: string): number | undefined {
  const [, kind = '', n] = id.split(':');
  return kinds[kind]?.result(Number(n));
}

/** The definitions that a worker runs. Each execution of the effect is written to the ledger. */
export function createScenarios(ledger: Ledger, leaseMs: number) {
  const effect = activity('effect', (ctx, input: EffectInput) => runEffect(ledger, ctx, input));
  // Mostly short, some long, in a fixed order: the input of a call must not change in a replay.
  const msOf = (n: number): number => 2 + ((n * 13) % 24);

  const sequence = orchestration('sequence', async (ctx, n: number) => {
    let value = n;
    for (let step = 0; step < 4; step++) {
      value = (await ctx.call(effect, { value, ms: msOf(value) })).value;
      // The code reads its own writes, whatever a lost turn or a later one has stored.
      const before = ctx.state.get<number>('value') ?? n;
      if (before !== value - 1) throw new Error(`State has ${before} before ${value}.`);
      ctx.state.set('value', value);
    }
    return value;
  });

  const fanOut = orchestration('fanOut', async (ctx, n: number) => {
    const calls = [0, 1, 2, 3, 4].map((i) => ctx.call(effect, { value: n + i, ms: msOf(n + i) }));
    const results = await ctx.all(calls);
    return results.reduce((sum, { value }) => sum + value, 0);
  });

  const timer = orchestration('timer', async (ctx, n: number) => {
    const first = await ctx.call(effect, { value: n, ms: msOf(n) });
    await ctx.sleep(20 + (n % 50));
    return (await ctx.call(effect, { value: first.value, ms: msOf(n) })).value;
  });

  const events = orchestration('events', async (ctx, n: number) => {
    const first = (await ctx.waitFor('add')) as number;
    const after = await ctx.call(effect, { value: n + first, ms: msOf(n) });
    const second = (await ctx.waitFor('add')) as number;
    return (await ctx.call(effect, { value: after.value + second, ms: msOf(n) })).value;
  });

  const children = orchestration('children', async (ctx, n: number) => {
    const results = await ctx.all([ctx.child(sequence, n), ctx.child(sequence, n + 1)]);
    return results[0] + results[1];
  });

  const generations = orchestration(
    'generations',
    async (ctx, input: number | { readonly value: number; readonly left: number }) => {
      const { value, left } = typeof input === 'number' ? { value: input, left: 3 } : input;
      // An operator may retry an execution with the first input, which keeps the state that the execution began with.
      const carried = typeof input === 'number' ? value : ctx.state.get<number>('value');
      if (carried !== value) throw new Error(`State has ${carried} at the start with ${value}.`);
      const next = await ctx.call(effect, { value, ms: msOf(value) });
      ctx.state.set('value', next.value);
      if (left > 1) return ctx.continueAsNew({ value: next.value, left: left - 1 });
      return next.value;
    },
  );

  const flaky = orchestration('flaky', async (ctx, n: number) => {
    const retry = { maxAttempts: 3, backoff: 'fixed', initialDelay: 20, jitter: 0 } as const;
    return (await ctx.call(effect, { value: n, ms: msOf(n), flaky: true }, { retry })).value;
  });

  // Longer than its lease, so that it needs renewals.
  const slow = orchestration('slow', async (ctx, n: number) => {
    return (await ctx.call(effect, { value: n, ms: leaseMs * 1.5 })).value;
  });

  return {
    orchestrations: [sequence, fanOut, timer, events, children, generations, flaky, slow],
    activities: [effect],
  };
}

let runs = 0;

async function runEffect(
  ledger: Ledger,
  ctx: ActivityContext,
  { value, ms, flaky = false }: EffectInput,
): Promise<EffectOutput> {
  const { attempt, idempotencyKey: key } = ctx;
  const run = `${process.pid}-${runs++}`;
  ledger.write({ line: 'begin', key, attempt, run, at: Date.now() });
  await delay(ms);
  const failed = flaky && attempt === 1;
  ledger.write({ line: 'end', run, failed, at: Date.now() });
  if (failed) throw new Error('The first attempt fails.');
  return { value: value + 1, run };
}
