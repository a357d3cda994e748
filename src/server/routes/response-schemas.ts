import { z } from 'zod';
import type {
  ExecutionInfo,
  ExecutionPage,
  ExportedHistory,
  HistoryPage,
} from '../../client/reading/history.ts';
import type {
  BlockedInfo,
  InstanceInfo,
  MeasuredInstance,
  TaskInfo,
} from '../../client/reading/instance-info.ts';
import type { DefinitionInfo } from '../../client/reading/instance-counts.ts';
import type { InstancePage } from '../../client/reading/instance-list.ts';
import type { LimitWait, PendingWork } from '../../client/reading/inspect-instance.ts';
import type { InstanceTree } from '../../management/instance-tree.ts';
import type { RetryInfo } from '../../management/rerun.ts';
import type { CancelRequest } from '../../model/cancel.ts';
import type { HistoryEvent } from '../../model/event.ts';
import type { EventSummary } from '../../model/failures/blocked.ts';
import type { Failure } from '../../model/failures/failure.ts';
import type { ExecutionStatus, InstanceStatus } from '../../model/status.ts';
import type { RunningItem, StopResult } from '../../providers/contract/cancellation.ts';
import type { InstanceCount } from '../../providers/contract/instances.ts';
import { headers, json, time, status } from './fields.ts';

const trigger = z.enum(['cancel', 'timeout', 'race_lost', 'shutdown', 'lease_lost', 'deleted']);

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
  .meta({ id: 'Failure', description: 'A failure of user code.' });

/** The fields of a request to cancel. */
export const cancelFields = {
  reason: z.string(),
  actor: z.string().nullable(),
  requestedAt: time,
  trigger: z.literal('timeout').exactOptional().meta({
    description: 'Set if the timeout of the instance has passed. Absent: a request.',
  }),
};

const cancelRequest: z.ZodType<CancelRequest> = z.strictObject(cancelFields);

/** An activity claimed by a worker. */
const runningItem: z.ZodType<RunningItem> = z.strictObject({
  operation: z.number(),
  name: z.string(),
  attempt: z.number(),
  worker: z.string().nullable(),
  claimedAt: time,
  lockedUntil: time,
  cancel: z.strictObject({ reason: z.string(), trigger }).nullable(),
});

/** A failure without stack, details and causes. */
export const failureSummary = z.strictObject({
  name: z.string(),
  message: z.string(),
  code: z.string().exactOptional(),
});

/** A claim whose lease expired. */
export const expiredClaim = z.strictObject({ worker: z.string().exactOptional(), at: time });

const limitWait: z.ZodType<LimitWait> = z
  .strictObject({
    by: z.enum(['global', 'perKey', 'rate']),
    max: z.number(),
    running: z.number(),
    nextAt: time.exactOptional(),
    perMs: z.number().exactOptional(),
    perKey: z.boolean().exactOptional(),
    ahead: z.number(),
  })
  .meta({ id: 'LimitWait', description: 'The limit that holds back work that is due.' });

/** The fields of an activity or task run without an outcome. */
export const pendingWorkFields = {
  kind: z.enum(['activity', 'task', 'onFail']),
  operation: z.number(),
  name: z.string(),
  state: z.enum(['queued', 'running', 'retrying']),
  attempt: z.number(),
  maxAttempts: z.number().exactOptional(),
  lastFailure: failureSummary.exactOptional(),
  nextTryAt: time.exactOptional(),
  heartbeat: json.exactOptional(),
  heartbeatAt: time.exactOptional(),
  expired: expiredClaim.exactOptional(),
  pointOfNoReturn: z.literal(true).exactOptional(),
  worker: z.string().exactOptional(),
  claimedAt: time.exactOptional(),
  lockedUntil: time.exactOptional(),
  cancel: z.strictObject({ reason: z.string(), trigger }).exactOptional(),
  key: z.string().exactOptional(),
  limit: limitWait.exactOptional(),
};

export const pendingWork: z.ZodType<PendingWork> = z
  .strictObject(pendingWorkFields)
  .meta({ id: 'PendingWork', description: 'An activity or task run without an outcome.' });

const taskInfo: z.ZodType<TaskInfo> = z.strictObject({
  priority: z.number(),
  dedupeKey: z.string().exactOptional(),
  runAt: time.exactOptional(),
  expiresAt: time.exactOptional(),
  failures: z.number(),
  headers,
  onFail: z.enum(['queued', 'running', 'completed', 'failed']).exactOptional(),
  onFailFailure: failure.exactOptional(),
});

// The engine defines the kinds of events, so the schema allows any.
const eventSummary = z.strictObject({
  kind: z.string(),
  name: z.string().exactOptional(),
  operation: z.number().exactOptional(),
  text: z.string(),
}) as unknown as z.ZodType<EventSummary>;

/** The fields of a blocked instance. */
export const blockedFields = {
  reason: z.string(),
  at: time,
  buildId: z.string(),
  code: z.string(),
  worker: z.string().exactOptional(),
  eventId: z.number().exactOptional(),
  recorded: eventSummary.exactOptional(),
  issued: eventSummary.exactOptional(),
  location: z.string().exactOptional(),
};

