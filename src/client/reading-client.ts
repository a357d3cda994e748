import {
  readCountArguments,
  type CountOptions,
  type DefinitionInfo,
} from './reading/instance-counts.ts';
import type { InstanceCount } from '../providers/contract/instances.ts';
import type { InstanceTree } from '../management/instance-tree.ts';
import { checkInstanceId } from '../model/values/names.ts';
import type { PausedDefinition } from '../providers/contract/pausing.ts';
import type { QueueDepths, SystemMetrics } from '../providers/contract/management.ts';
import type { ClientBackend } from './client-backend.ts';
import {
  readExecutionId,
  readExecutionListOptions,
  readHistoryOptions,
  type ExecutionListOptions,
  type ExecutionPage,
  type ExportedHistory,
  type HistoryOptions,
  type HistoryPage,
} from './reading/history.ts';
import type { Attention } from './explaining/attention.ts';
import type { ExplainedInstance } from './explaining/explain-instances.ts';
import type { PendingWork } from './reading/inspect-instance.ts';
import type { InstanceInfo, MeasuredInstance } from './reading/instance-info.ts';
import {
  readAuditQuery,
  readListArguments,
  type AuditPage,
  type AuditQuery,
  type InstanceListPage,
  type InstancePage,
  type ListFilter,
} from './reading/instance-list.ts';
import type { DefinitionQueueInfo } from './reading/queues.ts';
import { readSeriesQuery, type SeriesMinute, type SeriesQuery } from './reading/series.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from './reading/workers.ts';
import type { Why } from './explaining/why.ts';
import { readTreeOptions, type TreeOptions, type TreePage } from './reading/instance-tree-page.ts';
import {
  readTimelineOptions,
  readWholeTimeline,
  type Timeline,
  type TimelineOptions,
} from './reading/timeline.ts';
import { readWatchedIds } from './watching/watched-ids.ts';

/** The reads of a client, for applications and operators. */
export abstract class ReadingClient {
  readonly #backend: ClientBackend;

  constructor(backend: ClientBackend) {
    this.#backend = backend;
  }

  /** Throws if the client is closed or must not be used here. */
  protected abstract assertOpen(): void;

  /** Reads an instance with its input and pending work; `undefined` for an unknown id. */
  async get(id: string): Promise<InstanceInfo | undefined> {
    this.assertOpen();
    return this.#backend.get(checkInstanceId(id));
  }

  /** Lists the work of an instance that runs, is queued or waits for its next attempt (the first 1,000 entries). */
  async running(id: string): Promise<readonly PendingWork[]> {
    this.assertOpen();
    return this.#backend.running(checkInstanceId(id));
  }

  /**
   * Explains the state of an instance from the store alone: what it waits for, why it is blocked, or how it ended. Needs
   * no worker. Rejects with `INSTANCE_NOT_FOUND` for an unknown id.
   */
  async why(id: string): Promise<Why> {
    this.assertOpen();
    return this.#backend.why(checkInstanceId(id));
  }

  /**
   * Explains up to 200 instances in one short sentence each, for the rows of a list. Children are not read. Unknown ids
   * are left out.
   */
  async explain(ids: readonly string[]): Promise<readonly ExplainedInstance[]> {
    this.assertOpen();
    return this.#backend.explain(readWatchedIds(ids));
  }

  /** Lists instances, newest first, one page at a time; outputs and custom statuses only with `payloads: true`. */
  async list(filter?: ListFilter, page?: InstanceListPage): Promise<InstancePage> {
    this.assertOpen();
    return this.#backend.list(readListArguments(filter, page, this.#backend.clock.now()));
  }

  /** Counts instances up to `cap`. If `capped` is set, the count is a lower bound. */
  async count(filter?: ListFilter, options?: CountOptions): Promise<InstanceCount> {
    this.assertOpen();
    return this.#backend.count(readCountArguments(filter, options, this.#backend.clock.now()));
  }

  /** Lists the orchestrations, tasks and flows that have instances, by name, with counts by status. */
  async definitions(): Promise<readonly DefinitionInfo[]> {
    this.assertOpen();
    return this.#backend.definitions();
  }

  /** Reads a page of an execution's history, for inspection. */
  async history(id: string, options?: HistoryOptions): Promise<HistoryPage> {
    this.assertOpen();
    return this.#backend.history(checkInstanceId(id), readHistoryOptions(options));
  }

