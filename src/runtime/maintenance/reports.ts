import { toEpochMs } from '../../model/epoch-time.ts';
import { NondeterminismError } from '../../model/failures/errors.ts';
import {
  decodeFailure,
  toError,
  toFailure,
  toLoggedError,
  type Failure,
} from '../../model/failures/failure.ts';
import type { Logger } from '../../model/logger.ts';
import type { AttemptSpan, Telemetry } from '../../model/telemetry.ts';
import { isSampled, traceOfOptions } from '../../model/trace-context.ts';
import type { TerminalStatus } from '../../model/status.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { AttemptResult } from '../activities/attempt-result.ts';
import type { ResolvedOptions } from '../options.ts';
import type { Outcome } from '../turns/completions.ts';
import type { SeriesCounters } from './series-counters.ts';
import { platform } from '../../model/platform.ts';

/**
 * Logs a failed attempt: `warn` if it is retried. The final failure of an activity is `info`: its orchestration
 * handles it.
 */
export function reportFailedAttempt(logger: Logger, item: WorkItem, result: AttemptResult): void {
  if (result.kind !== 'retry' && result.kind !== 'failed') return;
  const { instanceId, failures } = item;
  const subject = item.kind === 'activity' ? { activity: item.name } : { task: item.name };
  const fields = { instanceId, ...subject, attempt: failures + 1 };
  const error = toLoggedError(result.failure);
  reportSafely(logger, () => {
    if (result.kind === 'retry') {
      const retryInMs = Math.round(result.delayMs);
      logger.warn(
        { ...fields, retryInMs, error },
        `${kindNames[item.kind]} attempt failed, will retry`,
      );
    } else if (item.kind === 'onFail') {
      logger.error({ ...fields, error }, 'onFail handler failed');
    } else if (item.kind === 'activity') logger.info({ ...fields, error }, 'activity failed');
  });
}

/** Reports a handler that still runs after its grace. */
export function reportLeak(
  { logger, hooks, cancelGraceMs }: ResolvedOptions,
  { instanceId, name }: WorkItem,
): void {
  reportSafely(logger, () => {
    logger.warn(
      { instanceId, activity: name, graceMs: cancelGraceMs },
      'handler still runs after its grace, its slot is freed and its result will be ignored',
    );
  });
  reportSafely(logger, () => {
    hooks.handlerLeaked?.({ instanceId, activity: name });
  });
}

/** Logs a task run that ended as `failed`. */
function reportFailedTask(logger: Logger, item: WorkItem, failure: Failure): void {
  const { instanceId, name: task, failures } = item;
  const error = toLoggedError(failure);
  reportSafely(logger, () =>
    logger.error({ instanceId, task, attempt: failures + 1, error }, 'task failed'),
  );
}

/** Logs an orchestration instance that failed. */
export function reportFailedInstance(
  logger: Logger,
  instance: { readonly instanceId: string; readonly executionId: number; readonly name: string },
  failure: string,
): void {
  const { instanceId, executionId, name: orchestration } = instance;
  const error = toLoggedError(decodeFailure(failure));
  reportSafely(logger, () =>
    logger.error({ instanceId, executionId, orchestration, error }, 'instance failed'),
  );
}

/** Logs a blocked instance. Omits the message of a nondeterminism error, because it quotes payloads. */
export function reportBlocked(
  logger: Logger,
  fields: {
    readonly instanceId: string;
    readonly orchestration: string;
    readonly retryInMs: number;
  },
  error: unknown,
): void {
  if (error instanceof NondeterminismError && error.recorded !== undefined) {
    const { eventId: event, recorded, issued } = error;
    const { instanceId, orchestration, retryInMs } = fields;
    logger.error(
      { instanceId, orchestration, event, recorded, issued, retryInMs },
      'replay disagrees with history, instance is blocked',
    );
  } else {
    logger.error({ ...fields, error: toLoggedError(toFailure(error)) }, 'instance is blocked');
  }
}

const kindNames = { activity: 'activity', task: 'task', onFail: 'onFail' } as const;

/** Calls a hook or logger of the user. Logs an error that it throws, and drops it. */
export function reportSafely(logger: Logger, report: () => void): void {
  try {
    report();
  } catch (error) {
    try {
      logger.error({ error }, 'hook threw an error');
    } catch {
      // The logger itself throws: nothing is left to report to.
    }
  }
}

function traceTaskEnd(
  telemetry: Telemetry,
  { instanceId, name, options, dueAt }: WorkItem,
  status: TerminalStatus,
  outcome: Outcome | undefined,
): void {
  const trace = traceOfOptions(options);
  if (telemetry.unsampled !== undefined && trace !== undefined && !isSampled(trace)) return;
  const calledAt = trace?.at ?? 0;
  const endedAt = toEpochMs(platform.monotonic());
  telemetry.ended({
    kind: 'task',
    instanceId,
    name,
    status,
    ...(outcome?.kind === 'failed' && { failure: outcome.failure.message }),
    startedAt: Math.min(calledAt > 0 ? calledAt : dueAt, endedAt),
    endedAt,
    trace,
  });
}

interface EndedTask {
  readonly item: WorkItem;
  readonly status: TerminalStatus;
  readonly outcome?: Outcome;
  readonly nowMs: number;
}

/** Counts, logs and reports the end of a task run that this worker committed at `nowMs`. */
export function reportTaskEnd(
  {
    options: { logger, hooks, metrics, telemetry },
    series,
  }: {
    readonly options: Pick<ResolvedOptions, 'logger' | 'hooks' | 'metrics' | 'telemetry'>;
    readonly series: SeriesCounters;
  },
  { item, status, outcome, nowMs }: EndedTask,
): void {
  const { instanceId, name: task } = item;
  series.ended(task, nowMs, status);
  metrics.ended(task, status);
  if (telemetry !== undefined)
    reportSafely(logger, () => traceTaskEnd(telemetry, item, status, outcome));
  if (status === 'failed' && outcome?.kind === 'failed')
    reportFailedTask(logger, item, outcome.failure);
  if (hooks.taskEnded === undefined) return;
  const failure = status === 'failed' && outcome?.kind === 'failed' ? outcome.failure : undefined;
  reportSafely(logger, () =>
    hooks.taskEnded?.({
      instanceId,
      task,
      status,
      ...(failure !== undefined && { error: toError(failure) }),
    }),
  );
}

/** Calls user code with its span as the active one. Telemetry that throws does not fail the call. */
export function callInSpan<Result>(span: AttemptSpan | undefined, call: () => Result): Result {
  if (span === undefined) return call();
  let isCalled = false;
  try {
    return span.run(() => {
      isCalled = true;
      return call();
    });
  } catch (error) {
    if (isCalled) throw error;
    return call();
  }
}
