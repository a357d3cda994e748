import { AttachedWork } from '../jobs/attached-work.ts';
import type { JobBackend } from '../jobs/backend.ts';
import type { Session } from '../jobs/session.ts';
import type { OpenSessionOptions } from '../jobs/session-options.ts';
import type { Sessions } from '../jobs/sessions.ts';
import type { Submitter } from '../jobs/submit.ts';
import {
  deleteInstanceBulk,
  deleteInstance,
  type BulkDeleteOptions,
  type DeleteOptions,
} from '../management/delete-instance.ts';
import type { InstanceFilter } from '../management/instance-filter.ts';
import { readInstanceTree, type InstanceTree } from '../management/instance-tree.ts';
import {
  pruneExecutionsBulk,
  pruneExecutions,
  type BulkPruneOptions,
  type PruneOptions,
} from '../management/prune-executions.ts';
import { RetentionControl } from '../management/retention-control.ts';
import type { Clock } from '../model/clock.ts';
import type { EventToken, OrchestrationRef, TaskRef } from '../model/definition.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { isPerdureError, PerdureError, notFound } from '../model/failures/errors.ts';
import { encodeMessage } from '../model/message.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { defaultPayloadLimitBytes, encodePayload } from '../model/values/payload.ts';
import { checkPriority, readFields } from '../model/option-fields.ts';
import { validateEvent } from '../model/values/validate-input.ts';
import type {
  DeleteInstanceResult,
  PruneResult,
  QueueDepths,
  SystemMetrics,
} from '../providers/contract/management.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { ApplicationTransaction } from './application-transaction.ts';
import { listAudit, type AuditPage } from './reading/audit-list.ts';
import type { EventArguments, RunFlowOptions, StartArguments, StartOptions } from './call-types.ts';
import { CompletionWaiter } from './waiting/completion-waiter.ts';
import {
  listExecutions,
  type ExecutionListOptions,
  type ExecutionPage,
} from './reading/execution-list.ts';
import { notAFlow, type StartableFlow } from './starting/startable-flow.ts';
import { Handle, type InstanceAccess, type WaitOptions } from './handle.ts';
import {
  exportHistory,
  readHistoryPage,
  type ExportedHistory,
  type HistoryOptions,
  type HistoryPage,
} from './reading/history.ts';
import { clientClosed, refusedEvent } from './waiting/instance-errors.ts';
import { describeWait } from './reading/describe-wait.ts';
import { inspectInstance, listPendingWork } from './reading/inspect-instance.ts';
import type { PendingWork } from './reading/pending-work.ts';
import {
  toInstanceInfo,
  type InstanceInfo,
  type MeasuredInstance,
} from './reading/instance-info.ts';
import {
  listInstances,
  type InstancePage,
  type InstanceListPage,
  type ListFilter,
  type ListPage,
} from './reading/instance-list.ts';
import { takeResult } from './waiting/instance-result.ts';
import {
  readFlag,
  requestCancel,
  terminate,
  type CancelOptions,
  type TerminateOptions,
} from './managing/stopping.ts';
import { LocalJobs } from './jobs/local-jobs.ts';
import { Schedules } from './managing/schedules.ts';
import { Starts, type InstanceStarter } from './starting/starts.ts';
import { readEvent } from './starting/start-request.ts';
import { TaskHandle } from './starting/task-handle.ts';
import type { RunTaskOptions } from './starting/task-request.ts';
import {
  TaskRuns,
  type RunTaskArguments,
  type TaskHandles,
  type TaskRequest,
} from './starting/task-runs.ts';
import { providerWithin, type TransactionClient } from './transaction-client.ts';

export interface ClientOptions {
  readonly provider: Provider;
  readonly clock: Clock;
  /** The largest input and event payload, in bytes of JSON. Default 2 MiB. */
  readonly payloadLimitBytes?: number | undefined;
  /** How many events may wait for one instance to take its next turn. Default 2,000. */
  readonly maxPendingEvents?: number | undefined;
  /** How often waits look when no hint comes, in milliseconds. Default 1,000. */
  readonly recheckMs?: number | undefined;
  /** Throws where a client must not be used: inside an orchestration, which would do it again in every replay. */
  readonly guard?: (() => void) | undefined;
  /** Lets a worker in this process create instances together with their first turn. */
  readonly starter?: (() => InstanceStarter | undefined) | undefined;
  /** Tells the workers of this process that a schedule changed. */
  readonly onScheduleChanged?: (() => void) | undefined;
  /** Tells the workers of this process that a session was opened or is to end. */
  readonly onSessionChanged?: (() => void) | undefined;
}

