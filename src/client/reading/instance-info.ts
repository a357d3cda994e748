import type { ForkOrigin } from '../../management/rerun.ts';
import type { CancelRequest } from '../../model/cancel.ts';
import { decodeBlockedDetails, type BlockedDetails } from '../../model/failures/blocked.ts';
import { decodeFailure, type Failure } from '../../model/failures/failure.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { Tags } from '../../model/values/tags.ts';
import type { Headers } from '../../model/values/headers.ts';
import { decodeHeaders } from '../../model/work-item-options.ts';
import { readPayload } from '../../model/encoding/encoded-value.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { RunningItem } from '../../providers/contract/cancellation.ts';
import type {
  BlockedRecord,
  InstanceRecord,
  TaskRecord,
} from '../../providers/contract/instances.ts';
import type { Pause } from '../../providers/contract/pausing.ts';
import type { InstanceSize } from '../../providers/contract/management.ts';
import type { OnFailState } from '../../providers/contract/tasks.ts';
import type { PendingWork } from './inspect-instance.ts';

/** The state of an instance. All times are milliseconds since the epoch. */
export interface InstanceInfo<Output = unknown> {
  readonly id: string;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  /** Absent until a worker has chosen one. */
  readonly version?: string;
  readonly status: InstanceStatus;
  /** The current execution; each continue-as-new and each retry adds one. */
  readonly executionId: number;
  readonly parentId?: string;
  /** The input of the current execution. Returned by `get` and `status`, not in lists. */
  readonly input?: unknown;
  /** The output of a `completed` instance. */
  readonly output?: Output;
  /** The failure of a `failed` instance. */
  readonly failure?: Failure;
  /** The last value that the orchestration passed to `setCustomStatus`. */
  readonly customStatus?: unknown;
  /** Incremented each time the custom status is set. Absent before. */
  readonly customStatusVersion?: number;
  readonly createdAt: number;
  /** When it may start, if it was delayed or debounced. */
  readonly runAt?: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** The first cancel request: reason, actor and time. */
  readonly cancel?: CancelRequest;
  /** A time limit ended the clean-up. */
  readonly cleanupSkipped?: true;
  /** Number of handlers that ran past their grace. */
  readonly leaked?: number;
  /**
   * Work without an outcome: attempts, last failure, next try, heartbeat. The first 20 entries, returned by `get` and
   * `status`; `running(id)` lists more.
   */
  readonly pending?: readonly PendingWork[];
  /** The handlers that still run while the instance is `canceling`. */
  readonly running?: readonly RunningItem[];
  /** Why and by whom it was terminated. */
  readonly terminated?: { readonly reason: string; readonly actor: string | null };
  /** The tags of the start, changed by `ctx.setTags`. Absent without tags. */
  readonly tags?: Tags;
  /** Why the instance is blocked, since when, and by which build. The next successful turn clears it. */
  readonly blocked?: BlockedInfo;
  /** Where a fork was copied from: the instance, its execution and the last copied event (0: none). */
  readonly forkedFrom?: ForkOrigin;
  /** When, why and by whom the instance was paused. */
  readonly paused?: { readonly at: number; readonly reason?: string; readonly actor?: string };
  /** The fields of a task run. */
  readonly task?: TaskInfo;
  /** Stored values that cannot be decoded because the store is damaged. */
  readonly undecodable?: readonly ('input' | 'output' | 'customStatus')[];
}

/** Why an instance is blocked. */
export interface BlockedInfo extends BlockedDetails {
  readonly reason: string;
  /** Since when, in milliseconds since the epoch. */
  readonly at: number;
  /** The build whose worker blocked it. Another build retries it immediately. */
  readonly buildId: string;
}

/** The state of an instance, with its size in the store. */
export interface MeasuredInstance<Output = unknown> extends InstanceInfo<Output> {
  readonly size: InstanceSize;
}

/** Decodes a row for a list: without output and custom status, and with a short failure. */
export function toSummary(record: InstanceRecord): InstanceInfo {
  const { output: _, customStatus: __, failure, ...info } = toInstanceInfo(record);
  if (failure === undefined) return info;
  const { name, message, code } = failure;
  return { ...info, failure: { name, message, ...(code !== undefined && { code }) } };
}

/** Decodes a row. Lists damaged values in `undecodable` instead of throwing, so that a page stays readable. */
export function toInstanceInfo(record: InstanceRecord): InstanceInfo {
  const undecodable: ('output' | 'customStatus')[] = [];
  const decode = (field: 'output' | 'customStatus', payload: Payload): object | undefined => {
    try {
      return { [field]: readPayload(payload) };
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
    ...(record.runAt !== null && { runAt: record.runAt }),
    ...(record.startedAt !== null && { startedAt: record.startedAt }),
    ...(record.endedAt !== null && { endedAt: record.endedAt }),
    ...(record.cancel !== null && { cancel: record.cancel }),
    ...(record.cleanupSkipped && { cleanupSkipped: true }),
    ...(record.leaked > 0 && { leaked: record.leaked }),
    ...(record.terminated !== null && { terminated: record.terminated }),
    ...(Object.keys(record.tags).length > 0 && { tags: record.tags }),
    ...(record.blocked !== null && { blocked: toBlockedInfo(record.blocked) }),
    ...(record.forkedFrom !== null && { forkedFrom: JSON.parse(record.forkedFrom) as ForkOrigin }),
    ...(record.paused !== null && { paused: toPauseInfo(record.paused) }),
    ...(record.task !== null && { task: toTaskInfo(record.task) }),
    ...(undecodable.length > 0 && { undecodable }),
  };
}

/** Decodes why an instance is blocked. */
export function toBlockedInfo({ reason, at, buildId, details }: BlockedRecord): BlockedInfo {
  return { reason, at, buildId, ...decodeBlockedDetails(details) };
}

/** Decodes when, why and by whom something was paused. */
export function toPauseInfo({ at, reason, actor }: Pause): NonNullable<InstanceInfo['paused']> {
  return { at, ...(reason !== null && { reason }), ...(actor !== null && { actor }) };
}

/** The fields that only a task run has. */
export interface TaskInfo {
  readonly priority: number;
  readonly dedupeKey?: string;
  /** When it may start, if that was set. */
  readonly runAt?: number;
  readonly expiresAt?: number;
  /** Number of failed attempts. */
  readonly failures: number;
  /** Empty if the stored headers are damaged. */
  readonly headers: Headers;
  /** The state of the failure handler, once the run has failed. */
  readonly onFail?: OnFailState;
  /** Why the failure handler itself failed. */
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

// A damaged row must not make a page unreadable; the worker reports the damage when it runs the task.
function readHeaders(stored: string | null): Headers {
  try {
    return decodeHeaders(stored);
  } catch {
    return {};
  }
}
