import fc from 'fast-check';
import type { OrchestrationContext } from '../../src/orchestration/orchestration-context.ts';
import {
  orchestration,
  type OrchestrationDefinition,
} from '../../src/orchestration/orchestration.ts';
import type { DurablePromise } from '../../src/replay/durable-promise.ts';

type Combinator = 'all' | 'allSettled' | 'race' | 'any';

/** One durable operation. */
type Leaf =
  | { readonly kind: 'call'; readonly name: string; readonly timeoutMs?: number | undefined }
  | { readonly kind: 'sleep'; readonly ms: number }
  | { readonly kind: 'wait'; readonly event: string; readonly timeoutMs?: number | undefined }
  | { readonly kind: 'child'; readonly name: string };

/** A random piece of orchestration code. */
type Step =
  | Leaf
  | { readonly kind: 'status' | 'detached' | 'random' | 'microtasks' }
  | { readonly kind: 'cancel'; readonly leaf: Leaf; readonly after?: Leaf | undefined }
  | { readonly kind: 'sequence'; readonly steps: readonly Step[] }
  | { readonly kind: 'attempt'; readonly step: Step; readonly otherwise: Step }
  | {
      readonly kind: 'join';
      readonly by: 'native' | 'context';
      readonly combinator: Combinator;
      readonly branches: readonly Step[];
    }
  | { readonly kind: 'select'; readonly branches: readonly Step[] };

export interface Program {
  readonly step: Step;
  /** How many executions it runs, each continuing as new but the last. */
  readonly rounds: number;
}

/** Turns a program into code that logs what it sees: its result tells every difference in order or value. */
export function toOrchestration(program: Program): OrchestrationDefinition {
  return orchestration('random', async (ctx: OrchestrationContext<number>, round: number) => {
    const seen: unknown[] = [];
    const result = await runStep(ctx, program.step, seen).catch(describeError);
    if (round < program.rounds) await ctx.continueAsNew(round + 1);
    return { result, seen };
  });
}

async function runStep(
  ctx: OrchestrationContext<number>,
  step: Step,
  seen: unknown[],
): Promise<unknown> {
  switch (step.kind) {
    case 'call':
    case 'sleep':
    case 'wait':
    case 'child':
      return issue(ctx, step, seen);
    case 'status':
      return ctx.setCustomStatus(seen.length);
    case 'detached':
      return ctx.startDetached('other', seen.length, { id: ctx.uuid() });
    case 'random':
      return seen.push(ctx.random(), ctx.now());
    case 'microtasks':
      for (let i = 0; i < 7; i++) await Promise.resolve();
      return seen.push('microtasks');
    case 'cancel':
      return runCancel(ctx, step, seen);
    case 'sequence': {
      const results: unknown[] = [];
      for (const inner of step.steps) {
        results.push(await runStep(ctx, inner, seen));
        seen.push(inner.kind, ctx.now());
      }
      return results;
    }
    case 'attempt':
      try {
        return await runStep(ctx, step.step, seen);
      } catch (error) {
        seen.push(describeError(error));
        return runStep(ctx, step.otherwise, seen);
      }
    case 'select': {
      const branches = step.branches.map((branch) => start(ctx, branch, seen));
      const { index, value } = await ctx.select(branches);
      return [index, value];
    }
    case 'join': {
      const branches = step.branches.map((branch) => start(ctx, branch, seen));
      const joins = step.by === 'native' ? nativeJoins : contextJoins(ctx);
      return joins[step.combinator](branches);
    }
  }
}

type Joins = Readonly<Record<Combinator, (branches: Promise<unknown>[]) => Promise<unknown>>>;

const nativeJoins: Joins = {
  all: (branches) => Promise.all(branches),
  race: (branches) => Promise.race(branches),
  any: (branches) => Promise.any(branches),
  allSettled: async (branches) => describeSettled(await Promise.allSettled(branches)),
};

function contextJoins(ctx: OrchestrationContext<number>): Joins {
  return {
    all: (branches) => ctx.all(branches),
    race: (branches) => ctx.race(branches),
    any: (branches) => ctx.any(branches),
    allSettled: async (branches) => describeSettled(await ctx.allSettled(branches)),
  };
}

