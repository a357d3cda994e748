import type { CancellationType } from '../../../src/model/cancel.ts';
import { isPerdureError, type CanceledError } from '../../../src/model/failures/errors.ts';
import { activity, type ActivityDefinition } from '../../../src/orchestration/activity.ts';
import type { ActivityContext } from '../../../src/orchestration/activity-context.ts';
import {
  orchestration,
  type OrchestrationDefinition,
} from '../../../src/orchestration/orchestration.ts';
import type { OrchestrationContext } from '../../../src/orchestration/orchestration-context.ts';

/** How a script calls its activity. */
export interface Call {
  readonly cancellation: CancellationType;
  readonly attempts: 1 | 2;
  /** Its handler ignores its signal until a command. */
  readonly deaf: boolean;
}

/** One step of a script. */
export type Step =
  | { readonly do: 'call'; readonly call: Call }
  | { readonly do: 'both'; readonly first: Call; readonly second: Call }
  | { readonly do: 'race'; readonly call: Call; readonly ms: number }
  | { readonly do: 'scope'; readonly call: Call; readonly ms: number }
  | { readonly do: 'sleep'; readonly ms: number }
  | { readonly do: 'wait' }
  | {
      readonly do: 'child';
      readonly cancellation: CancellationType;
      readonly script: Script;
    }
  | { readonly do: 'again' };

/** A small orchestration as data, for both the engine and the reference model. */
export interface Script {
  readonly steps: readonly Step[];
  /** How it handles an error of its steps. */
  readonly onError: 'throw' | 'return' | 'fail';
  /** After an error, calls the activity once more in a shield. */
  readonly cleanUp: boolean;
}

/** The input of the activity: the call that it serves. */
export interface WorkInput {
  readonly label: string;
  readonly wait: boolean;
  readonly deaf: boolean;
}

/** Delay between attempts of the activity. */
const retryDelayMs = 50;

const cleanUpCall: Call = { cancellation: 'request', attempts: 1, deaf: false };

/** The definitions that interpret scripts; `handle` is the handler of the activity. */
export function createDefinitions(
  handle: (ctx: ActivityContext, input: WorkInput) => Promise<string>,
): {
  readonly orchestrations: readonly OrchestrationDefinition[];
  readonly activities: readonly ActivityDefinition[];
} {
  const work = activity('work', handle);
  const scripted = orchestration(
    'scripted',
    (ctx: OrchestrationContext, script: Script): Promise<string> => runScript(ctx, script),
  );

  const call = (ctx: OrchestrationContext, label: string, { cancellation, attempts, deaf }: Call) =>
    ctx.call(
      work,
      { label, wait: cancellation === 'wait', deaf },
      {
        cancellation,
        retry: { maxAttempts: attempts, initialDelay: retryDelayMs, jitter: 0 },
      },
    );

  async function runScript(ctx: OrchestrationContext, script: Script): Promise<string> {
    try {
      for (const [index, step] of script.steps.entries()) {
        if (step.do === 'again') {
          return await ctx.continueAsNew({ ...script, steps: script.steps.slice(index + 1) });
        }
        await runStep(ctx, step, `${index}`);
      }
      return 'done';
    } catch (error) {
      if (script.cleanUp) await ctx.shield(() => call(ctx, 'clean-up', cleanUpCall));
      if (script.onError === 'return') return 'kept';
      if (script.onError === 'fail') throw new Error('could not clean up', { cause: error });
      throw error;
    }
  }

  async function runStep(
    ctx: OrchestrationContext,
    step: Exclude<Step, { do: 'again' }>,
    label: string,
  ): Promise<unknown> {
    switch (step.do) {
      case 'call':
        return await call(ctx, label, step.call);
      case 'both':
        return await ctx.all([
          call(ctx, `${label}a`, step.first),
          call(ctx, `${label}b`, step.second),
        ]);
      case 'race':
        return await ctx.race([call(ctx, label, step.call), ctx.sleep(step.ms)]);
      case 'scope':
        return await ctx
          .scope(() => call(ctx, label, step.call), { timeout: step.ms })
          .catch((error: unknown) => {
            if (!isTimeout(error)) throw error;
          });
      case 'sleep':
        return await ctx.sleep(step.ms);
      case 'wait':
        return await ctx.waitFor('go');
      case 'child':
        return await ctx.child(scripted, step.script, {
          id: childId(ctx.instanceId, ctx.executionId, label),
          cancellation: step.cancellation,
        });
    }
  }

  return { orchestrations: [scripted], activities: [work] };
}

/** Child ids end with the step that started them. */
function childId(instanceId: string, executionId: number, label: string): string {
  return `${instanceId}/${executionId}.${label}`;
}

function isTimeout(error: unknown): boolean {
  return (
    isPerdureError(error, 'OPERATION_CANCELED') && (error as CanceledError).trigger === 'timeout'
  );
}
