import { decodeTags } from '../../model/values/tags.ts';
import type { ExecutionRecord, InstanceRecord, TaskRecord } from '../contract/instances.ts';
import { bytesOfTexts } from '../contract/page-bytes.ts';
import type { OnFailState } from '../contract/tasks.ts';

/** An instance as a store reads it. Flags are booleans, or 0 and 1. */
export interface InstanceRecordRow extends Omit<
  InstanceRecord,
  | 'kind'
  | 'name'
  | 'version'
  | 'cancel'
  | 'cleanupSkipped'
  | 'terminated'
  | 'blocked'
  | 'paused'
  | 'task'
  | 'tags'
  | 'withheld'
> {
  readonly definitionKey: number;
  readonly cancelRequestedAt: number | null;
  readonly cancelReason: string | null;
  readonly cancelActor: string | null;
  readonly cancelTrigger: 'timeout' | null;
  readonly cleanupSkipped: boolean | 0 | 1;
  readonly terminateReason: string | null;
  readonly terminateActor: string | null;
  readonly blockedReason: string | null;
  readonly blockedAt: number | null;
  readonly tags: string | null;
  readonly blockedBuild: string | null;
  readonly blockedDetails: string | null;
  readonly pausedAt: number | null;
  readonly pausedReason: string | null;
  readonly pausedActor: string | null;
  /** The columns from here on are set for task runs only. */
  readonly priority: number | null;
  readonly input: string | null;
  readonly options: string | null;
  readonly expiresAt: number | null;
  readonly dedupeKey: string | null;
  readonly failures: number | null;
  readonly onFail: OnFailState | 'ready' | null;
  readonly onFailFailure: string | null;
}

/** The columns of a cancel request. */
export interface CancelRow {
  readonly reason: string;
  readonly actor: string | null;
  readonly trigger: 'timeout' | null;
}

/** Converts a cancel request to its columns. */
export function toCancelRow({
  reason,
  actor,
  trigger = null,
}: Partial<CancelRow> & Pick<CancelRow, 'reason' | 'actor'>): CancelRow {
  return { reason, actor, trigger };
}

/** The size of the user data in a row, in bytes. */
export function payloadBytes(row: InstanceRecordRow): number {
  const { output, failure, customStatus, input, options, onFailFailure } = row;
  return bytesOfTexts(output, failure, customStatus, input, options, onFailFailure);
}

/** A copy of a row without its user data. */
export function withoutPayloads(row: InstanceRecordRow): InstanceRecordRow {
  const none = { output: null, failure: null, customStatus: null, input: null, options: null };
  return { ...row, ...none, onFailFailure: null };
}

/** Converts a row to a record. The store has looked up the name and version. */
export function toInstanceRecord(
  row: InstanceRecordRow,
  { name, version }: Pick<InstanceRecord, 'name' | 'version'>,
): InstanceRecord {
  const { cancelReason, cancelRequestedAt, terminateReason, blockedReason, blockedAt } = row;
  return {
    instanceKey: row.instanceKey,
    instanceId: row.instanceId,
    incarnation: row.incarnation,
    kind: row.priority === null ? 'orchestration' : 'task',
    name,
    version,
    status: row.status,
    executionId: row.executionId,
    parentInstanceId: row.parentInstanceId,
    output: row.output,
    failure: row.failure,
    customStatus: row.customStatus,
    customStatusVersion: row.customStatusVersion,
    createdAt: row.createdAt,
    runAt: row.runAt,
    startedAt: row.startedAt,
    endedAt: row.endedAt,
    cancel:
      cancelReason === null || cancelRequestedAt === null
        ? null
        : {
            reason: cancelReason,
            actor: row.cancelActor,
            requestedAt: cancelRequestedAt,
            ...(row.cancelTrigger !== null && { trigger: row.cancelTrigger }),
          },
    cleanupSkipped: row.cleanupSkipped === true || row.cleanupSkipped === 1,
    leaked: row.leaked,
    terminated:
      terminateReason === null ? null : { reason: terminateReason, actor: row.terminateActor },
    blocked:
      blockedReason === null || blockedAt === null
        ? null
        : {
            reason: blockedReason,
            at: blockedAt,
            buildId: row.blockedBuild ?? '',
            details: row.blockedDetails,
          },
    tags: decodeTags(row.tags),
    forkedFrom: row.forkedFrom,
    paused:
      row.pausedAt === null
        ? null
        : { at: row.pausedAt, reason: row.pausedReason, actor: row.pausedActor },
    task: toTask(row),
  };
}

function toTask(row: InstanceRecordRow): TaskRecord | null {
  if (row.priority === null) return null;
  return {
    priority: row.priority,
    input: row.input,
    dedupeKey: row.dedupeKey,
    runAt: row.runAt,
    expiresAt: row.expiresAt,
    failures: row.failures ?? 0,
    options: row.options,
    onFail: row.onFail === 'ready' ? null : row.onFail,
    onFailFailure: row.onFailFailure,
  };
}

/** An execution as a store reads it. */
export interface ExecutionRow extends Omit<ExecutionRecord, 'version'> {
  readonly definitionKey: number;
}

/** Converts an execution. A running one is `pending` until its first turn. */
export function toExecutionRecord(row: ExecutionRow, version: string | null): ExecutionRecord {
  const { executionId, startedAt, endedAt, historyLength, failure, reason } = row;
  const status = row.status === 'running' && startedAt === null ? 'pending' : row.status;
  return { executionId, status, version, startedAt, endedAt, historyLength, failure, reason };
}