export const blockedInfo: z.ZodType<BlockedInfo> = z
  .strictObject(blockedFields)
  .meta({ id: 'Blocked', description: 'Why an instance is blocked.' });

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
  createdAt: time,
  runAt: time.exactOptional(),
  startedAt: time.exactOptional(),
  endedAt: time.exactOptional(),
  cancel: cancelRequest.exactOptional(),
  cleanupSkipped: z.literal(true).exactOptional(),
  leaked: z.number().exactOptional(),
  pending: z.array(pendingWork).exactOptional(),
  running: z.array(runningItem).exactOptional(),
  terminated: z.strictObject({ reason: z.string(), actor: z.string().nullable() }).exactOptional(),
  tags: z.record(z.string(), z.string()).exactOptional(),
  blocked: blockedInfo.exactOptional(),
  forkedFrom: z
    .strictObject({ id: z.string(), executionId: z.number(), eventId: z.number() })
    .exactOptional(),
  paused: z
    .strictObject({
      at: time,
      reason: z.string().exactOptional(),
      actor: z.string().exactOptional(),
    })
    .exactOptional(),
  task: taskInfo.exactOptional(),
  undecodable: z.array(z.enum(['input', 'output', 'customStatus'])).exactOptional(),
};

export const instanceInfo: z.ZodType<InstanceInfo> = z
  .strictObject(infoFields)
  .meta({ id: 'Instance', description: 'An instance with its status, payloads and active work.' });

/** An instance with the number of its rows. */
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

export const instanceCount: z.ZodType<InstanceCount> = z.strictObject({
  count: z.number(),
  capped: z.boolean(),
});

export const definitionList: z.ZodType<{ readonly items: readonly DefinitionInfo[] }> =
  z.strictObject({
    items: z.array(
      z.strictObject({
        kind: z.enum(['orchestration', 'task', 'flow']),
        name: z.string(),
        version: z.string().exactOptional(),
        counts: z.partialRecord(status as z.ZodType<InstanceStatus, InstanceStatus>, instanceCount),
      }),
    ),
  });

export const instancePage: z.ZodType<InstancePage> = z.strictObject({
  items: z.array(instanceInfo),
  nextCursor: z.string().exactOptional(),
});

export const stopResult: z.ZodType<StopResult> = z
  .strictObject({ found: z.boolean(), changed: z.boolean(), status: status.nullable() })
  .meta({
    id: 'StopResult',
    description:
      'The result of a cancel or terminate. An unknown id is not an error: `found` is false.',
  });

export const retryResponse: z.ZodType<RetryInfo> = z.strictObject({
  id: z.string(),
  executionId: z.number(),
  keptEvents: z.number(),
});

export const instanceTree: z.ZodType<InstanceTree> = z.strictObject({
  rootId: z.string(),
  allIds: z.array(z.string()),
  size: z.number(),
  isRootOnly: z.boolean(),
});

// The engine defines the kinds and fields of events, so the schema is loose.
export const historyEvent = z.looseObject({ kind: z.string(), at: time }).meta({
  id: 'HistoryEvent',
  description: 'An event of a history. Its `kind` defines the other fields.',
}) as unknown as z.ZodType<HistoryEvent>;

export const historyPage: z.ZodType<HistoryPage> = z.strictObject({
  executionId: z.number(),
  items: z.array(
    z.strictObject({
      id: z.number(),
      event: historyEvent,
      payloadBytes: z
        .number()
        .exactOptional()
        .meta({ description: 'Size of the whole payload, if it was cut or omitted.' }),
    }),
  ),
  nextAfter: z.number().exactOptional(),
  nextBefore: z.number().exactOptional(),
  pending: z.array(pendingWork).exactOptional(),
});

/** The exported history of an execution. */
export const exportedHistory: z.ZodType<ExportedHistory> = z.strictObject({
  instanceId: z.string(),
  incarnation: z.string(),
  executionId: z.number(),
  events: z.array(historyEvent),
});

const executionStatus: z.ZodType<ExecutionStatus> = z.union([status, z.literal('continuedAsNew')]);

const executionInfo: z.ZodType<ExecutionInfo> = z.strictObject({
  executionId: z.number(),
  status: executionStatus,
  version: z.string().nullable(),
  startedAt: time.nullable(),
  endedAt: time.nullable(),
  historyLength: z.number(),
  failure: failureSummary.nullable(),
  reason: z.string().nullable(),
});

export const executionPage: z.ZodType<ExecutionPage> = z.strictObject({
  items: z.array(executionInfo),
  nextAfter: z.number().exactOptional(),
});

/** A serialized error, with all fields to throw it again in the client. */
export const wireError = z
  .strictObject({
    code: z.string(),
    message: z.string(),
    reason: z.string().exactOptional().meta({ description: 'Reason of the cancel.' }),
    trigger: trigger.exactOptional(),
    subject: z
      .string()
      .exactOptional()
      .meta({ description: 'Name of the activity, task or instance that failed.' }),
    failure: failure.exactOptional(),
    eventId: z
      .number()
      .exactOptional()
      .meta({ description: 'First event at which code and history disagree.' }),
    operation: z
      .string()
      .exactOptional()
      .meta({ description: 'Operation of the store that failed.' }),
    outcomeUnknown: z
      .boolean()
      .exactOptional()
      .meta({ description: 'Whether the operation may have been committed.' }),
    retryable: z.boolean().exactOptional().meta({ description: 'Whether a retry can succeed.' }),
    issues: z
      .array(z.strictObject({ path: z.string(), message: z.string() }))
      .exactOptional()
      .meta({ description: 'Validation errors of the request.' }),
  })
  .meta({ id: 'Error', description: 'An error, without SQL, file paths or secrets.' });

export type WireError = z.output<typeof wireError>;

/** The body of every error response. */
export const errorResponse = z.strictObject({
  error: wireError,
  requestId: z.string().meta({ description: 'Identifies the request in the log of the server.' }),
});
