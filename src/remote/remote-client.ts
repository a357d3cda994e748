import type { AuditPage } from '../client/reading/audit-list.ts';
import type {
  EventArguments,
  RunFlowOptions,
  StartArguments,
  StartOptions,
} from '../client/call-types.ts';
import type { ClientSurface } from '../client/client-surface.ts';
import { describeWait } from '../client/reading/describe-wait.ts';
import type { ExecutionListOptions, ExecutionPage } from '../client/reading/execution-list.ts';
import { Handle, type InstanceAccess, type WaitOptions } from '../client/handle.ts';
import type { ExportedHistory, HistoryOptions, HistoryPage } from '../client/reading/history.ts';
import { clientClosed } from '../client/waiting/instance-errors.ts';
import type { InstanceInfo, MeasuredInstance } from '../client/reading/instance-info.ts';
import {
  readListParams,
  readPage,
  toCursor,
  type InstancePage,
  type InstanceListPage,
  type ListFilter,
  type ListPage,
} from '../client/reading/instance-list.ts';
import { notAFlow, type StartableFlow } from '../client/starting/startable-flow.ts';
import {
  readCancelOptions,
  readTerminate,
  type CancelOptions,
  type TerminateOptions,
} from '../client/managing/stopping.ts';
import type { TaskHandle } from '../client/starting/task-handle.ts';
import type { PendingWork } from '../client/reading/pending-work.ts';
import type { RunTaskOptions } from '../client/starting/task-request.ts';
import type { RunTaskArguments, TaskHandles, TaskRequest } from '../client/starting/task-runs.ts';
import { AttachedWork } from '../jobs/attached-work.ts';
import type { Session } from '../jobs/session.ts';
import type { OpenSessionOptions } from '../jobs/session-options.ts';
import type { Sessions } from '../jobs/sessions.ts';
import type { Submitter } from '../jobs/submit.ts';
import type { BulkDeleteOptions, DeleteOptions } from '../management/delete-instance.ts';
import type { InstanceFilter } from '../management/instance-filter.ts';
import type { InstanceTree } from '../management/instance-tree.ts';
import type { BulkPruneOptions, PruneOptions } from '../management/prune-executions.ts';
import { systemClock } from '../model/clock.ts';
import type { EventToken, OrchestrationRef, TaskRef } from '../model/definition.ts';
import { checkPriority, readFields } from '../model/option-fields.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { isPerdureError, PerdureError } from '../model/failures/errors.ts';
import { checkInstanceId } from '../model/values/names.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type {
  DeleteInstanceResult,
  PruneResult,
  QueueDepths,
  SystemMetrics,
} from '../providers/contract/management.ts';
import { CompletionPoll } from './completion-poll.ts';
import type { CheckedConnect } from './connect-options.ts';
import { HttpJobs } from './http-jobs.ts';
import type { Request } from './operations.ts';
import { PollSlots } from './poll-slots.ts';
import { RemoteDeletion } from './remote-deletion.ts';
import { resultOf } from './remote-result.ts';
import { RemoteRetention } from './remote-retention.ts';
import { RemoteSchedules } from './remote-schedules.ts';
import { RemoteStarts } from './remote-starts.ts';
import { Transport } from './transport.ts';

export interface RemoteClientOptions extends CheckedConnect {
  /** Throws where a client must not be used: inside an orchestration, which would do it again in every replay. */
  readonly guard?: (() => void) | undefined;
}

/** A client of a store that a server has open: the same calls, answers and errors as those of a local one. */
export class RemoteClient implements ClientSurface {
  /** Sessions of this store, whoever opened them. */
  readonly sessions: Sessions;
  /** Submits a run that is attached to this client: see `Client.submit`. */
  readonly submit: Submitter['submit'];
  /** What the workers of this store delete by themselves. */
  readonly retention: RemoteRetention;
  /** What is started at given times. */
  readonly schedules: RemoteSchedules;
  readonly #transport: Transport;
  readonly #guard: () => void;
  readonly #completions: CompletionPoll;
  readonly #access: InstanceAccess;
  readonly #starts: RemoteStarts;
  readonly #deletion: RemoteDeletion;
  readonly #attached: AttachedWork;
  #closed: Promise<void> | undefined;