/** A leaf stays a durable promise, so that it can lose a race; anything else becomes a native one. */
function start(ctx: OrchestrationContext<number>, step: Step, seen: unknown[]): Promise<unknown> {
  switch (step.kind) {
    case 'call':
    case 'sleep':
    case 'wait':
    case 'child':
      return issue(ctx, step, seen);
    default:
      return runStep(ctx, step, seen);
  }
}

function issue(
  ctx: OrchestrationContext<number>,
  leaf: Leaf,
  seen: unknown[],
): DurablePromise<unknown> {
  switch (leaf.kind) {
    case 'call':
      return ctx.call(leaf.name, seen.length, withTimeout(leaf.timeoutMs));
    case 'sleep':
      return ctx.sleep(leaf.ms);
    case 'wait':
      return ctx.waitFor(leaf.event, withTimeout(leaf.timeoutMs));
    case 'child':
      return ctx.child(leaf.name, seen.length);
  }
}

function withTimeout(timeoutMs: number | undefined) {
  return timeoutMs === undefined ? {} : { timeout: timeoutMs };
}

async function runCancel(
  ctx: OrchestrationContext<number>,
  { leaf, after }: Extract<Step, { kind: 'cancel' }>,
  seen: unknown[],
): Promise<unknown> {
  const operation = issue(ctx, leaf, seen);
  if (after !== undefined) await issue(ctx, after, seen).catch(describeError);
  operation.cancel('random');
  return operation.catch(describeError);
}

function describeError(error: unknown): string {
  const { code, message, errors } = error as { code?: string; message: string; errors?: unknown[] };
  return errors === undefined
    ? `${code}: ${message}`
    : `none of [${errors.map(describeError).join()}]`;
}

function describeSettled(results: readonly PromiseSettledResult<unknown>[]): unknown {
  return results.map((result) =>
    result.status === 'fulfilled' ? result.value : describeError(result.reason),
  );
}

const names = fc.constantFrom('a', 'b', 'c');
const timeouts = fc.constantFrom(undefined, undefined, 20);

const leaf: fc.Arbitrary<Leaf> = fc.oneof(
  fc.record({ kind: fc.constant('call'), name: names, timeoutMs: timeouts }),
  fc.record({ kind: fc.constant('sleep'), ms: fc.nat(50) }),
  fc.record({ kind: fc.constant('wait'), event: names, timeoutMs: timeouts }),
  fc.record({ kind: fc.constant('child'), name: names }),
);

const { step } = fc.letrec<{ step: Step }>((tie) => ({
  step: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    { arbitrary: leaf, weight: 4 },
    {
      arbitrary: fc.record({
        kind: fc.constantFrom('status', 'detached', 'random', 'microtasks'),
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('cancel'),
        leaf,
        after: fc.option(leaf, { nil: undefined }),
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('sequence'),
        steps: fc.array(tie('step'), { maxLength: 4 }),
      }),
      weight: 3,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('attempt'),
        step: tie('step'),
        otherwise: tie('step'),
      }),
      weight: 1,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('join'),
        by: fc.constantFrom('native', 'context'),
        combinator: fc.constantFrom('all', 'allSettled', 'race', 'any'),
        branches: fc.array(tie('step'), { minLength: 1, maxLength: 4 }),
      }),
      weight: 3,
    },
    {
      arbitrary: fc.record({
        kind: fc.constant('select'),
        branches: fc.array(tie('step'), { minLength: 1, maxLength: 4 }),
      }),
      weight: 1,
    },
  ),
}));

/** Random programs: all operations, native and durable combinators, nested, in sequence and in parallel. */
export const programs: fc.Arbitrary<Program> = fc.record({
  step: fc
    .array(step, { minLength: 1, maxLength: 3 })
    .map((steps): Step => ({ kind: 'sequence', steps })),
  rounds: fc.constantFrom(1, 1, 1, 2, 3),
});
