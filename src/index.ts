import './require-node.ts';

// Definitions
export { activity } from './orchestration/activity.ts';
export type { ActivityDefinition, ActivityDefinitionOptions } from './orchestration/activity.ts';
export type { ActivityDefaults, CallOptions } from './orchestration/call-options.ts';
export type {
  ConcurrencyOptions,
  InstanceConcurrencyOptions,
  LaneOptions,
  LimitOptions,
  RateOptions,
  ResolvedLimits,
  ResolvedRate,
} from './model/limit-options.ts';
export type { StepContext, StepOptions, TransactionStepWork } from './orchestration/steps.ts';
export { isolatedActivity } from './orchestration/activity.ts';
export type { IsolatedHandler } from './orchestration/activity.ts';
export { orchestration } from './orchestration/orchestration.ts';
export type {
  OrchestrationDefinition,
  OrchestrationDefinitionOptions,
} from './orchestration/orchestration.ts';
export { event, update } from './orchestration/orchestration.ts';
export { flowVersion } from './model/definition.ts';
export { isolatedTask } from './tasks/task.ts';
export { task } from './tasks/task.ts';
export type {
  BatchTaskOptions,
  FailedRun,
  OnFailOptions,
  TaskDefinition,
  TaskOptions,
} from './tasks/task.ts';
export type {
  BatchContext,
  BatchDefinition,
  BatchHandler,
  BatchOptions,
  BatchOutput,
  BatchResults,
  BatchRun,
  BatchTransactionWork,
} from './tasks/batch.ts';
export type { CircuitBreakerOptions } from './tasks/circuit-breaker.ts';
export type {
  ActivityRef,
  EventToken,
  FlowRef,
  OrchestrationRef,
  StandardSchema,
  TaskRef,
  UpdateToken,
} from './model/definition.ts';
export type { ErrorClass, RetryPolicy } from './model/retry-policy.ts';
export type { CancellationType } from './model/cancel.ts';

// Contexts of orchestrations, activities and tasks
export type {
  ChildOptions,
  DetachedOptions,
  TaskCallOptions,
  OrchestrationContext,
  OrchestrationState,
  RaceOptions,
  ScopeOptions,
  Selected,
  SelectedKey,
  ShieldOptions,
  WaitOptions,
} from './orchestration/orchestration-context.ts';
export type {
  Awakeable,
  AwakeableOptions,
  UpdateHandlers,
} from './orchestration/update-context.ts';
export type { DurablePromise } from './replay/durable-promise.ts';
export type {
  ActivityClient,
  HandlerSession,
  ActivityContext,
  AttemptContext,
  TransactionContext,
  TransactionOptions,
  TransactionWork,
  CancelInfo,
} from './orchestration/activity-context.ts';
export type { AbandonedContext, OnAbandoned } from './orchestration/activity-context.ts';
export type { TaskAttempt, TaskClient, TaskContext } from './tasks/task.ts';
export type { Headers } from './model/values/headers.ts';

// Stores and workers
export { Perdure } from './perdure.ts';
export type { OpenOptions, RunnableFlow, StartWorkerOptions } from './perdure.ts';
export type { Worker } from './runtime/worker.ts';
export type { DrainOptions, DrainResult } from './runtime/maintenance/drain.ts';
export type { WorkerOptions } from './runtime/options.ts';
export type { StateLimits } from './model/values/state.ts';
export type {
  AttemptEnded,
  InstanceBlocked,
  RuntimeHooks,
  TaskEnded,
  TurnCommitted,
} from './runtime/hooks.ts';

// Remote client
export type { ConnectOptions } from './remote/connect-options.ts';
export type { Connection } from './remote/connection.ts';
export type { RemoteClient } from './remote/connection.ts';