  constructor(options: RemoteClientOptions) {
    const { payloadLimitBytes, guard = () => undefined } = options;
    const transport = new Transport(options);
    const slots = new PollSlots();
    const assertOpen = (): void => this.#assertOpen();
    this.#transport = transport;
    this.#guard = guard;
    this.#completions = new CompletionPoll(transport, slots, (id) =>
      describeWait(this, id, systemClock.now()),
    );
    this.#access = {
      result: (id, waitOptions) => this.#result(id, waitOptions),
      status: (id) => this.#status(id),
      raise: (id, event, payload) => this.#raise(id, event, payload),
      cancel: (id, cancelOptions) => this.cancel(id, cancelOptions),
      terminate: (id, terminateOptions) => this.terminate(id, terminateOptions),
      delete: (id, deleteOptions) => this.deleteInstance(id, deleteOptions),
    };
    this.#starts = new RemoteStarts({ transport, access: this.#access, payloadLimitBytes });
    this.#deletion = new RemoteDeletion(transport);
    const backend = new HttpJobs(transport, slots);
    this.#attached = new AttachedWork({ backend, payloadLimitBytes, assertOpen });
    this.sessions = this.#attached.sessions;
    this.submit = (definition: unknown, ...args: readonly unknown[]) =>
      this.#attached.submit(definition, ...args);
    this.retention = new RemoteRetention(transport, assertOpen);
    this.schedules = new RemoteSchedules({ transport, payloadLimitBytes, assertOpen });
  }

  /** Opens a session: see `Client.openSession`. */
  async openSession(options?: OpenSessionOptions): Promise<Session> {
    this.#assertOpen();
    return this.#attached.openSession(options);
  }

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
    return this.#starts.start(definition, input, options);
  }

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
    return this.#starts.runTask(task, input, options);
  }

  async runTasks<const Tasks extends readonly (TaskRef | string)[]>(requests: {
    readonly [Index in keyof Tasks]: TaskRequest<Tasks[Index]>;
  }): Promise<TaskHandles<Tasks>> {
    this.#assertOpen();
    return (await this.#starts.runTasks(requests)) as unknown as TaskHandles<Tasks>;
  }

  async runFlow<Input, Output>(
    flow: StartableFlow<Input, Output>,
    ...[input, options]: StartArguments<Input, RunFlowOptions>
  ): Promise<Handle<Output>> {
    this.#assertOpen();
    if (options?.priority !== undefined) checkPriority(options.priority);
    if (typeof (flow as Partial<StartableFlow> | null)?.start !== 'function') throw notAFlow();
    return (await flow.start(this, input as Input, options)) as Handle<Output>;
  }

  handle<Output = unknown>(id: string): Handle<Output>;
  handle<Input, Output>(
    definition: OrchestrationRef<Input, Output> | TaskRef<Input, Output>,
    id: string,
  ): Handle<Output>;
  handle(definitionOrId: OrchestrationRef | TaskRef | string, id?: string): Handle {
    return new Handle(checkInstanceId(id ?? definitionOrId), this.#access);
  }

  /** Sends an external event. When its answer is lost it rejects: it may have been raised, and is not raised twice. */
  raiseEvent<Value>(
    id: string,
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(id: string, name: string, payload?: unknown): Promise<void>;
  raiseEvent(id: string, event: EventToken | string, payload?: unknown): Promise<void> {
    return this.#raise(id, event, payload);
  }

  async cancel(id: string, options?: CancelOptions): Promise<StopResult> {
    const params = this.#params(id);
    const { reason, actor, cleanupMs, wait } = readCancelOptions(options);
    const body = { reason, actor: actor ?? undefined, cleanupTimeout: cleanupMs };
    const again = { repeatable: true };
    const result = await this.#transport.call('cancelInstance', { params, body }, again);
    if (!result.found || !wait) return result;
    try {
      const { status } = await this.#completions.wait(id);
      return { ...result, status };
    } catch (error) {
      // Deleted meanwhile: it has stopped, and there is nothing left to tell of it.
      if (isPerdureError(error, 'INSTANCE_NOT_FOUND')) return { ...result, status: null };
      throw error;
    }
  }

  async terminate(id: string, options?: TerminateOptions): Promise<StopResult> {
    const params = this.#params(id);
    const { reason, actor, tree } = readTerminate(id, options);
    const body = { reason, actor: actor ?? undefined, tree };
    return this.#transport.call('terminateInstance', { params, body }, { repeatable: true });
  }

  async get(id: string): Promise<InstanceInfo | undefined> {
    try {
      return await this.#status(id);
    } catch (error) {
      if (isPerdureError(error, 'INSTANCE_NOT_FOUND')) return undefined;
      throw error;
    }
  }

  async running(id: string): Promise<readonly PendingWork[]> {
    return (await this.#transport.call('listRunning', { params: this.#params(id) })).items;
  }

  /** Waits until an instance is over, however it ends; also while the server cannot be reached. */
  async wait(id: string, options?: WaitOptions): Promise<InstanceInfo> {
    const params = this.#params(id);
    return this.#completions.wait(params.id, this.#readTimeout(options));
  }

  async list(filter?: ListFilter, page?: InstanceListPage): Promise<InstancePage> {
    this.#assertOpen();
    const { filter: conditions, limit, beforeKey, payloads } = readListParams(filter, page);
    const { status, parentInstanceId, version: _version, ...others } = conditions;
    const query = {
      ...others,
      limit,
      ...(payloads && { payloads }),
      ...(filter?.kind !== undefined && { kind: filter.kind }),
      ...(status !== undefined && { status: [...status] }),
      ...(parentInstanceId !== undefined && { parentId: parentInstanceId }),
      ...(beforeKey !== undefined && { cursor: toCursor(beforeKey) }),
    };
    return this.#transport.call('listInstances', { query });
  }

  async history(id: string, options?: HistoryOptions): Promise<HistoryPage> {
    const params = this.#params(id);
    const query = readFields(options, 'options', ['executionId', 'after', 'limit'] as const);
    const request = { params, query } as Request<'getHistory'>;
    return this.#transport.call('getHistory', request);
  }

  async listExecutions(id: string, options?: ExecutionListOptions): Promise<ExecutionPage> {
    const params = this.#params(id);
    const query = readFields(options, 'options', ['after', 'limit'] as const);
    const request = { params, query } as Request<'listExecutions'>;
    return this.#transport.call('listExecutions', request);
  }

  async exportHistory(id: string, executionId?: number): Promise<ExportedHistory> {
    const params = this.#params(id);
    return this.#transport.call('exportHistory', { params, query: { executionId } });
  }

  /** Always throws: a transaction of yours is on a connection that the server does not have. */
  withTransaction(): never {
    this.#assertOpen();
    throw new PerdureError(
      'INVALID_INPUT',
      'A remote client cannot take part in a transaction of yours. Open the PostgreSQL itself with Perdure.open().',
    );
  }

  async getInstanceInfo(id: string): Promise<MeasuredInstance> {
    return this.#transport.call('measureInstance', { params: this.#params(id) });
  }

  async getInstanceTree(id: string): Promise<InstanceTree> {
    return this.#transport.call('getInstanceTree', { params: this.#params(id) });
  }

  async deleteInstance(id: string, options?: DeleteOptions): Promise<DeleteInstanceResult> {
    this.#assertOpen();
    return this.#deletion.deleteInstance(id, options);
  }

  async deleteInstanceBulk(
    filter?: InstanceFilter,
    options?: BulkDeleteOptions,
  ): Promise<DeleteInstanceResult> {
    this.#assertOpen();
    return this.#deletion.deleteInstanceBulk(filter, options);
  }

  async pruneExecutions(id: string, options?: PruneOptions): Promise<PruneResult> {
    this.#assertOpen();
    return this.#deletion.pruneExecutions(id, options);
  }

  async pruneExecutionsBulk(
    filter?: InstanceFilter,
    options?: BulkPruneOptions,
  ): Promise<PruneResult> {
    this.#assertOpen();
    return this.#deletion.pruneExecutionsBulk(filter, options);
  }

  async listAudit(page?: ListPage): Promise<AuditPage> {
    this.#assertOpen();
    const { limit, beforeKey } = readPage(page);
    const query = { limit, ...(beforeKey !== undefined && { cursor: toCursor(beforeKey) }) };
    return this.#transport.call('listAudit', { query });
  }

  async queueDepths(): Promise<QueueDepths> {
    this.#assertOpen();
    return this.#transport.call('queueDepths', {});
  }

  async systemMetrics(): Promise<SystemMetrics> {
    this.#assertOpen();
    return this.#transport.call('systemMetrics', {});
  }

  /** Says goodbye to sessions, ends all waits with `CLOSED` and refuses further calls. Idempotent, never rejects. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    const leaving = this.#attached.close(clientClosed());
    this.#completions.close(clientClosed());
    await leaving;
    this.#transport.close();
  }

  async #raise(id: string, event: EventToken | string, value: unknown): Promise<void> {
    this.#assertOpen();
    await this.#starts.raise(id, event, value);
  }

  async #status(id: string): Promise<InstanceInfo> {
    return this.#transport.call('getInstance', { params: this.#params(id) });
  }

  async #result(id: string, options?: WaitOptions): Promise<unknown> {
    return resultOf(await this.wait(id, options));
  }

  #params(id: unknown): { readonly id: string } {
    this.#assertOpen();
    return { id: checkInstanceId(id) };
  }

  #readTimeout(options: WaitOptions | undefined): number | undefined {
    const { timeout } = readFields(options, 'options', ['timeout'] as const);
    return timeout === undefined ? undefined : toMs(timeout as Duration, 'timeout');
  }

  #assertOpen(): void {
    if (this.#closed !== undefined) throw clientClosed();
    this.#guard();
  }
}
