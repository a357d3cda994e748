import { cleanReason } from '../../model/cancel.ts';
import { invalidOption, readFields } from '../../model/option-fields.ts';
import { readAttempt } from '../../model/values/start-attempt.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { encodePayload, type Payload } from '../../model/values/payload.ts';
import type { ForkCall, RetryCall } from '../../management/rerun.ts';
import { readExecutionId } from '../reading/history.ts';

/** Options of a retry. */
export interface RetryOptions {
  /**
   * `failure`: keep the history up to the point of failure, and run what failed again. `start`: run again from the
   * beginning. Task runs have no history: both run the handler again.
   */
  readonly from: 'failure' | 'start';
  /** With `from: 'start'`: a new input. Default: the input of the ended execution. */
  readonly input?: unknown;
  /** Who retries. Recorded in the audit. */
  readonly actor?: string | undefined;
  /** Why. Recorded in the audit. */
  readonly reason?: string | undefined;
}

/** Options of a fork. */
export interface ForkOptions {
  /**
   * The last event to copy; or `failure`, the point at which a retry would continue; or `start`, no event. An event before
   * an answer of the same turn stands for the start of that turn: `forkedFrom.eventId` is the last copied event.
   */
  readonly from: number | 'failure' | 'start';
  /** The id of the new instance. It makes the fork idempotent. Default: generated. */
  readonly id?: string | undefined;
  /** The execution to copy. Default: the current one. */
  readonly executionId?: number | undefined;
  /** With `from: 'start'`: a new input. Default: the input of the original. */
  readonly input?: unknown;
  /** Who forks. Recorded in the audit. */
  readonly actor?: string | undefined;
  /** Why. Recorded in the audit. */
  readonly reason?: string | undefined;
}

/** Checks and encodes a retry. */
export function readRetry(id: unknown, options: unknown, limitBytes: number): RetryCall {
  const keys = ['from', 'input', 'actor', 'reason'] as const;
  const given = readFields(options, 'retry()', keys);
  const from = readRetryPoint(given.from);
  return { id: checkInstanceId(id), from, ...readShared(given, from, limitBytes) };
}

/** Checks where a retry begins. */
export function readRetryPoint(from: unknown): RetryCall['from'] {
  if (from === 'failure' || from === 'start') return from;
  throw invalidOption('from', from, `'failure' or 'start'`);
}

/** Checks and encodes a fork. */
export function readFork(
  id: unknown,
  options: unknown,
  { limitBytes, generateId }: { readonly limitBytes: number; readonly generateId: () => string },
): ForkCall {
  const keys = ['from', 'id', 'executionId', 'input', 'actor', 'reason'] as const;
  const given = readFields(options, 'fork()', keys);
  const { from } = given;
  const isEventId = Number.isSafeInteger(from) && (from as number) >= 1;
  if (!isEventId && from !== 'failure' && from !== 'start') {
    throw invalidOption('from', from, `the id of an event, 'failure' or 'start'`);
  }
  const executionId = readExecutionId(given.executionId);
  return {
    id: checkInstanceId(id),
    newId: given.id === undefined ? generateId() : checkInstanceId(given.id),
    from: from as ForkCall['from'],
    ...(executionId !== undefined && { executionId }),
    ...readShared(given, from, limitBytes),
    ...readAttempt(options),
  };
}

function readShared(
  given: { readonly input?: unknown; readonly actor?: unknown; readonly reason?: unknown },
  from: unknown,
  limitBytes: number,
): { payload?: Payload | null; readonly actor: string | null; readonly reason: string | null } {
  const { input, actor, reason } = given;
  if (input !== undefined && from !== 'start') {
    throw invalidOption(
      'input',
      input,
      `absent unless \`from\` is 'start': the kept history has its own input`,
    );
  }
  return {
    ...(input !== undefined && { payload: encodePayload(input, 'The input', limitBytes) }),
    actor: actor === undefined || actor === null ? null : checkName(actor, 'Actor'),
    reason: reason === undefined ? null : cleanReason(reason),
  };
}
