import {
  activity,
  type ActivityContext,
  type ActivityDefinition,
  type ActivityDefaults,
} from '../../index.ts';
import type { FlowFailure } from '../definition/flow-errors.ts';
import { activityNames } from '../definition/graph.ts';
import type { ItemInput, ReduceInput, StepResult } from '../definition/run-format.ts';
import { generate, type GeneratorContext } from './generator-activity.ts';
import { LiveStepContext, type StepContext } from './step-context.ts';

type Inputs = Readonly<Record<string, unknown>>;

/** The handlers of a step, untyped. */
export type StepCode =
  | {
      readonly kind: 'step';
      readonly handler: (ctx: StepContext<unknown>, inputs: Inputs) => unknown;
    }
  | { readonly kind: 'map'; readonly handler: ItemHandler }
  | {
      readonly kind: 'generator';
      readonly generate: (ctx: GeneratorContext, inputs: Inputs) => AsyncIterable<unknown>;
      readonly resumes: boolean;
      readonly handler: ItemHandler;
    }
  | {
      readonly kind: 'reduce';
      readonly handler: (
        ctx: StepContext<unknown>,
        accumulator: unknown,
        item: unknown,
        inputs: Inputs,
      ) => unknown;
    };

type ItemHandler = (ctx: StepContext<unknown>, item: unknown, inputs: Inputs) => unknown;

/** The step that an activity runs, and the options of its calls. */
interface Place {
  readonly flow: string;
  readonly step: string;
  readonly call: ActivityDefaults;
}

/** Creates the activities of a step. Their options are only validated here: calls use those of the run's graph. */
export function stepActivities(place: Place, code: StepCode): readonly ActivityDefinition[] {
  const { flow, step, call } = place;
  const name = activityNames[code.kind](flow, step);
  switch (code.kind) {
    case 'step':
      return [
        activity(
          name,
          (ctx, inputs: Inputs) => run(ctx, place, (context) => code.handler(context, inputs)),
          call,
        ),
      ];
    case 'map':
      return [itemActivity(name, place, code.handler)];
    case 'generator':
      return [
        activity(
          activityNames.generate(flow, step),
          (ctx, inputs: Inputs) => generate(ctx, { ...place, ...code, inputs }),
          call,
        ),
        itemActivity(name, place, code.handler),
      ];
    case 'reduce':
      return [
        activity(
          name,
          (ctx, { accumulator, items, inputs = {} }: ReduceInput) =>
            run(ctx, place, async (context) => {
              let folded = accumulator;
              for (const item of items) folded = await code.handler(context, folded, item, inputs);
              return folded;
            }),
          call,
        ),
      ];
  }
}

/** Creates the activity of the on-fail handler. */
export function onFailActivity(
  flow: string,
  handler: (ctx: StepContext, failure: FlowFailure) => unknown,
  call: ActivityDefaults,
): ActivityDefinition {
  const place = { flow, step: '$onFail' };
  return activity(
    activityNames.onFail(flow),
    async (ctx, failure: FlowFailure) => {
      await handler(new LiveStepContext(ctx, place), failure);
    },
    call,
  );
}

function itemActivity(name: string, place: Place, handler: ItemHandler): ActivityDefinition {
  return activity(
    name,
    (ctx, { item, index, inputs = {} }: ItemInput) =>
      run(ctx, { ...place, index }, (context) => handler(context, item, inputs)),
    place.call,
  );
}

async function run(
  activityContext: ActivityContext,
  place: Place & { readonly index?: number },
  handle: (context: LiveStepContext) => unknown,
): Promise<StepResult> {
  const context = new LiveStepContext(activityContext, place);
  try {
    const output = await handle(context);
    if (context.early === undefined) {
      const { attempt } = context;
      return { output, ...(attempt > 1 && { attempt }) };
    }
  } catch (error) {
    if (context.early === undefined) throw error;
  } finally {
    context.end();
  }
  return { early: true, ...context.early };
}
