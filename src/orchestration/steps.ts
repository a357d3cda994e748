import { PerdureError } from '../model/failures/errors.ts';
import type { StoreTransaction } from '../model/store-transaction.ts';
import { resolveRetryPolicy, type RetryPolicy } from '../model/retry-policy.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { checkName } from '../model/values/names.ts';
import type { StepBody, StepSettings } from '../replay/step-call.ts';
import { checkOptions } from './definition-checks.ts';

/** The context of one attempt of a step. */
export interface StepContext {
  /** 1 for the first attempt. An attempt that a crash ended is not counted. */
  readonly attempt: number;
  /** Unique per call of `ctx.run()`, and stable across attempts and crashes. Pass it to services that can deduplicate. */
  readonly idempotencyKey: string;
  /** Aborted when the closure should stop. Its `reason` is a `CanceledError` with the `trigger`. */
  readonly signal: AbortSignal;
  /**
   * Adds a chunk to the stream of the instance, as `ctx.emit` of an activity. Resolves with `true` once it is committed.
   * Rejects with the `CanceledError` when the closure should stop.
   */
  emit(chunk: unknown): Promise<boolean>;
}

/** The closure of `ctx.transaction()` in an orchestration. See `TransactionWork`. */
export type TransactionStepWork<Out> = {
  work(tx: StoreTransaction, step: StepContext): Out | Promise<Out>;
}['work'];

/** Options of `ctx.run()`. */
export interface StepOptions {
  /** Default: one attempt. */
  readonly retry?: RetryPolicy | undefined;
  /** Timeout of one attempt. */
  readonly attemptTimeout?: Duration | undefined;
  /** Timeout of all attempts together, including the waits between them. */
  readonly timeout?: Duration | undefined;
}

const stepOptionNames = ['retry', 'attemptTimeout', 'timeout'] as const;
const noSettings: StepSettings = {};

/** The checked arguments of `ctx.run()`. */
interface CheckedStep {
  readonly name: string;
  readonly body: StepBody;
  readonly settings: StepSettings;
}

/** Checks the arguments of `ctx.transaction()`. Throws the same errors as `checkStep`. */
export function checkTransaction(
  name: string,
  body: unknown,
  options: StepOptions | undefined,
): CheckedStep {
  const step = checkStep(name, body, options, 'ctx.transaction', '(tx)');
  return { ...step, settings: { ...step.settings, isTransaction: true } };
}

/** Checks the arguments of `ctx.run()`. Throws `INVALID_NAME`, `INVALID_INPUT`, `INVALID_OPTION` or `INVALID_DURATION`. */
export function checkStep(
  name: string,
  body: unknown,
  options: StepOptions | undefined,
  method = 'ctx.run',
  parameter = '(step)',
): CheckedStep {
  checkName(name, 'Step name');
  if (typeof body !== 'function') {
    throw new PerdureError(
      'INVALID_INPUT',
      `The second argument of ${method}(${JSON.stringify(name)}) must be a function, such as async ${parameter} => …: it is ${body === null ? 'null' : typeof body}. Call an activity with ctx.call().`,
    );
  }
  if (options === undefined) return { name, body: body as StepBody, settings: noSettings };
  checkOptions(`${method}()`, options, stepOptionNames);
  const { retry, attemptTimeout, timeout } = options;
  const settings = {
    ...(retry !== undefined && { retry: resolveRetryPolicy(retry) }),
    ...(attemptTimeout !== undefined && {
      attemptTimeoutMs: toMs(attemptTimeout, 'attemptTimeout'),
    }),
    ...(timeout !== undefined && { timeoutMs: toMs(timeout, 'timeout') }),
  };
  return { name, body: body as StepBody, settings };
}
