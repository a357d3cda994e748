import * as z from 'zod';
import type { CancellationType } from '../../src/model/cancel.ts';
import type { CommonStartOptions } from '../../src/model/start-settings.ts';
import { CanceledError } from '../../src/model/failures/errors.ts';
import type {
  ChildOptions,
  OrchestrationContext,
} from '../../src/orchestration/orchestration-context.ts';
import {
  event,
  orchestration,
  type OrchestrationDefinition,
} from '../../src/orchestration/orchestration.ts';
import { DurablePromise } from '../../src/replay/durable-promise.ts';

type Combinator = 'all' | 'allSettled' | 'race' | 'any';

/** What a start does with the instance that has its id. */
export type Conflict = Pick<ChildOptions, 'id' | 'event' | 'onConflict'> & { readonly id: string };

/** One durable operation. */
export type Leaf =
  | {
      readonly kind: 'call';
      readonly name: string;
      readonly timeoutMs?: number | undefined;
      readonly cancellation?: CancellationType | undefined;
    }
  | { readonly kind: 'run' | 'transaction'; readonly name: string }
  | { readonly kind: 'task'; readonly name: string; readonly timeoutMs?: number | undefined }
  | { readonly kind: 'sleep'; readonly ms: number }
  | {
      readonly kind: 'wait';
      readonly event: string;
      readonly timeoutMs?: number | undefined;
      readonly isChecked: boolean;
    }
  | {
      readonly kind: 'awakeable';
      readonly timeoutMs?: number | undefined;
      readonly isChecked: boolean;
    }
  | {
      readonly kind: 'child';
      readonly name: string;
      readonly cancellation?: CancellationType | undefined;
      readonly start?: CommonStartOptions | undefined;
      readonly conflict?: Conflict | undefined;
    };

/** Code inside its own scope or shield. */
export interface Bracket {
  readonly kind: 'scope' | 'shield';
  readonly step: Step;
  readonly timeoutMs?: number | undefined;
}

/** A random piece of orchestration code. */
export type Step =
  | Leaf
  | Bracket
  | { readonly kind: 'status' | 'emit' | 'random' | 'microtasks' | 'tags' | 'headers' }
  | {
      readonly kind: 'detached';
      readonly start?: CommonStartOptions | undefined;
      readonly conflict?: Conflict | undefined;
    }
  | { readonly kind: 'state'; readonly action: 'set' | 'get' | 'delete'; readonly key: string }
  | { readonly kind: 'patch'; readonly id: string; readonly step: Step }
  | { readonly kind: 'deprecate'; readonly id: string }
  | { readonly kind: 'cancel'; readonly target: Leaf | Bracket; readonly after?: Leaf | undefined }
  | { readonly kind: 'sequence'; readonly steps: readonly Step[] }
  | { readonly kind: 'attempt'; readonly step: Step; readonly otherwise: Step }
  /** Compensation: `cleanUp` runs however `step` ends. */
  | { readonly kind: 'finally'; readonly step: Step; readonly cleanUp: Step }
  /** A branch without an await. */
  | { readonly kind: 'spawn'; readonly step: Step }
  | {
      readonly kind: 'join';
      readonly by: 'native' | 'context';
      readonly combinator: Combinator;
      readonly keepLosers: boolean;
      readonly branches: readonly Step[];
    }
  | {
      readonly kind: 'select';
      readonly keepLosers: boolean;
      readonly branches: readonly Step[];
    };

export interface Program {
  readonly step: Step;
  /** Number of executions. Each but the last continues as new. */
  readonly rounds: number;
  /** Whether it rethrows a CanceledError instead of catching it like any other error. */
  readonly heedsCancel: boolean;
  /** The handlers of the updates `u0`, `u1`, … */
  readonly updates: readonly UpdateCode[];
  /** Whether it waits for running handlers before it ends. */
  readonly settlesUpdates: boolean;
}

/** A random handler of an update. */
interface UpdateCode {
  readonly step: Step;
  /** Whether its validation rejects odd inputs. */
  readonly isPicky: boolean;
}

type Context = OrchestrationContext<number>;

/** Rejects values that end with an odd digit, and changes the others. */
const picky = z
  .unknown()
  .refine((value) => Number(String(value).at(-1)) % 2 === 0, 'odd')
  .transform((value) => `checked ${String(value)}`);

/** Converts a program to an orchestration whose output logs every value in order. */
export function toOrchestration(program: Program): OrchestrationDefinition {
  return orchestration('random', async (ctx: Context, round: number) => {
    const seen: unknown[] = [];
    for (const [index, code] of program.updates.entries()) handleUpdate(ctx, code, index, seen);
    const result = await runStep(ctx, program.step, seen).catch((error: unknown) => {
      if (program.heedsCancel && error instanceof CanceledError) throw error;
      return describeError(error);
    });
    if (program.settlesUpdates) await ctx.updatesSettled();
    if (round < program.rounds) await ctx.continueAsNew(round + 1);
    // Converts undefined array items to null, because a payload rejects them.
    return JSON.parse(JSON.stringify({ result, seen })) as unknown;
  });
}

function handleUpdate(
  ctx: Context,
  { step, isPicky }: UpdateCode,
  index: number,
  seen: unknown[],
): void {
  ctx.onUpdate(`u${index}`, {
    validate: (input) => !isPicky || Number(input) % 2 === 0,
    handle: async (input) => {
      seen.push('update', input);
      if (Number(input) === 4) throw new RangeError('four');
      const result = await runStep(ctx, step, seen);
      return JSON.parse(JSON.stringify({ result, seen: seen.length })) as unknown;
    },
  });
}

