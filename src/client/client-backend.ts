/**
 * The port between a client and its store. `LocalBackend` calls a provider in this process; `HttpBackend` calls a server.
 * The client reads options, checks ids, validates and encodes inputs, and creates handles. A backend does the rest.
 *
 * C1. Ids are generated, durations are milliseconds and payloads are JSON text before a backend gets them.
 *     Filters and options of deletions and of retention are the exception: the backend reads them.
 * C2. A backend may repeat every call whose response was lost, except `raise` without a key, `retry`, deletions and `schedules.delete`.
 *     It may repeat a part of a bulk operation: the cursor identifies it.
 * C3. Any number of waits may run concurrently; `close` rejects them all.
 * C4. Hashes, cron expressions and sweeps need Node or packages, so they stay behind the port: `Client` runs in browsers.
 */
import type { JobBackend } from '../jobs/backend.ts';
import type { Admission } from '../model/admission-options.ts';
import type { BulkDeleteOptions, DeleteOptions } from '../management/delete-instance.ts';
import type { BulkBackend } from '../management/bulk-call.ts';
import type { InstanceFilter } from '../management/instance-filter.ts';
import type { InstanceTree } from '../management/instance-tree.ts';
import type { BulkPruneOptions, PruneOptions } from '../management/prune-executions.ts';
import type { ForkCall, RetryCall, RetryInfo } from '../management/rerun.ts';
import type { RetentionControl } from '../management/retention-control.ts';
import type { Clock } from '../model/clock.ts';
import type { Payload } from '../model/values/payload.ts';
import type { TraceContext } from '../model/trace-context.ts';
import type { StartAttempt } from '../model/values/start-attempt.ts';
import type { StartSettings } from '../model/start-settings.ts';
import type {
  CancelInstance,
  StopResult,
  TerminateInstance,
} from '../providers/contract/cancellation.ts';
import type {
  DeleteInstanceResult,
  PruneResult,
  QueueDepths,
  SystemMetrics,
} from '../providers/contract/management.ts';
import type { CountInstancesParams, InstanceCount } from '../providers/contract/instances.ts';
import type { Attention } from './explaining/attention.ts';
import type { DefinitionInfo } from './reading/instance-counts.ts';
import type { LimitBackend } from './managing/limits.ts';
import type { PauseBackend } from './managing/pause-request.ts';
import type { ScheduleBackend } from './managing/schedules.ts';
import type {
  ExecutionPage,
  ExportedHistory,
  HistoryCall,
  HistoryPage,
} from './reading/history.ts';
import type { PendingWork } from './reading/inspect-instance.ts';
import type { InstanceInfo, MeasuredInstance } from './reading/instance-info.ts';
import type { DefinitionQueueInfo } from './reading/queues.ts';
import type { SeriesCall, SeriesMinute } from './reading/series.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from './reading/workers.ts';
import type { Why } from './explaining/why.ts';
import type { AuditCall, AuditPage, InstancePage, ListCall } from './reading/instance-list.ts';
import type { ExplainedInstance } from './explaining/explain-instances.ts';
import type { StateBackend } from './reading/state.ts';
import type { HistoryViewCall } from './reading/history-view.ts';
import type { TreeCall, TreePage } from './reading/instance-tree-page.ts';
import type { Timeline, TimelineCall } from './reading/timeline.ts';
import type { WatchedEvent, WatchHistoryCall } from './watching/history-watch.ts';
import type { StreamCall, StreamEntry } from './watching/stream-reader.ts';
import type { InstanceChange } from './watching/watched-ids.ts';
import type { EventCall } from './starting/start-request.ts';
import type { TaskSettings } from './starting/task-request.ts';
import type { UpdateBackend } from './updating/update-request.ts';

/** The public members of a class, so that another class can implement them. */
export type Surface<Class> = Pick<Class, keyof Class>;

/** A start, checked and encoded. */
export interface StartCall extends StartSettings, Admission, StartAttempt {
  readonly id: string;
  /** Whether the client generated the id, so that no other start can have it. */
  readonly hasGeneratedId?: boolean | undefined;
  readonly name: string;
  /** `null`: the worker that runs the first turn chooses its newest version. */
  readonly version: string | null;
  readonly payload: Payload | null;
  /** Raised with the start, or raised at the live instance with the id. */
  readonly event?: EventCall | undefined;
  readonly onConflict?: 'useExisting' | 'terminateExisting' | undefined;
  /** With `terminateExisting`: identifies this call, so that its repeat replaces nothing. */
  readonly replaceKey?: string | undefined;
  /** The context of the caller's span. */
  readonly trace?: TraceContext | undefined;
}

/** A task run, checked and encoded. */
export interface TaskCall extends TaskSettings, StartAttempt {
  readonly id: string;
  /** Whether the client generated the id: a run with this id is then always the one of this call. */
  readonly hasGeneratedId: boolean;
  readonly name: string;
  readonly payload: Payload | null;
  /** The context of the caller's span. */
  readonly trace?: TraceContext | undefined;
}