/** The parts of a client that it is made of. */
export interface ClientInternals {
  readonly provider: Provider;
  readonly clock: Clock;
  readonly completions: CompletionWaiter;
  readonly payloadLimitBytes: number;
  /** Jobs and sessions, as a server offers them to others. */
  readonly jobs: JobBackend;
  /** Jobs and sessions that this client holds itself. */
  readonly attached: AttachedWork;
}

/** Starts instances, talks to them, and waits for them. It needs no worker in its process. */
export class Client implements Submitter {
  /** Sessions of this store, whoever opened them. */
  readonly sessions: Sessions;
  /**
   * Submits a run that is attached to this client, in a session of its own: closing the job, or the client, before the
   * result was taken cancels it. There is nothing to wait for; a refusal is told by `result()`.
   */
  readonly submit: Submitter['submit'];
  /** What the workers of this store delete by themselves. */
  readonly retention: RetentionControl;
  /** What is started at given times. */
  readonly schedules: Schedules;
  readonly #options: ClientOptions;
  readonly #provider: Provider;
  readonly #clock: Clock;
  readonly #payloadLimitBytes: number;
  readonly #maxPendingEvents: number;
  readonly #guard: () => void;
  readonly #completions: CompletionWaiter;
  readonly #access: InstanceAccess;
  readonly #starts: Starts;
  readonly #tasks: TaskRuns;
  readonly #jobs: JobBackend;
  readonly #attached: AttachedWork;
  #closed = false;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#provider = options.provider;
    this.#clock = options.clock;
    this.#payloadLimitBytes = checkCount(
      'payloadLimitBytes',
      options.payloadLimitBytes ?? defaultPayloadLimitBytes,
    );
    this.#maxPendingEvents = checkCount('maxPendingEvents', options.maxPendingEvents ?? 2_000);
    this.#guard = options.guard ?? (() => undefined);
    const describe = (id: string) => describeWait(this, id, options.clock.now());
    this.#completions = new CompletionWaiter({ ...options, describeWait: describe });
    this.#access = {
      result: (id, waitOptions) => this.#result(id, waitOptions),
      status: (id) => this.#status(id),
      raise: (id, event, payload) => this.#raise(id, event, payload),
      cancel: (id, cancelOptions) => this.cancel(id, cancelOptions),
      terminate: (id, terminateOptions) => this.terminate(id, terminateOptions),
      delete: (id, deleteOptions) => this.deleteInstance(id, deleteOptions),
    };
    this.retention = new RetentionControl(options.provider, options.clock, () =>
      this.#assertOpen(),
    );
    const { births } = this.#completions;
    const payloadLimitBytes = this.#payloadLimitBytes;
    this.#starts = new Starts({ ...options, payloadLimitBytes, births });
    this.#tasks = new TaskRuns({ ...options, payloadLimitBytes, access: this.#access, births });
    this.#jobs = new LocalJobs({ ...options, completions: this.#completions });
    this.#attached = new AttachedWork({
      backend: this.#jobs,
      payloadLimitBytes: this.#payloadLimitBytes,
      assertOpen: () => this.#assertOpen(),
    });
    this.sessions = this.#attached.sessions;
    this.submit = (definition: unknown, ...args: readonly unknown[]) =>
      this.#attached.submit(definition, ...args);
    this.schedules = new Schedules({
      ...options,
      payloadLimitBytes: this.#payloadLimitBytes,
      assertOpen: () => this.#assertOpen(),
      onChanged: options.onScheduleChanged ?? (() => undefined),
    });
  }

  /** What a server needs of the client that it stands for; not for applications. */
  static internals(client: Client): ClientInternals {
    return {
      provider: client.#provider,
      clock: client.#clock,
      completions: client.#completions,
      payloadLimitBytes: client.#payloadLimitBytes,
      jobs: client.#jobs,
      attached: client.#attached,
    };
  }

  /** Opens a session: a group of jobs that is ended together, gracefully or forcefully, and at the latest with its client. */
  async openSession(options?: OpenSessionOptions): Promise<Session> {
    this.#assertOpen();
    return this.#attached.openSession(options);
  }

  /**
   * Starts an instance. With an `id` the same start may be made any number of times: the first creates the
   * instance, the others find it; the same id with another orchestration or input is `INSTANCE_ALREADY_EXISTS`.
   */
  start<Input, Output>(
    definition: OrchestrationRef<Input, Output>,
    ...args: StartArguments<Input>
  ): Promise<Handle<Output>>;
  start(name: string, input?: unknown, options?: StartOptions): Promise<Handle>;
  async start(
    definition: OrchestrationRef | string,
    input?: unknown,
    options?: StartOptions,
  ): Promise<Handle> {
    this.#assertOpen();
    const instanceId = await this.#starts.start(definition, input, options);
    return new Handle(instanceId, this.#access);
  }

  /**
   * Runs a task. With an `id` the same request may be made any number of times: the first creates the run, the others
   * find it. With a `dedupeKey` an active run of the task that has the key is found instead.
   */
  runTask<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: RunTaskArguments<Input>
  ): Promise<TaskHandle<Output>>;
  runTask(task: string, input?: unknown, options?: RunTaskOptions): Promise<TaskHandle>;
  async runTask(
    task: TaskRef | string,
    input?: unknown,
    options?: RunTaskOptions,
  ): Promise<TaskHandle> {
    this.#assertOpen();
    return this.#tasks.run(task, input, options);
  }

  /**
   * Runs many tasks at the cost of few transactions. All requests are checked before the first run is created; where
   * an id then turns out to be taken, the error of the first such request is thrown and the other runs exist.
   */
  async runTasks<const Tasks extends readonly (TaskRef | string)[]>(requests: {
    readonly [Index in keyof Tasks]: TaskRequest<Tasks[Index]>;
  }): Promise<TaskHandles<Tasks>> {
    this.#assertOpen();
    return (await this.#tasks.runAll(requests)) as unknown as TaskHandles<Tasks>;
  }

  /** Starts a run of a flow; the same `id` may be used again as in `start`. */
  async runFlow<Input, Output>(
    flow: StartableFlow<Input, Output>,
    ...[input, options]: StartArguments<Input, RunFlowOptions>
  ): Promise<Handle<Output>> {
    this.#assertOpen();
    if (options?.priority !== undefined) checkPriority(options.priority);
    if (typeof (flow as Partial<StartableFlow> | null)?.start !== 'function') throw notAFlow();
    return (await flow.start(this, input as Input, options)) as Handle<Output>;
  }

  /** Names an instance that may have been started elsewhere; nothing is read until the handle is asked. */
  handle<Output = unknown>(id: string): Handle<Output>;
  handle<Input, Output>(
    definition: OrchestrationRef<Input, Output> | TaskRef<Input, Output>,
    id: string,
  ): Handle<Output>;
  handle(definitionOrId: OrchestrationRef | TaskRef | string, id?: string): Handle {
    return new Handle(checkInstanceId(id ?? definitionOrId), this.#access);
  }

  /** Sends an external event to an instance, where it waits until the code asks for it. */
  raiseEvent<Value>(
    id: string,
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(id: string, name: string, payload?: unknown): Promise<void>;
  raiseEvent(id: string, event: EventToken | string, payload?: unknown): Promise<void> {
    return this.#raise(id, event, payload);
  }

  /**
   * Asks an instance to stop, durably and at once: nothing of it starts after this resolves. It is `canceling` until
   * its code has cleaned up and its handlers have stopped, then `canceled`. Never throws for one that is over or unknown.
   */
  async cancel(id: string, options?: CancelOptions): Promise<StopResult> {
    this.#assertOpen();
    const waits = readFlag('wait', options?.wait);
    const result = await requestCancel(this.#provider, id, options);
    if (!result.found || !waits) return result;
    try {
      const { status } = await this.#completions.wait(id, undefined);
      return { ...result, status };
    } catch (error) {
      // Deleted meanwhile: it has stopped, and there is nothing left to tell of it.
      if (isPerdureError(error, 'INSTANCE_NOT_FOUND')) return { ...result, status: null };
      throw error;
    }
  }

  /** Ends an instance at once, without running its code. Never throws for one that is over or unknown. */
  async terminate(id: string, options?: TerminateOptions): Promise<StopResult> {
    this.#assertOpen();
    return terminate(this.#provider, id, options);
  }

  /** Reads what is known of an instance, with its input and pending work; `undefined` for an unknown id. */
  async get(id: string): Promise<InstanceInfo | undefined> {
    this.#assertOpen();
    return inspectInstance(this.#provider, checkInstanceId(id));
  }

  /** Lists the work of an instance that runs, waits for its next attempt or is queued (the first 1,000). */
  async running(id: string): Promise<readonly PendingWork[]> {
    this.#assertOpen();
    return listPendingWork(this.#provider, checkInstanceId(id));
  }

  /** Waits until an instance is over, however it ends. */
  async wait(id: string, options?: WaitOptions): Promise<InstanceInfo> {
    const timeoutMs = this.#readTimeout(options);
    return toInstanceInfo(await this.#completions.wait(checkInstanceId(id), timeoutMs));
  }

  /** Lists instances, newest first, one page at a time; outputs and custom statuses only with `payloads: true`. */
  async list(filter?: ListFilter, page?: InstanceListPage): Promise<InstancePage> {
    this.#assertOpen();
    return listInstances(this.#provider, filter, page);
  }

  /** Reads a page of an execution's history, for inspection. */
  async history(id: string, options?: HistoryOptions): Promise<HistoryPage> {
    this.#assertOpen();
    return readHistoryPage(this.#provider, checkInstanceId(id), options);
  }

  /** Lists the executions of an instance, oldest first, one page at a time. */
  async listExecutions(id: string, options?: ExecutionListOptions): Promise<ExecutionPage> {
    this.#assertOpen();
    return listExecutions(this.#provider, checkInstanceId(id), options);
  }

  /** Exports a whole execution (by default the current one) as plain JSON, to replay code against. */
  async exportHistory(id: string, executionId?: number): Promise<ExportedHistory> {
    this.#assertOpen();
    return exportHistory(this.#provider, checkInstanceId(id), executionId);
  }

  /**
   * Writes as a part of a transaction of your own, on a client of `pg` or of drizzle or kysely: starts, runs tasks and
   * flows, signals and cancels together with your own writes, or not at all. PostgreSQL only.
   */
  withTransaction(transaction: ApplicationTransaction): TransactionClient {
    this.#assertOpen();
    const provider = providerWithin(this.#provider, transaction);
    // A first turn runs user code, which has no place in somebody's transaction.
    const inner = new Client({ ...this.#options, provider, starter: undefined });
    // Handles must outlive the transaction.
    const outlive = ({ id, created }: TaskHandle) => new TaskHandle(id, created, this.#access);
    return {
      start: async (definition: OrchestrationRef | string, ...args: unknown[]) =>
        this.handle((await inner.start(definition as string, ...args)).id),
      runTask: async (task: TaskRef | string, ...args: unknown[]) =>
        outlive(await inner.runTask(task as string, ...args)),
      runTasks: async (requests: readonly TaskRequest[]) =>
        (await inner.runTasks(requests)).map(outlive) as never,
      runFlow: async (flow: StartableFlow, ...args: StartArguments<unknown, RunFlowOptions>) =>
        this.handle((await inner.runFlow(flow, ...args)).id) as never,
      raiseEvent: (id: string, event: EventToken | string, payload?: unknown) =>
        inner.#raise(id, event, payload),
      cancel: (id, options) => requestCancel(provider, id, options),
    };
  }

  /** Reads an instance with what it holds in the store; rejects with `INSTANCE_NOT_FOUND` for an unknown id. */
  async getInstanceInfo(id: string): Promise<MeasuredInstance> {
    const info = await this.#status(id);
    const size = await this.#provider.measureInstance(info.id);
    if (size === undefined) throw notFound(id);
    return { ...info, size };
  }

  /** Reads which instances an instance has below it: its children, theirs, and so on. */
  async getInstanceTree(id: string): Promise<InstanceTree> {
    this.#assertOpen();
    const instanceId = checkInstanceId(id);
    const [record] = await this.#provider.getInstances([instanceId]);
    if (record === undefined) throw notFound(instanceId);
    return readInstanceTree(this.#provider, instanceId);
  }

  /**
   * Deletes a root that is over, with all its descendants, whole or not at all; the id is free at once. Rejects with
   * `INSTANCE_NOT_FOUND`, `CANNOT_DELETE_SUB_ORCHESTRATION` for a child, and, without `force`, `INSTANCE_STILL_RUNNING`.
   */
  async deleteInstance(id: string, options?: DeleteOptions): Promise<DeleteInstanceResult> {
    this.#assertOpen();
    return deleteInstance(this.#provider, id, options);
  }

  /**
   * Deletes all roots that are over and that a filter selects, each with its descendants, whole or not at all, in small
   * transactions. What runs is skipped, children are no roots, and the next call goes on with what is left.
   */
  async deleteInstanceBulk(
    filter?: InstanceFilter,
    options?: BulkDeleteOptions,
  ): Promise<DeleteInstanceResult> {
    this.#assertOpen();
    return deleteInstanceBulk(this.#provider, filter, options);
  }

  /** Deletes finished executions of an instance, over or not; the current one stays. */
  async pruneExecutions(id: string, options?: PruneOptions): Promise<PruneResult> {
    this.#assertOpen();
    return pruneExecutions(this.#provider, id, options);
  }

  /** Deletes finished executions of all instances that are over and that a filter selects, children included. */
  async pruneExecutionsBulk(
    filter?: InstanceFilter,
    options?: BulkPruneOptions,
  ): Promise<PruneResult> {
    this.#assertOpen();
    return pruneExecutionsBulk(this.#provider, filter, options);
  }

  /** Lists what was deleted and pruned: who, when, how much; never which. The newest first, one page at a time. */
  async listAudit(page?: ListPage): Promise<AuditPage> {
    this.#assertOpen();
    return listAudit(this.#provider, page);
  }

  /** Counts what waits in the queues, and since when. */
  async queueDepths(): Promise<QueueDepths> {
    this.#assertOpen();
    return this.#provider.queueDepths();
  }

  /** Counts what is in the store: instances by status, and bytes. */
  async systemMetrics(): Promise<SystemMetrics> {
    this.#assertOpen();
    return this.#provider.systemMetrics();
  }

  /**
   * Ends all waits with `CLOSED` and refuses further calls. Instances go on; sessions and jobs of this client, which
   * live by it, are told goodbye and cancelled. Resolves once that is stored; idempotent, never rejects.
   */
  async close(): Promise<void> {
    this.#closed = true;
    const leaving = this.#attached.close(clientClosed());
    this.#completions.close();
    await leaving;
  }

  async #raise(id: string, event: EventToken | string, value: unknown): Promise<void> {
    this.#assertOpen();
    const instanceId = checkInstanceId(id);
    const { name, schema } = readEvent(event);
    validateEvent(schema, value, name);
    const what = `The payload of event ${JSON.stringify(name)}`;
    // Stored as it was raised: the schema parses it where it is received.
    const payload = encodePayload(value, what, this.#payloadLimitBytes);
    const message = encodeMessage({ kind: 'eventRaised', name, payload });
    const maxPending = this.#maxPendingEvents;
    const [result] = await this.#provider.enqueueMessages([{ instanceId, message, maxPending }]);
    if (result !== 'enqueued') throw refusedEvent(instanceId, name, result);
  }

  async #status(id: string): Promise<InstanceInfo> {
    const info = await this.get(id);
    if (info === undefined) throw notFound(id);
    return info;
  }

  async #result(id: string, options?: WaitOptions): Promise<unknown> {
    const timeoutMs = this.#readTimeout(options);
    return takeResult(await this.#completions.waitForOutput(checkInstanceId(id), timeoutMs));
  }

  #readTimeout(options: WaitOptions | undefined): number | undefined {
    this.#guard();
    const { timeout } = readFields(options, 'options', ['timeout'] as const);
    return timeout === undefined ? undefined : toMs(timeout as Duration, 'timeout');
  }

  #assertOpen(): void {
    if (this.#closed) throw clientClosed();
    this.#guard();
  }
}

function checkCount(option: string, value: unknown): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  throw new PerdureError('INVALID_OPTION', `${option} must be a whole number of 1 or more.`);
}
