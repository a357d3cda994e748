import type { StandardSchema } from '../../model/definition.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { OnAbandoned } from '../../orchestration/activity-context.ts';
import type { ActivityDefinition } from '../../orchestration/activity.ts';
import { toAttemptDefaults } from '../../orchestration/call-options.ts';
import type { RunningActivityContext } from './running-activity-context.ts';
import type { TaskGate } from '../tasks/task-gate.ts';
import { decodeWorkOptions, type WorkOptions } from './work-options.ts';

/** The code for one kind of work item: an activity, a task, or what a task does after a failure. */
export interface WorkHandler {
  /** For messages: `activity "x"`. */
  readonly what: string;
  readonly inputSchema: StandardSchema | undefined;
  /** Where the handler is found, when it runs in a thread of its own. */
  readonly isolated?: { readonly module: string; readonly exportName: string } | undefined;
  /** What bounds it besides the slots of the worker. */
  readonly gate?: TaskGate | undefined;
  /** Whether something is to be run after it has failed for good. */
  readonly hasOnFail: boolean;
  /** How it is tried; throws `UNDECODABLE` for options that no version of Perdure has written. */
  options(item: WorkItem): WorkOptions;
  /** Asked before it is run: whether the run is not wanted any more. */
  isUnwanted?(context: RunningActivityContext, input: unknown, item: WorkItem): Promise<boolean>;
  run(context: RunningActivityContext, input: unknown, item: WorkItem): unknown;
  /** Disposes of a result that nobody wants any more. */
  readonly onAbandoned?: OnAbandoned<unknown>;
}

/**
 * The handler of an activity: its options were chosen by the call, and are stored with the item. What the call left
 * open, such as one by plain name, the definition of this worker decides.
 */
export function activityHandler(definition: ActivityDefinition): WorkHandler {
  const defaults = toAttemptDefaults(definition.defaults);
  return {
    what: `activity ${JSON.stringify(definition.name)}`,
    inputSchema: definition.inputSchema,
    isolated: definition.isolated,
    hasOnFail: false,
    options: (item) =>
      item.options === null ? defaults : { ...defaults, ...decodeWorkOptions(item.options) },
    run: (context, input) => definition.handler(context, input),
    ...(definition.onAbandoned !== undefined && {
      onAbandoned: (output, context) => definition.onAbandoned?.(output, context),
    }),
  };
}