async function runStep(ctx: Context, step: Step, seen: unknown[]): Promise<unknown> {
  switch (step.kind) {
    case 'call':
    case 'task':
    case 'run':
    case 'transaction':
    case 'sleep':
    case 'wait':
    case 'awakeable':
    case 'child':
      return issue(ctx, step, seen);
    case 'scope':
    case 'shield':
      return open(ctx, step, seen);
    case 'patch':
      return ctx.patched(step.id) ? runStep(ctx, step.step, seen) : seen.push('old');
    case 'deprecate':
      return ctx.deprecatePatch(step.id);
    case 'status':
      return ctx.setCustomStatus(seen.length);
    case 'emit':
      return ctx.emit(seen.length);
    case 'state':
      return runState(ctx, step, seen);
    case 'detached':
      return ctx.startDetached('other', seen.length, {
        ...step.start,
        id: ctx.uuid(),
        ...step.conflict,
      });
    case 'tags':
      return ctx.setTags({
        seen: String(seen.length),
        ...(seen.length % 2 === 0 && { old: null }),
      });
    case 'headers':
      return seen.push(ctx.headers);
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
    case 'finally':
      try {
        return await runStep(ctx, step.step, seen);
      } finally {
        seen.push('clean up');
        await runStep(ctx, step.cleanUp, seen);
      }
    case 'spawn':
      void runStep(ctx, step.step, seen).then(
        (value) => seen.push(value),
        (error: unknown) => seen.push(describeError(error)),
      );
      return 'spawned';
    case 'select': {
      const branches = step.branches.map((branch) => start(ctx, branch, seen));
      const { index, value } = await ctx.select(branches, { keepLosers: step.keepLosers });
      return [index, value];
    }
    case 'join': {
      const branches = step.branches.map((branch) => start(ctx, branch, seen));
      const joins = step.by === 'native' ? nativeJoins : contextJoins(ctx, step.keepLosers);
      return joins[step.combinator](branches);
    }
  }
}

function runState(
  ctx: Context,
  { action, key }: Extract<Step, { kind: 'state' }>,
  seen: unknown[],
): unknown {
  if (action === 'set') {
    const before = ctx.state.get<readonly unknown[]>(key) ?? [];
    ctx.state.set(key, [...before.slice(-2), seen.length]);
  } else if (action === 'delete') seen.push(ctx.state.delete(key));
  return seen.push(ctx.state.keys(), ctx.state.get(key));
}

type Joins = Readonly<Record<Combinator, (branches: Promise<unknown>[]) => Promise<unknown>>>;

const nativeJoins: Joins = {
  all: (branches) => Promise.all(branches),
  race: (branches) => Promise.race(branches),
  any: (branches) => Promise.any(branches),
  allSettled: async (branches) => describeSettled(await Promise.allSettled(branches)),
};

function contextJoins(ctx: Context, keepLosers: boolean): Joins {
  return {
    all: (branches) => ctx.all(branches),
    race: (branches) => ctx.race(branches, { keepLosers }),
    any: (branches) => ctx.any(branches, { keepLosers }),
    allSettled: async (branches) => describeSettled(await ctx.allSettled(branches)),
  };
}

/** Starts a branch. A leaf or a scope stays a durable promise, so that it can lose a race. */
function start(ctx: Context, step: Step, seen: unknown[]): Promise<unknown> {
  switch (step.kind) {
    case 'call':
    case 'task':
    case 'run':
    case 'transaction':
    case 'sleep':
    case 'wait':
    case 'awakeable':
    case 'child':
      return issue(ctx, step, seen);
    case 'scope':
    case 'shield':
      return open(ctx, step, seen);
    default:
      return runStep(ctx, step, seen);
  }
}

function issue(ctx: Context, leaf: Leaf, seen: unknown[]): DurablePromise<unknown> {
  switch (leaf.kind) {
    case 'call': {
      const { cancellation } = leaf;
      return ctx.call(leaf.name, seen.length, { ...withTimeout(leaf.timeoutMs), cancellation });
    }
    case 'task':
      return ctx.runTask(leaf.name, seen.length, withTimeout(leaf.timeoutMs));
    case 'run':
      return ctx.run(leaf.name, () => 'the world answers');
    case 'transaction':
      return ctx.transaction(leaf.name, () => 'the world answers');
    case 'sleep':
      return ctx.sleep(leaf.ms);
    case 'wait':
      return leaf.isChecked
        ? ctx.waitFor(event(leaf.event, { schema: picky }), withTimeout(leaf.timeoutMs))
        : ctx.waitFor(leaf.event, withTimeout(leaf.timeoutMs));
    case 'awakeable':
      return ctx.awakeable({
        ...withTimeout(leaf.timeoutMs),
        ...(leaf.isChecked && { schema: picky }),
      }).promise;
    case 'child':
      return ctx.child(leaf.name, seen.length, {
        ...leaf.start,
        ...leaf.conflict,
        cancellation: leaf.cancellation,
      });
  }
}

function open(ctx: Context, bracket: Bracket, seen: unknown[]): DurablePromise<unknown> {
  const body = () => runStep(ctx, bracket.step, seen);
  return ctx[bracket.kind](body, withTimeout(bracket.timeoutMs));
}

function withTimeout(timeoutMs: number | undefined) {
  return timeoutMs === undefined ? {} : { timeout: timeoutMs };
}

async function runCancel(
  ctx: Context,
  { target, after }: Extract<Step, { kind: 'cancel' }>,
  seen: unknown[],
): Promise<unknown> {
  const operation = start(ctx, target, seen);
  if (after !== undefined) await issue(ctx, after, seen).catch(describeError);
  if (operation instanceof DurablePromise) operation.cancel('random');
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
