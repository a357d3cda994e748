import type { ActivityOptions } from '../model/work-item-options.ts';
import type { CancellationType } from '../model/cancel.ts';
import type { ActivityRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { laneOptionNames, readLane, type LaneOptions } from '../model/limit-options.ts';
import { checkPriority } from '../model/option-fields.ts';
import { resolveRetryPolicy, type RetryPolicy } from '../model/retry-policy.ts';
import { toMs, type Duration } from '../model/values/duration.ts';

/** Options of activity calls that a definition may set as defaults. */
export interface ActivityDefaults {
  /** Default: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** Timeout of one attempt. */
  readonly attemptTimeout?: Duration | undefined;
  /** Timeout of all attempts together, including the waits between them. */
  readonly timeout?: Duration | undefined;
  /** Priority among queued activities and tasks, from 0 (default) to 100. Higher values first. */
  readonly priority?: number | undefined;
  /**
   * What happens on a cancel. `request` (default): the call rejects immediately, and the handler is signaled. `wait`: the
   * handler is signaled, and the call settles when it has stopped. `abandon`: the call rejects, and the handler runs on.
   */
  readonly cancellation?: CancellationType | undefined;
}

/** Options of one activity call. */
export interface CallOptions extends ActivityDefaults, LaneOptions {}

export const activityDefaultNames = [
  'retry',
  'attemptTimeout',
  'timeout',
  'priority',
  'cancellation',
] as const;

export const callOptionNames = [...activityDefaultNames, ...laneOptionNames] as const;

/** The options of a call that `ctx.runTask` has, too. */
export const taskCallOptionNames = [
  'timeout',
  'priority',
  'cancellation',
  ...laneOptionNames,
] as const;

const cancellationTypes: readonly unknown[] = ['request', 'wait', 'abandon'];

/** Throws for an invalid retry policy, timeout, priority, cancellation mode, key or weight. */
export function checkCallOptions(options: CallOptions): void {
  const { retry, attemptTimeout, timeout, priority, cancellation } = options;
  if (retry !== undefined) resolveRetryPolicy(retry);
  if (attemptTimeout !== undefined) toMs(attemptTimeout, 'attemptTimeout');
  if (timeout !== undefined) toMs(timeout, 'timeout');
  if (priority !== undefined) checkPriority(priority);
  checkCancellation(cancellation);
  readLane(options);
}

/** Returns the cancellation mode. Throws `INVALID_OPTION` if it is unknown. */
export function checkCancellation(
  cancellation: CancellationType | undefined,
): CancellationType | undefined {
  if (cancellation === undefined || cancellationTypes.includes(cancellation)) return cancellation;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`cancellation\` ${JSON.stringify(cancellation)}: must be 'request', 'wait' or 'abandon'.`,
  );
}

/** The defaults that a definition contributes when an activity is called by name. */
export interface ScheduleDefaults {
  readonly timeoutMs?: number | undefined;
  readonly priority?: number | undefined;
  readonly cancellation?: CancellationType | undefined;
}

/** Returns the defaults that apply when a call is scheduled; `undefined` if there are none. */
export function toScheduleDefaults({
  timeout,
  priority,
  cancellation,
}: ActivityDefaults): ScheduleDefaults | undefined {
  if (timeout === undefined && priority === undefined && cancellation === undefined)
    return undefined;
  return {
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, 'timeout'),
    priority,
    cancellation,
  };
}

/** Returns the defaults that the worker applies to attempts. */
export function toAttemptDefaults({ retry, attemptTimeout }: ActivityDefaults): ActivityOptions {
  return {
    ...(retry !== undefined && { retry: resolveRetryPolicy(retry) }),
    ...(attemptTimeout !== undefined && {
      attemptTimeoutMs: toMs(attemptTimeout, 'attemptTimeout'),
    }),
  };
}

/** The options of a call, merged with the defaults of the activity. */
export interface ChosenCall {
  readonly activity: ActivityOptions | undefined;
  readonly timeoutMs: number | undefined;
  readonly cancellation: CancellationType | undefined;
}

/**
 * Merges the options of a call with the defaults of the activity; `undefined` if neither has any. Calls `findByName` for an
 * activity without a definition.
 */
export function chooseCallOptions(
  activity: ActivityRef | string,
  options: CallOptions | undefined,
  findByName: () => ScheduleDefaults | undefined,
): ChosenCall | undefined {
  const defaults =
    typeof activity === 'string'
      ? undefined
      : (activity as { readonly defaults?: ActivityDefaults }).defaults;
  const registered = defaults === undefined ? findByName() : undefined;
  if (options === undefined && defaults === undefined && registered === undefined) return undefined;
  const retry = options?.retry ?? defaults?.retry;
  const attemptTimeout = options?.attemptTimeout ?? defaults?.attemptTimeout;
  const timeout = options?.timeout ?? defaults?.timeout;
  const priority = options?.priority ?? defaults?.priority ?? registered?.priority;
  const cancellation = options?.cancellation ?? defaults?.cancellation;
  const lane = options && readLane(options);
  const byName = {
    ...(timeout === undefined &&
      registered?.timeoutMs !== undefined && {
        timeoutMs: registered.timeoutMs,
      }),
    ...(cancellation === undefined &&
      registered?.cancellation !== undefined && {
        cancellation: registered.cancellation,
      }),
  };
  const activityOptions: ActivityOptions = {
    ...toAttemptDefaults({ retry, attemptTimeout }),
    ...(priority !== undefined && { priority: checkPriority(priority) }),
    ...(lane !== undefined && { lane }),
    ...(Object.keys(byName).length > 0 && { byName }),
  };
  return {
    activity: Object.keys(activityOptions).length > 0 ? activityOptions : undefined,
    timeoutMs: timeout === undefined ? byName.timeoutMs : toMs(timeout, 'timeout'),
    cancellation: checkCancellation(cancellation ?? byName.cancellation),
  };
}

/**
 * The arguments after a definition. The input is optional if its type allows `undefined`. NoInfer: without it, a wrong
 * input would widen the type instead of being a type error.
 */
export type InputArguments<Input, Options> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : [input: NoInfer<Input>, options?: Options];
