import { NondeterminismError } from '../../model/failures/errors.ts';
import { decodeFailure, toFailure, type Failure } from '../../model/failures/failure.ts';
import { toLoggedError } from '../../model/failures/logged-error.ts';
import type { Logger } from '../../model/logger.ts';
import type { TerminalStatus } from '../../model/status.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { AttemptResult } from '../activities/activity-run.ts';
import type { ResolvedOptions } from '../options.ts';
import type { Outcome } from '../turns/completions.ts';

/** Logs an attempt that failed: a warning while it is retried; the end of an activity is its orchestration's to judge. */
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
        `${whats[item.kind]} attempt failed, will retry`,
      );
    } else if (item.kind === 'onFail') {
      logger.error({ ...fields, error }, 'the failure handler of a task failed');
    } else if (item.kind === 'activity') logger.info({ ...fields, error }, 'activity failed');
  });
}

/** Logs a task run that failed for good. */
export function reportFailedTask(logger: Logger, item: WorkItem, failure: Failure): void {
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

/** Logs an instance that is blocked. A disagreement is shown without its message, which quotes payloads. */
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

const whats = { activity: 'activity', task: 'task', onFail: 'failure handler' } as const;

/** Calls a user's hook or logger; what it throws is logged, if that works, and goes no further. */
export function reportSafely(logger: Logger, report: () => void): void {
  try {
    report();
  } catch (error) {
    try {
      logger.error({ error }, 'a hook threw');
    } catch {
      // The logger itself is broken: there is nobody left to tell.
    }
  }
}

/** Tells whoever watches that a task run has ended, by a write of this worker that the store has accepted. */
export function reportTaskEnd(
  { logger, hooks }: Pick<ResolvedOptions, 'logger' | 'hooks'>,
  item: WorkItem,
  status: TerminalStatus,
  outcome?: Outcome,
): void {
  const { instanceId, name: task } = item;
  if (status === 'failed' && outcome?.kind === 'failed')
    reportFailedTask(logger, item, outcome.failure);
  reportSafely(logger, () => hooks.taskEnded?.({ instanceId, task, status }));
}