// Client
export type { ClientSurface as Client } from './client/client.ts';
export type { Handle, WaitOptions as ResultOptions } from './client/handle.ts';
export type { UpdateOptions } from './client/updating/update-request.ts';
export type { StartableFlow } from './client/starting/start-request.ts';
export type {
  RaiseEventOptions,
  RunFlowOptions,
  StartOptions,
} from './client/starting/start-request.ts';
export type {
  OnConflict,
  StartEvent,
  AdmissionOptions,
  DebounceOptions,
  DedupeOptions,
} from './model/admission-options.ts';
export type { CommonStartOptions } from './model/start-settings.ts';
export type { StartedHandle } from './client/handle.ts';
export type { RunTaskOptions } from './client/starting/task-request.ts';
export type { TaskHandles, TaskRequest } from './client/starting/task-request.ts';
export type { TaskInfo } from './client/reading/instance-info.ts';
export type { SchedulePage, Schedules } from './client/managing/schedules.ts';
export type {
  LimitChange,
  LimitKeyInfo,
  LimitKeyPage,
  LimitKeysOptions,
  Limits,
  LimitsInfo,
  LimitsInfoPage,
  LimitTarget,
} from './client/managing/limits.ts';
export type {
  HoldingLimit,
  LimitedKind,
  LimitOverride,
  Limits as LimitFigures,
  RateLimit,
} from './providers/contract/limits.ts';
export type {
  BackfillOptions,
  BackfillResult,
  NextTick,
  ScheduleInfo,
  ScheduleRun,
  ScheduleRunInfo,
  TriggerOptions,
  TriggerResult,
} from './client/managing/schedules.ts';
export type { Overlap } from './schedules/overlap.ts';
export type {
  FlowSchedule,
  OrchestrationSchedule,
  ScheduledInput,
  ScheduleTiming,
  TaskSchedule,
} from './client/managing/schedule-request.ts';
export type { CatchUp } from './schedules/ticks.ts';
export type { Job } from './jobs/job.ts';
export type { SubmitOptions } from './jobs/job-request.ts';
export type { Session } from './jobs/sessions.ts';
export type { OpenSessionOptions } from './jobs/session-info.ts';
export type { SessionFilter, SessionPageOptions, Sessions } from './jobs/sessions.ts';
export type {
  JobInfo,
  JobPage,
  SessionInfo,
  SessionPage,
  ShutdownMode,
} from './jobs/session-info.ts';
export type { Submitter } from './jobs/job-request.ts';
export type { CancelOptions, TerminateOptions } from './client/managing/stop-request.ts';
export type { ForkOptions, RetryOptions } from './client/managing/rerun-request.ts';
export type { ForkOrigin, RetryInfo } from './management/rerun.ts';
export type { TransactionClient } from './client/transaction-client.ts';
export type { ApplicationTransaction } from './client/transaction-client.ts';
export type { StatementResult, StoreTransaction } from './model/store-transaction.ts';
export type { TransactionConnection } from './providers/contract/transactional.ts';
export type {
  BlockedInfo,
  InstanceInfo,
  MeasuredInstance,
} from './client/reading/instance-info.ts';
export type {
  InstanceListPage,
  InstancePage,
  ListFilter,
  ListOrder,
  ListPage,
  ListTime,
} from './client/reading/instance-list.ts';
export type { CustomStatus, StateEntry, StateWaitOptions } from './client/reading/state.ts';
export type { CountOptions, DefinitionInfo } from './client/reading/instance-counts.ts';
export type { InstanceCount } from './providers/contract/instances.ts';
export type { TagChanges, Tags } from './model/values/tags.ts';
export type {
  ExportedHistory,
  HistoryEntry,
  HistoryOptions,
  HistoryPage,
} from './client/reading/history.ts';
export type { PayloadOptions } from './client/reading/payload-options.ts';
export type {
  Timeline,
  TimelineItem,
  TimelineMark,
  TimelineOptions,
} from './client/reading/timeline.ts';
export type { TreeNode, TreeOptions, TreePage } from './client/reading/instance-tree-page.ts';
export type { WatchedEvent, WatchHistoryOptions } from './client/watching/history-watch.ts';
export type {
  DroppedChunks,
  StreamedChunk,
  StreamEntry,
  StreamOptions,
} from './client/watching/stream-reader.ts';
export type { ChunkHandler, ChunkSource } from './model/values/chunk-source.ts';
export type { InstanceChange } from './client/watching/watched-ids.ts';
export type {
  ExecutionInfo,
  ExecutionListOptions,
  ExecutionPage,
} from './client/reading/history.ts';
export type { AuditPage, AuditQuery } from './client/reading/instance-list.ts';
export type { CancelRequest } from './model/cancel.ts';
export type { HistoryEvent } from './model/event.ts';
export type { ExecutionStatus, InstanceStatus, TerminalStatus } from './model/status.ts';

// Actions by filter
export type {
  Bulk,
  BulkCancelOptions,
  BulkEventOptions,
  BulkOptions,
  BulkPauseOptions,
  BulkProgress,
  BulkPruneByFilterOptions,
  BulkRetryOptions,
  BulkTerminateOptions,
} from './client/managing/bulk.ts';
export type { BulkPreview, BulkRefusal, BulkResult } from './management/bulk-call.ts';
export type { AuditOptions } from './model/audit-options.ts';

