import { z } from 'zod';
import type { ExecutionPage, ExportedHistory, HistoryPage } from '../../client/reading/history.ts';
import type {
  InstanceInfo,
  MeasuredInstance,
  TaskInfo,
} from '../../client/reading/instance-info.ts';
import type { InstancePage } from '../../client/reading/instance-list.ts';
import type { PendingWork } from '../../client/reading/inspect-instance.ts';
import type { InstanceTree } from '../../management/instance-tree.ts';
import type { CancelRequest } from '../../model/cancel.ts';
import type { HistoryEvent } from '../../model/event.ts';
import type { Failure } from '../../model/failures/failure.ts';
import type { ExecutionStatus } from '../../model/status.ts';
import type { RunningItem, StopResult } from '../../providers/contract/cancellation.ts';
import type { ExecutionRecord } from '../../providers/contract/instances.ts';
import { headers, json, moment, status } from './fields.ts';

const trigger = z.enum(['cancel', 'timeout', 'race_lost', 'shutdown', 'lease_lost', 'deleted']);

/** What user code failed with. */
export const failure: z.ZodType<Failure> = z
  .strictObject({
    name: z.string(),
    message: z.string(),
    stack: z.string().exactOptional(),
    code: z.string().exactOptional(),
    details: json.exactOptional(),
    get cause() {
      return failure.exactOptional();
    },
    nonRetryable: z.boolean().exactOptional(),
    platform: z.literal(true).exactOptional(),
    attempts: z.number().exactOptional(),
  })
  .meta({ id: 'Failure', description: 'What user code failed with.' });

const cancelRequest: z.ZodType<CancelRequest> = z.strictObject({
  reason: z.string(),
  actor: z.string().nullable(),
  requestedAt: moment,
});

/** An activity that a worker holds. */
const runningItem: z.ZodType<RunningItem> = z.strictObject({
  operation: z.number(),
  name: z.string(),
  attempt: z.number(),
  worker: z.string().nullable(),
  claimedAt: moment,
  lockedUntil: moment,
  cancel: z.strictObject({ reason: z.string(), trigger }).nullable(),
});

/** Work that has no outcome yet. */
export const pendingWork: z.ZodType<PendingWork> = z
  .strictObject({
    kind: z.enum(['activity', 'task', 'onFail']),
    operation: z.number(),
    name: z.string(),
    state: z.enum(['queued', 'running', 'retrying']),
    attempt: z.number(),
    maxAttempts: z.number().exactOptional(),
    lastFailure: z
      .strictObject({ name: z.string(), message: z.string(), code: z.string().exactOptional() })
      .exactOptional(),
    nextTryAt: moment.exactOptional(),
    heartbeat: json.exactOptional(),
    worker: z.string().exactOptional(),
    claimedAt: moment.exactOptional(),
    lockedUntil: moment.exactOptional(),
    cancel: z.strictObject({ reason: z.string(), trigger }).exactOptional(),
  })
  .meta({ id: 'PendingWork', description: 'An activity or task run that has no outcome yet.' });

const taskInfo: z.ZodType<TaskInfo> = z.strictObject({
  priority: z.number(),
  dedupeKey: z.string().exactOptional(),
  runAt: moment.exactOptional(),
  expiresAt: moment.exactOptional(),
  failures: z.number(),
  headers,
  onFail: z.enum(['queued', 'running', 'completed', 'failed']).exactOptional(),
  onFailFailure: failure.exactOptional(),
});

const infoFields = {
  id: z.string(),
  kind: z.enum(['orchestration', 'task']),
  name: z.string(),
  version: z.string().exactOptional(),
  status,
  executionId: z.number(),
  parentId: z.string().exactOptional(),
  input: json.exactOptional(),
  output: json.exactOptional(),
  failure: failure.exactOptional(),
  customStatus: json.exactOptional(),
  customStatusVersion: z.number().exactOptional(),
  createdAt: moment,
  startedAt: moment.exactOptional(),
  endedAt: moment.exactOptional(),
  cancel: cancelRequest.exactOptional(),
  cleanupSkipped: z.literal(true).exactOptional(),
  leaked: z.number().exactOptional(),
  pending: z.array(pendingWork).exactOptional(),
  running: z.array(runningItem).exactOptional(),
  terminated: z.strictObject({ reason: z.string(), actor: z.string().nullable() }).exactOptional(),
  blocked: z.strictObject({ reason: z.string(), at: moment }).exactOptional(),
  task: taskInfo.exactOptional(),
  undecodable: z.array(z.enum(['input', 'output', 'customStatus'])).exactOptional(),
};

/** What is known of an instance. */
export const instanceInfo: z.ZodType<InstanceInfo> = z
  .strictObject(infoFields)
  .meta({ id: 'Instance', description: 'What is known of an instance.' });

/** What is known of an instance, with what it holds. */
export const measuredInstance: z.ZodType<MeasuredInstance> = z.strictObject({
  ...infoFields,
  size: z.strictObject({
    executions: z.number(),
    events: z.number(),
    children: z.number(),
    messages: z.number(),
    activities: z.number(),
  }),
});

/** A page of instances. */
export const instancePage: z.ZodType<InstancePage> = z.strictObject({
  items: z.array(instanceInfo),
  nextCursor: z.string().exactOptional(),
});

/** What became of a wish to stop. */
export const stopResult: z.ZodType<StopResult> = z
  .strictObject({ found: z.boolean(), changed: z.boolean(), status: status.nullable() })
  .meta({ id: 'StopResult', description: 'What became of a wish to stop; never an error.' });

/** An instance with all its descendants. */
export const instanceTree: z.ZodType<InstanceTree> = z.strictObject({
  rootId: z.string(),
  allIds: z.array(z.string()),
  size: z.number(),
  isRootOnly: z.boolean(),
});

// The kinds of events and their fields are those of the engine; here they only pass through.
const historyEvent = z
  .looseObject({ kind: z.string(), at: moment })
  .meta({ id: 'HistoryEvent' }) as unknown as z.ZodType<HistoryEvent>;

/** A page of a history. */
export const historyPage: z.ZodType<HistoryPage> = z.strictObject({
  executionId: z.number(),
  items: z.array(z.strictObject({ id: z.number(), event: historyEvent })),
  nextAfter: z.number().exactOptional(),
  pending: z.array(pendingWork).exactOptional(),
});

/** A whole execution. */
export const exportedHistory: z.ZodType<ExportedHistory> = z.strictObject({
  instanceId: z.string(),
  incarnation: z.string(),
  executionId: z.number(),
  events: z.array(historyEvent),
});

const executionStatus: z.ZodType<ExecutionStatus> = z.union([status, z.literal('continuedAsNew')]);

const executionRecord: z.ZodType<ExecutionRecord> = z.strictObject({
  executionId: z.number(),
  status: executionStatus,
  version: z.string().nullable(),
  startedAt: moment.nullable(),
  endedAt: moment.nullable(),
  historyLength: z.number(),
});

/** A page of executions. */
export const executionPage: z.ZodType<ExecutionPage> = z.strictObject({
  items: z.array(executionRecord),
  nextAfter: z.number().exactOptional(),
});
