import type { CancelRequest } from '../../model/cancel.ts';
import { decodeFailure, type Failure } from '../../model/failures/failure.ts';
import type { InstanceStatus } from '../../model/status.ts';
import { decodeHeaders, type Headers } from '../../model/task-options.ts';
import { decodePayload, type Payload } from '../../model/values/payload.ts';
import type { RunningItem } from '../../providers/contract/cancellation.ts';
import type { InstanceRecord, TaskRecord } from '../../providers/contract/instances.ts';
import type { InstanceSize } from '../../providers/contract/management.ts';
import type { OnFailState } from '../../providers/contract/tasks.ts';
import type { PendingWork } from './inspect-instance.ts';

/** What is known of an instance. All times are milliseconds since the epoch. */
export interface InstanceInfo<Output = unknown> {
  readonly id: string;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  /** Absent while no worker has picked one. */
  readonly version?: string;
  readonly status: InstanceStatus;
  /** The current execution; each continue-as-new adds one. */
  readonly executionId: number;
  readonly parentId?: string;
  /** What the current execution was started with. Shown by `get` and `status`, not in lists. */
  readonly input?: unknown;
  /** What the orchestration returned, once it is `completed`. */
  readonly output?: Output;
  /** What it failed with, once it is `failed`. */
  readonly failure?: Failure;
  /** What the orchestration last said of itself. */
  readonly customStatus?: unknown;
  /** Counts up each time the orchestration sets its custom status. Absent before the first time. */
  readonly customStatusVersion?: number;
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** The first wish that it stop: why, who asked, and when. */
  readonly cancel?: CancelRequest;
  /** It was canceled before its code had cleaned up. */
  readonly cleanupSkipped?: true;
  /** Handlers that went on past their grace period. */
  readonly leaked?: number;
  /**
   * Work that has no outcome yet: attempts, last failure, next try, heartbeat. The first 20 entries, shown by `get` and
   * `status`; `running(id)` lists more.
   */
  readonly pending?: readonly PendingWork[];
  /** What still runs, while it is `canceling`. */
  readonly running?: readonly RunningItem[];
  /** Why and by whom it was terminated. */
  readonly terminated?: { readonly reason: string; readonly actor: string | null };
  /** Why its turns are held back, and since when; ended by the next good turn. */
  readonly blocked?: { readonly reason: string; readonly at: number };
  /** What a task run has besides. */
  readonly task?: TaskInfo;
  /** What is stored but cannot be decoded, because the store was damaged. */
  readonly undecodable?: readonly ('input' | 'output' | 'customStatus')[];
}

/** What is known of an instance, with what it holds in the store. */
export interface MeasuredInstance<Output = unknown> extends InstanceInfo<Output> {
  readonly size: InstanceSize;
}

/** An entry of a list: without its output and custom status, and with no more than name, message and code of a failure. */
export function toSummary(record: InstanceRecord): InstanceInfo {
  const { output: _, customStatus: __, failure, ...info } = toInstanceInfo(record);
  if (failure === undefined) return info;
  const { name, message, code } = failure;
  return { ...info, failure: { name, message, ...(code !== undefined && { code }) } };
}

/** Decodes a row. Damage shows in `undecodable`, so that one bad row does not hide a page of good ones. */
export function toInstanceInfo(record: InstanceRecord): InstanceInfo {
  const undecodable: ('output' | 'customStatus')[] = [];
  const decode = (field: 'output' | 'customStatus', payload: Payload): object | undefined => {
    try {
      return { [field]: decodePayload(payload) };
    } catch {
      undecodable.push(field);
      return undefined;
    }
  };
  return {
    id: record.instanceId,
    kind: record.kind,
    name: record.name,
    ...(record.version !== null && { version: record.version }),
    status: record.status,
    executionId: record.executionId,
    ...(record.parentInstanceId !== null && { parentId: record.parentInstanceId }),
    ...(record.output !== null && decode('output', record.output)),
    ...(record.status === 'failed' && { failure: decodeFailure(record.failure) }),
    ...(record.customStatus !== null && decode('customStatus', record.customStatus)),
    ...(record.customStatusVersion > 0 && { customStatusVersion: record.customStatusVersion }),
    createdAt: record.createdAt,
    ...(record.startedAt !== null && { startedAt: record.startedAt }),
    ...(record.endedAt !== null && { endedAt: record.endedAt }),
    ...(record.cancel !== null && { cancel: record.cancel }),
    ...(record.cleanupSkipped && { cleanupSkipped: true }),
    ...(record.leaked > 0 && { leaked: record.leaked }),
    ...(record.terminated !== null && { terminated: record.terminated }),
    ...(record.blocked !== null && { blocked: record.blocked }),
    ...(record.task !== null && { task: toTaskInfo(record.task) }),
    ...(undecodable.length > 0 && { undecodable }),
  };
}

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
function toTaskInfo(record: TaskRecord): TaskInfo {
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
