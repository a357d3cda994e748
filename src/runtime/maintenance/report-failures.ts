import { NondeterminismError } from '../../model/failures/errors.ts';
import {
  decodeFailure,
  toFailure,
  toLoggedError,
  type Failure,
} from '../../model/failures/failure.ts';
import type { Logger } from '../../model/logger.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { AttemptResult } from '../activities/activity-run.ts';
import { reportSafely } from './report-safely.ts';

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
