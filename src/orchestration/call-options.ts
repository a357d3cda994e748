import type { ActivityOptions } from '../model/activity-options.ts';
import type { CancellationType } from '../model/cancel.ts';
import type { ActivityRef } from '../model/definition.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { resolveRetryPolicy, type RetryPolicy } from '../model/retry-policy.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { checkPriority } from '../model/values/priority.ts';

/** How an activity is tried: defaults of its definition, or the choice of one call. */
export interface CallOptions {
  /** Absent: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may take. */
  readonly attemptTimeout?: Duration | undefined;
  /** How long all attempts may take together, waits included. */
  readonly timeout?: Duration | undefined;
  /** From 0 (default) to 100, higher first, among the activities and tasks that wait for a worker. */
  readonly priority?: number | undefined;
  /**
   * What a cancel does. `request` (default): the call rejects at once and the worker is told to stop. `wait`: the
   * worker is told, and the call settles when it has stopped. `abandon`: the call rejects and the work goes on.
   */
  readonly cancellation?: CancellationType | undefined;
}

export const callOptionNames = [
  'retry',
  'attemptTimeout',
  'timeout',
  'priority',
  'cancellation',
] as const;

const cancellationTypes: readonly unknown[] = ['request', 'wait', 'abandon'];

/** Throws for a retry policy, a timeout, a priority or a cancellation type that makes no sense. */
export function checkCallOptions(options: CallOptions): void {
  const { retry, attemptTimeout, timeout, priority, cancellation } = options;
  if (retry !== undefined) resolveRetryPolicy(retry);
  if (attemptTimeout !== undefined) toMs(attemptTimeout, 'attemptTimeout');
  if (timeout !== undefined) toMs(timeout, 'timeout');
  if (priority !== undefined) checkPriority(priority);
  checkCancellation(cancellation);
}

/** Returns the cancellation type if it is one, throws otherwise. */
export function checkCancellation(
  cancellation: CancellationType | undefined,
): CancellationType | undefined {
  if (cancellation === undefined || cancellationTypes.includes(cancellation)) return cancellation;
  throw new PerdureError(
    'INVALID_OPTION',
    `The cancellation of a call or child is 'request', 'wait' or 'abandon', not ${JSON.stringify(cancellation)}.`,
  );
}

/** What the definition of an activity decides when a call is scheduled, if the call names it by name alone. */
export interface ScheduleDefaults {
  readonly timeoutMs?: number | undefined;
  readonly priority?: number | undefined;
  readonly cancellation?: CancellationType | undefined;
}

/** Picks from the defaults of a definition what has to be known when a call is scheduled. */
export function toScheduleDefaults({
  timeout,
  priority,
  cancellation,
}: CallOptions): ScheduleDefaults | undefined {
  if (timeout === undefined && priority === undefined && cancellation === undefined)
    return undefined;
  return {
    timeoutMs: timeout === undefined ? undefined : toMs(timeout, 'timeout'),
    priority,
    cancellation,
  };
}

/** Picks from the defaults of a definition what the worker applies that runs the activity. */
export function toAttemptDefaults({ retry, attemptTimeout }: CallOptions): ActivityOptions {
  return {
    ...(retry !== undefined && { retry: resolveRetryPolicy(retry) }),
    ...(attemptTimeout !== undefined && {
      attemptTimeoutMs: toMs(attemptTimeout, 'attemptTimeout'),
    }),
  };
}

/** The choices of a call, with the defaults of the activity where it made none. */
export interface ChosenCall {
  readonly activity: ActivityOptions | undefined;
  readonly timeoutMs: number | undefined;
  readonly cancellation: CancellationType | undefined;
}

/**
 * What holds for a call; `undefined` when neither the call nor the activity chose anything. `findByName` is asked about an
 * activity that is given without its definition.
 */
export function chooseCallOptions(
  activity: ActivityRef | string,
  options: CallOptions | undefined,
  findByName: () => ScheduleDefaults | undefined,
): ChosenCall | undefined {
  const defaults =
    typeof activity === 'string'
      ? undefined
      : (activity as { readonly defaults?: CallOptions }).defaults;
  const registered = defaults === undefined ? findByName() : undefined;
  if (options === undefined && defaults === undefined && registered === undefined) return undefined;
  const retry = options?.retry ?? defaults?.retry;
  const attemptTimeout = options?.attemptTimeout ?? defaults?.attemptTimeout;
  const timeout = options?.timeout ?? defaults?.timeout;
  const priority = options?.priority ?? defaults?.priority ?? registered?.priority;
  const cancellation = options?.cancellation ?? defaults?.cancellation;
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
    ...(Object.keys(byName).length > 0 && { byName }),
  };
  return {
    activity: Object.keys(activityOptions).length > 0 ? activityOptions : undefined,
    timeoutMs: timeout === undefined ? byName.timeoutMs : toMs(timeout, 'timeout'),
    cancellation: checkCancellation(cancellation ?? byName.cancellation),
  };
}

/**
 * The arguments after a definition: the input may be left out when its type allows `undefined`. NoInfer: the
 * definition alone decides the type, or a wrong input would widen it instead of being refused.
 */
export type InputArguments<Input, Options> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : [input: NoInfer<Input>, options?: Options];