// Deletion, pruning, retention
export type { BulkDeleteOptions, DeleteProgress } from './management/delete-instance.ts';
export type { DeleteOptions } from './management/delete-instance.ts';
export type { InstanceFilter } from './management/instance-filter.ts';
export type { InstanceTree } from './management/instance-tree.ts';
export type { PruneConditions } from './management/management-options.ts';
export type { BulkPruneOptions } from './management/prune-executions.ts';
export type { PruneOptions } from './management/prune-executions.ts';
export type { RetentionControl, RunRetentionOptions } from './management/retention-control.ts';
export type { RetentionOptions, SweepOptions } from './management/retention-policy.ts';
export type {
  ExecutionRetention,
  InstanceRetention,
  RetentionPolicy,
} from './management/retention-policy.ts';
export type {
  RetentionPause,
  RetentionReport,
  RetentionStatus,
} from './management/retention-records.ts';

// Errors
export {
  CanceledError,
  FailedError,
  isPerdureError,
  LockLostError,
  NondeterminismError,
  PerdureError,
  ProviderError,
} from './model/failures/errors.ts';
export type { CancelTrigger, ErrorCode } from './model/failures/errors.ts';
export type { Failure } from './model/failures/failure.ts';

// Durations, logs, time
export type { Duration } from './model/values/duration.ts';
export { serialized } from './model/values/serialized.ts';
export type { Serialized } from './model/values/serialized.ts';
export { consoleLogger, silentLogger, type Logger } from './model/logger.ts';
export type { Telemetry } from './model/telemetry.ts';

// Middleware and payload codecs
export type {
  ActivityCall,
  ClientCall,
  Middleware,
  Next,
  OrchestrationCall,
  TaskCall,
} from './model/middleware.ts';
export type { EncodeContext, EncodedBytes, PayloadCodec } from './model/encoding/codec.ts';
export { folderStore } from './codecs/folder-store.ts';
export type {
  ExternalKey,
  ExternalPayloads,
  ExternalPayloadStore,
} from './model/encoding/external-store.ts';
export type { Clock } from './model/clock.ts';

// Records that clients and workers return; the whole contract of a store is in `perdure/provider`
export type { Provider } from './providers/contract/provider.ts';
export type { FailureSummary, LimitWait, PendingWork } from './client/reading/inspect-instance.ts';
export type {
  ActivityWait,
  AwakeableWait,
  BlockedWait,
  CancelWait,
  ChildWait,
  DebouncedWait,
  PlaceWait,
  DelayWait,
  StartWait,
  DetachedWait,
  EndedWait,
  EventWait,
  JobWait,
  PausedWait,
  TaskWait,
  TimerWait,
  TurnWait,
  UnclaimedReason,
  UpdateWait,
  Wait,
  Why,
  WorkerWait,
} from './client/explaining/why.ts';
export type {
  Attention,
  AttentionFinding,
  BlockedFinding,
  FailedFinding,
  FailureGroup,
  FindingCount,
  LateSchedulesFinding,
  LeakedFinding,
  OldQueuesFinding,
  PausedDefinitionsFinding,
  StaleWorkersFinding,
  UnclaimedFinding,
} from './client/explaining/attention.ts';
export type { DefinitionQueueInfo } from './client/reading/queues.ts';
export type { ExplainedInstance } from './client/explaining/explain-instances.ts';
export type { BlockedDetails, EventSummary } from './model/failures/blocked.ts';
export type { RunningItem, StopResult } from './providers/contract/cancellation.ts';
export type { DefinitionKind, PausedDefinition } from './providers/contract/pausing.ts';
export type {
  PauseOptions,
  PauseResult,
  PauseTarget,
  ResumeOptions,
} from './client/managing/pause-request.ts';
export type { CreateResult, ExecutionRecord, NewInstance } from './providers/contract/instances.ts';
export type { SeriesDurationInfo, SeriesMinute, SeriesQuery } from './client/reading/series.ts';
export type { SeriesDepth, SeriesDepths } from './providers/contract/series.ts';
export type { UnclaimedWorkInfo, WorkerInfo } from './client/reading/workers.ts';
export type { WorkerDefinitions, WorkerSlots } from './providers/contract/workers.ts';
export type { OnFailState } from './providers/contract/tasks.ts';
export type {
  AuditAction,
  AuditCounts,
  AuditEntry,
  AuditRecord,
  DeleteInstanceResult,
  InstanceSize,
  PruneResult,
  QueueDepth,
  QueueDepths,
  SystemMetrics,
} from './providers/contract/management.ts';
