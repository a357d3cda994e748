import { decodeFailure, type Failure } from '../../model/failures/failure.ts';
import { decodeHeaders, type Headers } from '../../model/work-item-options.ts';
import type { TaskRecord } from '../../providers/contract/instances.ts';
import type { OnFailState } from '../../providers/contract/tasks.ts';

/** What is known of a task run besides what every instance has. */
export interface TaskInfo {
  readonly priority: number;
  readonly dedupeKey?: string;
  /** When it may start, where that was chosen. */
  readonly runAt?: number;
  readonly expiresAt?: number;
  /** Attempts that failed so far. */
  readonly failures: number;
  /** Empty where they were damaged. */
  readonly headers: Headers;
  /** How far the handler for failures has come, once the run has failed. */
  readonly onFail?: OnFailState;
  /** Why the handler for failures failed itself. */
  readonly onFailFailure?: Failure;
}

/** Decodes the task part of a row. */
export function toTaskInfo(record: TaskRecord): TaskInfo {
  return {
    priority: record.priority,
    ...(record.dedupeKey !== null && { dedupeKey: record.dedupeKey }),
    ...(record.runAt !== null && { runAt: record.runAt }),
    ...(record.expiresAt !== null && { expiresAt: record.expiresAt }),
    failures: record.failures,
    headers: readHeaders(record.options),
    ...(record.onFail !== null && { onFail: record.onFail }),
    ...(record.onFail === 'failed' && { onFailFailure: decodeFailure(record.onFailFailure) }),
  };
}

// One bad row must not hide a page of good ones; the handler of the run finds the damage and says so.
function readHeaders(stored: string | null): Headers {
  try {
    return decodeHeaders(stored);
  } catch {
    return {};
  }
}