  /**
   * Reads the operations of an execution with start, end, attempts and outcome, without payloads. Reads up to `limit`
   * events, by default 50,000.
   */
  async timeline(id: string, options?: TimelineOptions): Promise<Timeline> {
    this.assertOpen();
    return readWholeTimeline(
      this.#backend.views,
      checkInstanceId(id),
      readTimelineOptions(options),
    );
  }

  /** Lists the executions of an instance, oldest first, one page at a time. */
  async listExecutions(id: string, options?: ExecutionListOptions): Promise<ExecutionPage> {
    this.assertOpen();
    const call = readExecutionListOptions(options);
    return this.#backend.listExecutions(checkInstanceId(id), call);
  }

  /** Exports a whole execution, by default the current one, as plain JSON to replay code against. */
  async exportHistory(id: string, executionId?: number): Promise<ExportedHistory> {
    this.assertOpen();
    return this.#backend.exportHistory(checkInstanceId(id), readExecutionId(executionId));
  }

  /** Reads an instance with its size in the store. Rejects with `INSTANCE_NOT_FOUND` for an unknown id. */
  async getInstanceInfo(id: string): Promise<MeasuredInstance> {
    this.assertOpen();
    return this.#backend.measure(checkInstanceId(id));
  }

  /** Reads the ids of an instance and all its descendants. */
  async getInstanceTree(id: string): Promise<InstanceTree> {
    this.assertOpen();
    return this.#backend.tree(checkInstanceId(id));
  }

  /** Reads an instance and its descendants with names, states and times, depth first, one page at a time. */
  async tree(id: string, options?: TreeOptions): Promise<TreePage> {
    this.assertOpen();
    return this.#backend.views.tree(checkInstanceId(id), readTreeOptions(options));
  }

  /**
   * Lists operator actions, newest first, one page at a time: who, when, why and how much. The audit keeps the newest
   * 10,000 records. It names no deleted instance.
   */
  async listAudit(query?: AuditQuery): Promise<AuditPage> {
    this.assertOpen();
    return this.#backend.listAudit(readAuditQuery(query));
  }

  /** Counts queued work and returns the age of the oldest entries. */
  async queueDepths(): Promise<QueueDepths> {
    this.assertOpen();
    return this.#backend.queueDepths();
  }

  /**
   * Lists the queues of definitions, at most 1,000: waiting, delayed, running and paused work, the age of the oldest
   * entry, and the number of live workers. Numbers are counted up to 10,000. The longest waiting is first.
   */
  async queues(): Promise<readonly DefinitionQueueInfo[]> {
    this.assertOpen();
    return this.#backend.queues();
  }

  /**
   * Returns what needs attention: blocked instances, failures of the last hour, work that no live worker can run, leaked
   * handlers, lost workers, late schedules, old queues and paused definitions. Each has a count and up to 5 examples.
   */
  async attention(): Promise<Attention> {
    this.assertOpen();
    return this.#backend.attention();
  }

  /** Counts the instances by status, and the bytes of the store. */
  async systemMetrics(): Promise<SystemMetrics> {
    this.assertOpen();
    return this.#backend.systemMetrics();
  }

  /**
   * Lists the workers of the store with their definitions, slots and status. Live workers are first; at most 1,000.
   * The store's clock decides which are live. A worker that died is listed as stale for a day.
   */
  async workers(): Promise<readonly WorkerInfo[]> {
    this.assertOpen();
    return this.#backend.workers();
  }

  /**
   * Lists the definitions with work that has been due for 10 s and that no live worker can run. The longest waiting is
   * first; at most 100.
   */
  async unclaimedWork(): Promise<readonly UnclaimedWorkInfo[]> {
    this.assertOpen();
    return this.#backend.unclaimedWork();
  }

  /**
   * Returns the counts of each minute, oldest first: starts, ends by status, durations, and sampled queue depths.
   *
   * Workers count in memory and write once a minute, so the last minute may be incomplete. Minutes without counts are
   * left out. The store keeps 7 days.
   */
  async series(query?: SeriesQuery): Promise<readonly SeriesMinute[]> {
    this.assertOpen();
    return this.#backend.series(readSeriesQuery(query, this.#backend.clock.now()));
  }

  /** Lists the paused definitions by kind and name. */
  async pausedDefinitions(): Promise<readonly PausedDefinition[]> {
    this.assertOpen();
    return this.#backend.pauses.listDefinitions();
  }
}
