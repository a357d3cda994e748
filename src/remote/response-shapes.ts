import type { DefinitionInfo } from '../client/reading/instance-counts.ts';
import type { InstanceCount } from '../providers/contract/instances.ts';
import type { SeriesDurationInfo, SeriesMinute } from '../client/reading/series.ts';
import type { SeriesDepth, SeriesDepths } from '../providers/contract/series.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from '../client/reading/workers.ts';
import type {
  BlockedInfo,
  InstanceInfo,
  MeasuredInstance,
  TaskInfo,
} from '../client/reading/instance-info.ts';
import type { PauseResult } from '../client/managing/pause-request.ts';
import type { PausedDefinition } from '../providers/contract/pausing.ts';
import type { ExecutionInfo } from '../client/reading/history.ts';
import type { FailureSummary, PendingWork } from '../client/reading/inspect-instance.ts';
import type {
  ActivityWait,
  BlockedWait,
  CancelWait,
  ChildWait,
  DelayWait,
  DetachedWait,
  EndedWait,
  EventWait,
  JobWait,
  PausedWait,
  TaskWait,
  TimerWait,
  TurnWait,
  Wait,
  Why,
  WorkerWait,
} from '../client/reading/why.ts';
import type { NextTick, ScheduleInfo, ScheduleRunInfo } from '../client/managing/schedules.ts';
import type { TreeNode, TreePage } from '../client/reading/instance-tree-page.ts';
import type { Timeline, TimelineItem, TimelineMark } from '../client/reading/timeline.ts';
import type { WatchedEvent } from '../client/watching/history-watch.ts';
import type { InstanceChange } from '../client/watching/watched-ids.ts';
import type { JobInfo, SessionInfo } from '../jobs/session-info.ts';
import type { ForkOrigin, RetryInfo } from '../management/rerun.ts';
import type { BulkPreview, BulkRefusal, BulkResult } from '../management/bulk-call.ts';
import type { RetentionReport, RetentionStatus } from '../management/retention-records.ts';
import type { CancelRequest } from '../model/cancel.ts';
import type { EventSummary } from '../model/failures/blocked.ts';
import type { Failure } from '../model/failures/failure.ts';
import type { RunningItem, StopResult } from '../providers/contract/cancellation.ts';
import type {
  DeleteInstanceResult,
  InstanceSize,
  PruneResult,
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from '../providers/contract/management.ts';
import type { WireError } from '../server/routes/response-schemas.ts';
import {
  anything,
  either,
  fields,
  flag,
  list,
  nullable,
  number,
  optional,
  record,
  tagged,
  text,
  variants,
  type Check,
} from './response-checks.ts';
import type { ResponseBody, Operation } from './operations.ts';

const failureAlone: Check = fields<Failure>({
  name: text,
  message: text,
  stack: optional(text),
  code: optional(text),
  nonRetryable: optional(flag),
  attempts: optional(number),
});

// Other code recurses into causes, so an endless chain must be rejected here.
const maxCauses = 100;

const failure: Check = (value, path) => {
  let cause: unknown = value;
  for (let depth = 0; depth <= maxCauses; depth += 1) {
    const wrong = failureAlone(cause, path);
    if (wrong !== undefined) return wrong;
    cause = (cause as Failure).cause;
    if (cause === undefined) return undefined;
  }
  return `${path}.cause`;
};

/** An error in a response. */
export const wireError: Check = fields<WireError>({
  code: text,
  message: text,
  reason: optional(text),
  trigger: optional(text),
  subject: optional(text),
  failure: optional(failure),
  eventId: optional(number),
  operation: optional(text),
  outcomeUnknown: optional(flag),
  retryable: optional(flag),
});

const cancelFields = { reason: text, actor: nullable(text), requestedAt: number };
const cancel: Check = fields<CancelRequest>(cancelFields);

const running: Check = fields<RunningItem>({
  operation: number,
  name: text,
  attempt: number,
  lockedUntil: number,
  worker: nullable(text),
  claimedAt: number,
  cancel: nullable(fields<NonNullable<RunningItem['cancel']>>({ reason: text, trigger: text })),
});

const expiredClaim: Check = fields<NonNullable<PendingWork['expired']>>({
  worker: optional(text),
  at: number,
});
const failureSummary: Check = fields<FailureSummary>({
  name: text,
  message: text,
  code: optional(text),
});

const pendingFields = {
  kind: text,
  operation: number,
  name: text,
  state: text,
  attempt: number,
  maxAttempts: optional(number),
  lastFailure: optional(failureSummary),
  nextTryAt: optional(number),
  heartbeatAt: optional(number),
  expired: optional(expiredClaim),
  pointOfNoReturn: optional(flag),
  worker: optional(text),
  claimedAt: optional(number),
  lockedUntil: optional(number),
  cancel: optional(fields<NonNullable<PendingWork['cancel']>>({ reason: text, trigger: text })),
};
const pending: Check = fields<PendingWork>(pendingFields);

const task: Check = fields<TaskInfo>({
  priority: number,
  dedupeKey: optional(text),
  runAt: optional(number),
  expiresAt: optional(number),
  failures: number,
  headers: record(text),
  onFail: optional(text),
  onFailFailure: optional(failure),
});

const eventSummary: Check = fields<EventSummary>({
  kind: text,
  name: optional(text),
  operation: optional(number),
  text,
});

const blockedFields = {
  reason: text,
  at: number,
  buildId: text,
  code: text,
  worker: optional(text),
  eventId: optional(number),
  recorded: optional(eventSummary),
  issued: optional(eventSummary),
  location: optional(text),
};
const blocked: Check = fields<BlockedInfo>(blockedFields);

const instanceFields = {
  id: text,
  kind: text,
  name: text,
  version: optional(text),
  status: text,
  executionId: number,
  parentId: optional(text),
  failure: optional(failure),
  customStatusVersion: optional(number),
  createdAt: number,
  startedAt: optional(number),
  endedAt: optional(number),
  cancel: optional(cancel),
  cleanupSkipped: optional(flag),
  leaked: optional(number),
  pending: optional(list(pending)),
  running: optional(list(running)),
  terminated: optional(
    fields<{ reason: string; actor: string | null }>({
      reason: text,
      actor: nullable(text),
    }),
  ),
  tags: optional(record(text)),
  blocked: optional(blocked),
  forkedFrom: optional(fields<ForkOrigin>({ id: text, executionId: number, eventId: number })),
  paused: optional(
    fields<NonNullable<InstanceInfo['paused']>>({
      at: number,
      reason: optional(text),
      actor: optional(text),
    }),
  ),
  task: optional(task),
  undecodable: optional(list(text)),
};
const instance: Check = fields<InstanceInfo>(instanceFields);
const work: Check = fields<ActivityWait>({
  ...pendingFields,
  unclaimed: optional(text),
  step: optional(text),
});
const wait: Check = variants<Wait['kind']>('kind', {
  paused: fields<PausedWait>({
    kind: text,
    target: text,
    name: optional(text),
    at: number,
    reason: optional(text),
    actor: optional(text),
  }),
  worker: fields<WorkerWait>({
    kind: text,
    reason: text,
    name: text,
    version: optional(text),
    nearestVersion: optional(text),
    dueAt: number,
    claims: number,
    expired: optional(expiredClaim),
  }),
  turn: fields<TurnWait>({
    kind: text,
    worker: optional(text),
    claimedAt: optional(number),
    lockedUntil: number,
  }),
  delay: fields<DelayWait>({ kind: text, until: number }),
  activity: work,
  onFail: work,
  task: fields<TaskWait>({
    ...pendingFields,
    unclaimed: optional(text),
    priority: number,
    expiresAt: optional(number),
    dedupeKey: optional(text),
  }),
  timer: fields<TimerWait>({ kind: text, operation: number, fireAt: number }),
  event: fields<EventWait>({
    kind: text,
    operation: number,
    name: text,
    signal: optional(text),
    step: optional(text),
  }),
  child: fields<ChildWait>({
    kind: text,
    operation: number,
    name: optional(text),
    id: text,
    status: optional(text),
    isStopping: optional(flag),
    text: optional(text),
  }),
  detached: fields<DetachedWait>({ kind: text, operation: number, name: optional(text), id: text }),
  cancel: fields<CancelWait>({
    ...cancelFields,
    kind: text,
    phase: text,
    cleanupUntil: optional(number),
  }),
  blocked: fields<BlockedWait>({ ...blockedFields, kind: text, retryAt: optional(number) }),
  job: fields<JobWait>({
    kind: text,
    sessionId: text,
    sessionState: text,
    expiresAt: number,
    abandonedAt: optional(number),
  }),
  ended: fields<EndedWait>({
    kind: text,
    status: text,
    at: number,
    failure: optional(failureSummary),
    reason: optional(text),
    actor: optional(text),
    cleanupSkipped: optional(flag),
    leaked: optional(number),
    onFail: optional(text),
  }),
});
const why: Check = fields<Why>({
  id: text,
  status: text,
  text,
  waits: list(wait),
  more: number,
  incomplete: optional(flag),
});
const size: Check = fields<InstanceSize>({
  executions: number,
  events: number,
  children: number,
  messages: number,
  activities: number,
});

const schedule: Check = fields<ScheduleInfo>({
  name: text,
  paused: flag,
  nextAt: optional(number),
  lastTickAt: optional(number),
  lastInstanceId: optional(text),
  lastError: optional(text),
  skippedTicks: optional(number),
  bufferedTicks: optional(list(number)),
  runningIds: optional(list(text)),
  lastRuns: optional(
    list(
      fields<ScheduleRunInfo>({
        id: text,
        status: text,
        createdAt: number,
        endedAt: optional(number),
      }),
    ),
  ),
  createdAt: number,
  updatedAt: number,
  definition: optional(
    fields<NonNullable<ScheduleInfo['definition']>>({
      catchUp: text,
      starts: fields<{ kind: string; name: string }>({ kind: text, name: text }),
      cron: optional(text),
      timeZone: optional(text),
      everyMs: optional(number),
      startAt: optional(number),
      endAt: optional(number),
      jitterMs: optional(number),
      overlap: optional(text),
      bufferLimit: optional(number),
    }),
  ),
});

const session: Check = fields<SessionInfo>({
  id: text,
  label: optional(text),
  owner: optional(text),
  state: text,
  end: optional(text),
  idleTimeoutMs: number,
  createdAt: number,
  expiresAt: number,
  endedAt: optional(number),
  variables: record(text),
  variablesHidden: optional(flag),
  openJobs: number,
});

const job: Check = fields<JobInfo>({
  id: text,
  kind: text,
  name: text,
  status: text,
  createdAt: number,
  abandonedAt: optional(number),
});

const stop: Check = fields<StopResult>({ found: flag, changed: flag, status: nullable(text) });
const paused: Check = fields<PauseResult>({
  found: flag,
  changed: flag,
  status: nullable(text),
  paused: flag,
});
const stops = fields<{ results: unknown }>({ results: list(stop) });
const done = fields<object>({});
const event = fields<{ kind: string; at: number }>({ kind: text, at: number });

const deleted = {
  instancesDeleted: number,
  executionsDeleted: number,
  eventsDeleted: number,
  queueMessagesDeleted: number,
};
const bulk: Check = fields<BulkResult>({
  matched: number,
  changed: number,
  refused: list(fields<BulkRefusal>({ id: text, code: text, reason: text })),
  refusedMore: number,
  done: flag,
  cursor: optional(text),
  preview: optional(
    fields<BulkPreview>({ byStatus: record(number), sample: list(text), capped: flag }),
  ),
});
const pruned = { instancesProcessed: number, executionsDeleted: number, eventsDeleted: number };

const report: Check = fields<RetentionReport>({
  startedAt: number,
  endedAt: number,
  sweeper: text,
  dryRun: flag,
  outcome: text,
  deleted: fields<DeleteInstanceResult>(deleted),
  pruned: fields<PruneResult>(pruned),
  left: number,
  errors: list(text),
});

const depth: Check = fields<QueueDepth>({
  ready: number,
  delayed: number,
  claimed: number,
  paused: number,
  oldestReadyAt: nullable(number),
});

const seriesDurations: Check = fields<SeriesDurationInfo>({
  count: number,
  sumMs: number,
  maxMs: number,
  p50Ms: optional(number),
  p95Ms: optional(number),
  buckets: list(
    fields<SeriesDurationInfo['buckets'][number]>({ upToMs: optional(number), count: number }),
  ),
});

const seriesDepth: Check = fields<SeriesDepth>({
  ready: number,
  delayed: number,
  claimed: number,
  oldestMs: nullable(number),
});

const seriesMinute: Check = fields<SeriesMinute>({
  at: number,
  starts: number,
  ends: record(number),
  instances: seriesDurations,
  attempts: seriesDurations,
  waits: seriesDurations,
  depths: optional(
    fields<SeriesDepths>({
      orchestrations: seriesDepth,
      activities: seriesDepth,
      tasks: seriesDepth,
    }),
  ),
});

const worker: Check = fields<WorkerInfo>({
  id: text,
  processId: optional(text),
  name: text,
  status: text,
  host: text,
  pid: number,
  buildId: text,
  orchestrations: list(fields<{ name: string; version: string }>({ name: text, version: text })),
  activities: list(text),
  tasks: list(text),
  slots: fields<WorkerInfo['slots']>({ activities: number, orchestrations: number, inUse: number }),
  leaked: number,
  startedAt: number,
  lastSeenAt: number,
  ageMs: number,
  heartbeatMs: number,
  diedAt: optional(number),
  definitionsOmitted: optional(flag),
});

const unclaimed: Check = fields<UnclaimedWorkInfo>({
  kind: text,
  name: text,
  version: optional(text),
  dueForMs: number,
});

const key = { id: text, incarnation: text };
const id = fields<{ id: string }>({ id: text });
const run = fields<{ id: string; created: boolean }>({ id: text, created: flag });
const chunk = fields<{ seq: number }>({ seq: number });

const reply = either(
  tagged('kind', 'completed', anything),
  tagged('kind', 'error', fields<{ error: unknown }>({ error: wireError })),
);
const waited = either(
  fields<{ id: string; instance: unknown }>({ id: text, instance }),
  fields<{ id: string; error: unknown }>({ id: text, error: wireError }),
);

const countFields = { count: number, capped: flag };
const definition: Check = fields<DefinitionInfo>({
  kind: text,
  name: text,
  version: optional(text),
  counts: record(fields<InstanceCount>(countFields)),
});

/**
 * Checks the response of each route, so that a malicious or wrong server cannot return values that the types exclude.
 * Written by hand: browsers do not load the schemas of the server.
 */
export const responseShapes: Readonly<Record<Operation, Check>> = {
  health: done,
  startInstance: id,
  listInstances: fields<ResponseBody<'listInstances'>>({
    items: list(instance),
    nextCursor: optional(text),
  }),
  countInstances: fields<ResponseBody<'countInstances'>>(countFields),
  listDefinitions: fields<ResponseBody<'listDefinitions'>>({ items: list(definition) }),
  getInstance: instance,
  measureInstance: fields<MeasuredInstance>({ ...instanceFields, size }),
  waitForInstances: fields<ResponseBody<'waitForInstances'>>({ results: list(waited) }),
  raiseEvent: done,
  getInstanceTree: fields<ResponseBody<'getInstanceTree'>>({
    rootId: text,
    allIds: list(text),
    size: number,
    isRootOnly: flag,
  }),
  getHistory: fields<ResponseBody<'getHistory'>>({
    executionId: number,
    items: list(
      fields<{ id: number; event: unknown; payloadBytes?: number }>({
        id: number,
        event,
        payloadBytes: optional(number),
      }),
    ),
    nextAfter: optional(number),
    nextBefore: optional(number),
    pending: optional(list(pending)),
  }),
  exportHistory: fields<ResponseBody<'exportHistory'>>({
    instanceId: text,
    incarnation: text,
    executionId: number,
    events: list(event),
  }),
  listExecutions: fields<ResponseBody<'listExecutions'>>({
    items: list(
      fields<ExecutionInfo>({
        executionId: number,
        status: text,
        version: nullable(text),
        startedAt: nullable(number),
        endedAt: nullable(number),
        historyLength: number,
        failure: nullable(failureSummary),
        reason: nullable(text),
      }),
    ),
    nextAfter: optional(number),
  }),
  listRunning: fields<ResponseBody<'listRunning'>>({ items: list(pending) }),
  explainInstance: why,
  watchHistory: either(
    tagged('kind', 'end', anything),
    tagged(
      'kind',
      'event',
      fields<WatchedEvent>({
        executionId: number,
        id: number,
        position: text,
        event,
        payloadBytes: optional(number),
      }),
    ),
  ),
  getTimeline: fields<Timeline>({
    executionId: number,
    items: list(
      fields<TimelineItem>({
        operation: number,
        kind: text,
        name: optional(text),
        childId: optional(text),
        startedAt: optional(number),
        claimedAt: optional(number),
        fireAt: optional(number),
        endedAt: optional(number),
        outcome: optional(text),
        attempts: optional(number),
        worker: optional(text),
        reason: optional(text),
        withdrawnAt: optional(number),
      }),
    ),
    marks: list(fields<TimelineMark>({ id: number, kind: text, at: number, name: optional(text) })),
    nextAfter: optional(number),
  }),
  readTree: fields<TreePage>({
    items: list(
      fields<TreeNode>({
        id: text,
        parentId: optional(text),
        depth: number,
        kind: text,
        name: text,
        version: optional(text),
        status: text,
        executionId: number,
        createdAt: number,
        startedAt: optional(number),
        endedAt: optional(number),
        children: number,
      }),
    ),
    nextCursor: optional(text),
  }),
  watchInstances: fields<ResponseBody<'watchInstances'>>({
    kind: text,
    items: list(
      fields<InstanceChange>({
        id: text,
        name: optional(text),
        status: nullable(text),
        executionId: number,
        customStatusVersion: number,
        version: text,
      }),
    ),
  }),
  cancelInstance: stop,
  terminateInstance: stop,
  retryInstance: fields<RetryInfo>({ id: text, executionId: number, keptEvents: number }),
  forkInstance: fields<ResponseBody<'forkInstance'>>({ id: text }),
  pauseInstance: paused,
  resumeInstance: paused,
  pauseDefinition: paused,
  resumeDefinition: paused,
  listPausedDefinitions: fields<ResponseBody<'listPausedDefinitions'>>({
    items: list(
      fields<PausedDefinition>({
        kind: text,
        name: text,
        at: number,
        reason: nullable(text),
        actor: nullable(text),
      }),
    ),
  }),
  deleteInstance: fields<DeleteInstanceResult>(deleted),
  deleteInstances: fields<ResponseBody<'deleteInstances'>>({
    ...deleted,
    rootsDeleted: number,
    rootsSkipped: number,
    finished: flag,
  }),
  bulkCancel: bulk,
  bulkTerminate: bulk,
  bulkRetry: bulk,
  bulkPause: bulk,
  bulkResume: bulk,
  bulkRaiseEvent: bulk,
  bulkDelete: bulk,
  bulkPrune: bulk,
  pruneExecutions: fields<PruneResult>(pruned),
  pruneExecutionsBulk: fields<ResponseBody<'pruneExecutionsBulk'>>({ ...pruned, finished: flag }),
  listAudit: fields<ResponseBody<'listAudit'>>({
    items: list(
      fields<ResponseBody<'listAudit'>['items'][number]>({
        auditKey: number,
        auditId: text,
        action: text,
        actor: nullable(text),
        reason: nullable(text),
        instanceId: nullable(text),
        filter: text,
        at: number,
        instances: number,
        ...deleted,
      }),
    ),
    nextCursor: optional(text),
  }),
  queueDepths: fields<QueueDepths>({
    orchestrations: depth,
    activities: depth,
    tasks: depth,
    messages: number,
  }),
  systemMetrics: fields<SystemMetrics>({
    instances: record(number),
    pausedInstances: number,
    pausedDefinitions: number,
    finishedExecutions: number,
    storageBytes: number,
    reclaimableBytes: number,
    pendingReclaims: number,
  }),
  listWorkers: fields<ResponseBody<'listWorkers'>>({ items: list(worker) }),
  listUnclaimedWork: fields<ResponseBody<'listUnclaimedWork'>>({ items: list(unclaimed) }),
  getSeries: fields<ResponseBody<'getSeries'>>({ items: list(seriesMinute) }),
  runTask: run,
  runTasks: fields<ResponseBody<'runTasks'>>({ runs: list(run) }),
  listSchedules: fields<ResponseBody<'listSchedules'>>({
    items: list(schedule),
    nextAfter: optional(text),
  }),
  getSchedule: schedule,
  putSchedule: schedule,
  pauseSchedule: done,
  resumeSchedule: done,
  deleteSchedule: fields<ResponseBody<'deleteSchedule'>>({ deleted: flag }),
  nextRuns: fields<ResponseBody<'nextRuns'>>({
    runs: list(number),
    ticks: list(fields<NextTick>({ tickAt: number, firesAt: number, id: text })),
  }),
  triggerSchedule: fields<ResponseBody<'triggerSchedule'>>({ id: text, created: flag }),
  backfillSchedule: fields<ResponseBody<'backfillSchedule'>>({
    started: number,
    existing: number,
    nextFrom: optional(number),
  }),
  getRetention: fields<RetentionStatus>({
    paused: nullable(
      fields<{ at: number; actor: string | null }>({ at: number, actor: nullable(text) }),
    ),
    lastReport: nullable(report),
    policies: nullable(list(record(anything))),
    fullWalkAt: nullable(number),
  }),
  pauseRetention: done,
  resumeRetention: done,
  runRetention: fields<ResponseBody<'runRetention'>>({ report: nullable(report) }),
  openSession: session,
  listSessions: fields<ResponseBody<'listSessions'>>({
    items: list(session),
    nextAfter: optional(text),
  }),
  getSession: session,
  keepAlive: session,
  shutdownSession: session,
  waitForSession: fields<ResponseBody<'waitForSession'>>({ ended: flag }),
  setSessionVariables: session,
  listJobs: fields<ResponseBody<'listJobs'>>({ items: list(job), nextAfter: optional(text) }),
  submitJobs: fields<ResponseBody<'submitJobs'>>({
    results: list(fields<{ error?: unknown }>({ error: optional(wireError) })),
  }),
  waitForJobs: fields<ResponseBody<'waitForJobs'>>({
    replies: list(fields<{ id: string; incarnation: string; reply: unknown }>({ ...key, reply })),
  }),
  readChunks: fields<ResponseBody<'readChunks'>>({
    pages: list(
      fields<ResponseBody<'readChunks'>['pages'][number]>({
        ...key,
        chunks: list(chunk),
        over: flag,
      }),
    ),
  }),
  takeJobs: done,
  abandonJobs: stops,
  cancelJobs: stops,
  getJob: instance,
};