/** The instance of a start, or the run of a task call. */
export interface StartedRun {
  readonly id: string;
  /** Whether the call created it; otherwise one with its id, dedupe key or debounce key existed. */
  readonly created: boolean;
}

/** The part of a client's backend that deletes and prunes. It reads filters and options itself. */
export interface DeletionBackend {
  deleteInstance(id: string, options?: DeleteOptions): Promise<DeleteInstanceResult>;
  deleteInstanceBulk(
    filter?: InstanceFilter,
    options?: BulkDeleteOptions,
  ): Promise<DeleteInstanceResult>;
  pruneExecutions(id: string, options?: PruneOptions): Promise<PruneResult>;
  pruneExecutionsBulk(filter?: InstanceFilter, options?: BulkPruneOptions): Promise<PruneResult>;
}

/** The part of a client's backend that reads for viewers, and follows changes. */
export interface ViewBackend {
  /** Reads one page; a server may return fewer events than `limit`. */
  timeline(id: string, call: TimelineCall): Promise<Timeline>;
  tree(id: string, call: TreeCall): Promise<TreePage>;
  /** Yields the state of each id, then the states that changed. Throws the reason of the signal when that aborts. */
  watch(
    ids: readonly string[],
    signal: AbortSignal | undefined,
  ): AsyncGenerator<readonly InstanceChange[], void, undefined>;
  /** Yields events as they are committed, until the instance has ended. */
  watchHistory(
    id: string,
    call: WatchHistoryCall,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<WatchedEvent, void, undefined>;
  /** Yields the chunks of an instance as they are committed, until it has ended. */
  stream(
    id: string,
    call: StreamCall,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<StreamEntry, void, undefined>;
}

export interface ClientBackend {
  /** Times ids, timeouts and keep-alives. */
  readonly clock: Clock;
  readonly jobs: JobBackend;
  readonly schedules: ScheduleBackend;
  readonly deletion: DeletionBackend;
  readonly bulk: BulkBackend;
  readonly views: ViewBackend;
  readonly pauses: PauseBackend;
  readonly limits: LimitBackend;
  readonly updates: UpdateBackend;
  readonly states: StateBackend;
  /** `assertOpen` throws if the client must not be used. */
  retention(assertOpen: () => void): Surface<RetentionControl>;

  /**
   * Creates an instance, or finds the one of the same start. Resolves with its id: with a `dedupeKey` or `debounce`, it
   * may be another one. Rejects with `INSTANCE_ALREADY_EXISTS`.
   */
  start(call: StartCall): Promise<StartedRun>;
  runTask(call: TaskCall): Promise<StartedRun>;
  /** Runs tasks in batches; resolves with their runs, in order. */
  runTasks(calls: readonly TaskCall[]): Promise<readonly StartedRun[]>;
  /** Raises an event. Repeatable with a key, which a backend may generate. */
  raise(
    call: EventCall & { readonly id: string; readonly trace?: TraceContext | undefined },
  ): Promise<void>;
  cancel(call: CancelInstance): Promise<StopResult>;
  terminate(call: TerminateInstance): Promise<StopResult>;
  retry(call: RetryCall): Promise<RetryInfo>;
  /** Creates the instance `newId`, or finds the one of the same fork. */
  fork(call: ForkCall): Promise<void>;

  /** Resolves once the instance has ended. Rejects with `TIMEOUT` or `INSTANCE_NOT_FOUND`. */
  wait(id: string, timeoutMs: number | undefined): Promise<InstanceInfo>;
  /** Resolves with the output once the instance has completed; rejects with its error if it ended otherwise. */
  result(id: string, timeoutMs: number | undefined): Promise<unknown>;

  get(id: string): Promise<InstanceInfo | undefined>;
  running(id: string): Promise<readonly PendingWork[]>;
  why(id: string): Promise<Why>;
  explain(ids: readonly string[]): Promise<readonly ExplainedInstance[]>;
  list(call: ListCall): Promise<InstancePage>;
  count(call: CountInstancesParams): Promise<InstanceCount>;
  definitions(): Promise<readonly DefinitionInfo[]>;
  history(id: string, call: HistoryCall | HistoryViewCall): Promise<HistoryPage>;
  listExecutions(id: string, call: Omit<HistoryCall, 'executionId'>): Promise<ExecutionPage>;
  exportHistory(id: string, executionId: number | undefined): Promise<ExportedHistory>;
  measure(id: string): Promise<MeasuredInstance>;
  tree(id: string): Promise<InstanceTree>;
  listAudit(call: AuditCall): Promise<AuditPage>;
  queueDepths(): Promise<QueueDepths>;
  queues(): Promise<readonly DefinitionQueueInfo[]>;
  attention(): Promise<Attention>;
  systemMetrics(): Promise<SystemMetrics>;
  workers(): Promise<readonly WorkerInfo[]>;
  unclaimedWork(): Promise<readonly UnclaimedWorkInfo[]>;
  series(call: SeriesCall): Promise<readonly SeriesMinute[]>;

  /** Rejects all waits with `CLOSED`; releases connections once `lastCalls` has settled. */
  close(lastCalls: Promise<void>): Promise<void>;
}
