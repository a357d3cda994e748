import type { DefinitionInfo } from '../client/reading/instance-counts.ts';
import type { InstanceCount } from '../providers/contract/instances.ts';
import type { MeasuredInstance } from '../client/reading/instance-info.ts';
import type { PauseResult } from '../client/managing/pause-request.ts';
import type { PausedDefinition } from '../providers/contract/pausing.ts';
import type { ExecutionInfo } from '../client/reading/history.ts';
import type { Attention } from '../client/explaining/attention.ts';
import type { ExplainedInstance } from '../client/explaining/explain-instances.ts';
import type {
  NextTick,
  ScheduleInfo,
  ScheduleRun,
  ScheduleRunInfo,
} from '../client/managing/schedules.ts';
import { definitionQueue, depth, finding } from './operator-shapes.ts';
import type { TreeNode, TreePage } from '../client/reading/instance-tree-page.ts';
import type { StateEntry } from '../client/reading/state.ts';
import type { Timeline, TimelineItem, TimelineMark } from '../client/reading/timeline.ts';
import type { WatchedEvent } from '../client/watching/history-watch.ts';
import type { DroppedChunks, StreamedChunk } from '../client/watching/stream-reader.ts';
import type { ChunkHandler, ChunkSource } from '../model/values/chunk-source.ts';
import type { InstanceChange } from '../client/watching/watched-ids.ts';
import type { JobInfo, SessionInfo } from '../jobs/session-info.ts';
import type { RetryInfo } from '../management/rerun.ts';
import type { RetentionStatus } from '../management/retention-records.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type {
  DeleteInstanceResult,
  PruneResult,
  QueueDepths,
  SystemMetrics,
} from '../providers/contract/management.ts';
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
  type Check,
} from './response-checks.ts';
import type { ResponseBody, Operation } from './operations.ts';
import {
  instanceFields,
  wireError,
  failureSummary,
  pending,
  instance,
  size,
} from './instance-shapes.ts';
import { limitKeys, limits, limitsPage } from './shapes/limit-shapes.ts';
import { why } from './shapes/why-shapes.ts';
import {
  deleted,
  bulk,
  pruned,
  report,
  seriesMinute,
  worker,
  unclaimed,
} from './shapes/store-shapes.ts';

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

const key = { id: text, incarnation: text };
const run = fields<{ id: string; created: boolean }>({ id: text, created: flag });
const chunk = fields<{ seq: number }>({ seq: number });

const reply = either(
  tagged('kind', 'completed', anything),
  tagged('kind', 'error', fields<{ error: unknown }>({ error: wireError })),
);
const repliedUpdate = either(
  fields<{ id: string; key: string; error: unknown }>({ id: text, key: text, error: wireError }),
  fields<{ id: string; key: string }>({ id: text, key: text }),
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
  startInstance: run,
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
  updateInstance: fields<ResponseBody<'updateInstance'>>({
    status: text,
    key: text,
    output: anything,
  }),
  waitForUpdates: fields<ResponseBody<'waitForUpdates'>>({ results: list(repliedUpdate) }),
  resolveAwakeable: done,
  rejectAwakeable: done,
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
  explainInstances: fields<ResponseBody<'explainInstances'>>({
    items: list(
      fields<ExplainedInstance>({
        id: text,
        instance,
        text,
        retrying: optional(flag),
        worker: optional(text),
        lastActiveAt: optional(number),
      }),
    ),
  }),
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
  streamInstance: either(
    tagged('kind', 'end', anything),
    either(
      tagged(
        'kind',
        'dropped',
        fields<Omit<DroppedChunks, 'kind'>>({ cursor: text, count: number }),
      ),
      tagged(
        'kind',
        'chunk',
        fields<Omit<StreamedChunk, 'kind'>>({
          cursor: text,
          value: anything,
          at: number,
          source: fields<ChunkSource>({
            executionId: number,
            handler: optional(
              fields<ChunkHandler>({ name: text, operation: number, attempt: number, runId: text }),
            ),
          }),
        }),
      ),
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
  readState: fields<ResponseBody<'readState'>>({
    items: list(fields<StateEntry>({ key: text, value: anything, version: number })),
    nextKey: optional(text),
  }),
  waitForStates: fields<ResponseBody<'waitForStates'>>({
    results: list(
      either(
        fields<{ place: number; version: number }>({ place: number, version: number }),
        fields<{ place: number; error: unknown }>({ place: number, error: wireError }),
      ),
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
  listLimits: limitsPage,
  getLimits: fields<ResponseBody<'getLimits'>>({ limits: nullable(limits) }),
  setLimits: limits,
  resetLimits: limits,
  listLimitKeys: limitKeys,
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
  listQueues: fields<ResponseBody<'listQueues'>>({
    items: list(definitionQueue),
  }),
  getAttention: fields<Attention>({ at: number, findings: list(finding) }),
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
  listScheduleRuns: fields<ResponseBody<'listScheduleRuns'>>({
    items: list(
      fields<ScheduleRun>({
        id: text,
        name: text,
        status: text,
        createdAt: number,
        startedAt: optional(number),
        endedAt: optional(number),
        tickAt: optional(number),
        failure: optional(failureSummary),
      }),
    ),
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
