import { AttachedWork } from '../jobs/attached-work.ts';
import type { Submitter } from '../jobs/job-request.ts';
import type { OpenSessionOptions } from '../jobs/session-info.ts';
import type { Session, Sessions } from '../jobs/sessions.ts';
import type { BulkDeleteOptions, DeleteOptions } from '../management/delete-instance.ts';
import type { InstanceFilter } from '../management/instance-filter.ts';
import type { BulkPruneOptions, PruneOptions } from '../management/prune-executions.ts';
import type { RetryInfo } from '../management/rerun.ts';
import type { RetentionControl } from '../management/retention-control.ts';
import type { EventToken, OrchestrationRef, TaskRef, UpdateToken } from '../model/definition.ts';
import type { MiddlewareChain } from '../model/middleware.ts';
import type { TracedCall } from '../model/telemetry.ts';
import type { TraceContext } from '../model/trace-context.ts';
import { isPerdureError, notFound } from '../model/failures/errors.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { checkStateKey } from '../model/values/state.ts';
import { defaultPayloadLimitBytes } from '../model/values/payload.ts';
import { checkPriority, invalidOption, readFields } from '../model/option-fields.ts';
import { timeOrderedId } from '../model/values/random-id.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import { Limits } from './managing/limits.ts';
import {
  readPause,
  type PauseOptions,
  type PauseResult,
  type PauseTarget,
  type ResumeOptions,
} from './managing/pause-request.ts';
import type { DeleteInstanceResult, PruneResult } from '../providers/contract/management.ts';
import type { ClientBackend, StartCall, Surface, TaskCall, StartedRun } from './client-backend.ts';
import {
  Handle,
  readWaitOptions,
  StartedHandle,
  type InstanceAccess,
  type WaitOptions,
} from './handle.ts';
import {
  readFork,
  readRetry,
  type ForkOptions,
  type RetryOptions,
} from './managing/rerun-request.ts';
import { Bulk } from './managing/bulk.ts';
import { Schedules } from './managing/schedules.ts';
import { ReadingClient } from './reading-client.ts';
import {
  readCancelOptions,
  readTerminate,
  type CancelOptions,
  type TerminateOptions,
} from './managing/stop-request.ts';
import type { InstanceInfo } from './reading/instance-info.ts';
import {
  readStateWait,
  type CustomStatus,
  type StateEntry,
  type StateWaitOptions,
} from './reading/state.ts';
import {
  notAFlow,
  readEventCall,
  readStart,
  type EventArguments,
  type RaiseEventOptions,
  type StartableFlow,
  type StartArguments,
  type StartOptions,
} from './starting/start-request.ts';
import {
  readTaskRequests,
  readTaskRun,
  type RunTaskArguments,
  type RunTaskOptions,
  type TaskHandles,
  type TaskRequest,
} from './starting/task-request.ts';
import { traced, type CallPath, type CallTelemetry } from './starting/traced-call.ts';
import type { ApplicationTransaction, TransactionClient } from './transaction-client.ts';
import {
  readRejection,
  readResolution,
  readUpdate,
  type UpdateArguments,
  type UpdateOptions,
} from './updating/update-request.ts';
import { clientClosed } from './waiting/instance-errors.ts';
import {
  readWatchHistoryOptions,
  type WatchedEvent,
  type WatchHistoryOptions,
} from './watching/history-watch.ts';
import {
  readStreamOptions,
  type StreamEntry,
  type StreamOptions,
} from './watching/stream-reader.ts';
import { readWatchedIds, type InstanceChange } from './watching/watched-ids.ts';

export interface ClientParams {
  readonly backend: ClientBackend;
  readonly payloadLimitBytes?: number | undefined;
  /** Throws if a client must not be used: inside an orchestration, every replay would repeat the call. */
  readonly guard?: (() => void) | undefined;
  readonly telemetry?: CallTelemetry | undefined;
  readonly middleware?: MiddlewareChain | undefined;
}

/** The public members of a client, local or remote. */
export interface ClientSurface extends Omit<Client, 'schedules' | 'bulk' | 'limits'> {
  /** Acts on all instances that match a filter. */
  readonly bulk: Surface<Bulk>;
  /** Starts tasks, orchestrations and flows at given times. */
  readonly schedules: Surface<Schedules>;
  /** Reads and changes the limits of definitions. */
  readonly limits: Surface<Limits>;
}

/** Starts instances, sends them events and waits for them. `LocalClient` and `RemoteClient` differ in their backend. */
export abstract class Client extends ReadingClient implements Submitter {
  /** All sessions of this store, including those of other clients. */
  readonly sessions: Sessions;
  /**
   * Submits a run that is attached to this client, in a session of its own. Closing the job or the client before the
   * result was taken cancels the run. Returns without waiting; `result()` rejects if the store rejects the job.
   */
  readonly submit: Submitter['submit'];
  /** Reads, pauses and runs the deletion of old instances. */
  readonly retention: Surface<RetentionControl>;
  /** Starts tasks, orchestrations and flows at given times. */
  readonly schedules: Schedules;
  /** Acts on all instances that match a filter. */
  readonly bulk: Bulk;
  /** Reads and changes the limits of definitions. */
  readonly limits: Limits;
  protected readonly payloadLimitBytes: number;
  protected readonly attached: AttachedWork;
  readonly #backend: ClientBackend;
  readonly #guard: () => void;
  readonly #calls: CallPath;
  readonly #access: InstanceAccess;
  readonly #newId = (): string => timeOrderedId(this.#backend.clock.now());
  #closed: Promise<void> | undefined;

  constructor({
    backend,
    guard,
    telemetry,
    middleware,
    payloadLimitBytes = defaultPayloadLimitBytes,
  }: ClientParams) {
    super(backend);
    const assertOpen = () => this.assertOpen();
    this.#backend = backend;
    this.#guard = guard ?? (() => undefined);
    this.#calls = { telemetry, middleware };
    this.payloadLimitBytes = checkLimit(payloadLimitBytes);
    this.#access = {
      result: (id, options) => this.#result(id, options),
      status: (id) => this.#status(id),
      raise: (id, event, payload, options) => this.#raise(id, event, payload, options),
      state: (id, key) => this.#state(id, key),
      waitForState: (id, key, options) => this.waitForState(id, key, options),
      waitForStatus: (id, options) => this.waitForStatus(id, options),
      cancel: (id, options) => this.cancel(id, options),
      terminate: (id, options) => this.terminate(id, options),
      retry: (id, options) => this.retry(id, options),
      pause: (id, options) => this.pause(id, options),
      resume: (id, options) => this.resume(id, options),
      delete: (id, options) => this.deleteInstance(id, options),
      stream: (id, options) => this.stream(id, options),
    };
    this.attached = new AttachedWork({
      backend: backend.jobs,
      payloadLimitBytes,
      assertOpen,
      telemetry,
      middleware,
    });
    this.sessions = this.attached.sessions;
    this.submit = (definition: unknown, ...args: readonly unknown[]) =>
      this.attached.submit(definition, ...args);
    this.retention = backend.retention(assertOpen);
    this.bulk = new Bulk({
      backend: backend.bulk,
      clock: backend.clock,
      payloadLimitBytes,
      assertOpen,
    });
    this.limits = new Limits(backend.limits, assertOpen);
    this.schedules = new Schedules({
      backend: backend.schedules,
      payloadLimitBytes,
      calls: this.#calls,
      assertOpen,
    });
  }

  /**
   * Makes writes part of a transaction of the application, on a `pg` client or a drizzle or kysely transaction. They
   * commit or roll back together with it. Local clients of PostgreSQL only.
   */
  abstract withTransaction(transaction: ApplicationTransaction): TransactionClient;

  /** Opens a session: a group of jobs that end together, and at the latest with this client. */
  async openSession(options?: OpenSessionOptions): Promise<Session> {
    this.assertOpen();
    return this.attached.openSession(options);
  }

  /**
   * Starts an instance. Idempotent with an `id`: the first call creates the instance, the others find it. The same id
   * with another orchestration or input rejects with `INSTANCE_ALREADY_EXISTS`, unless `onConflict` says otherwise. With
   * an `event`, starts the instance with the event, or raises the event at the live instance with the id.
   */
  start<Input, Output, EventValue = unknown>(
    definition: OrchestrationRef<Input, Output>,
    ...args: StartArguments<Input, StartOptions<EventValue>>
  ): Promise<StartedHandle<Output>>;
  start(name: string, input?: unknown, options?: StartOptions): Promise<StartedHandle>;
  async start(
    definition: OrchestrationRef | string,
    input?: unknown,
    options?: StartOptions,
  ): Promise<StartedHandle> {
    this.assertOpen();
    const start: StartCall & { trace?: TraceContext | undefined } = await readStart(
      definition,
      input,
      options,
      {
        limitBytes: this.payloadLimitBytes,
        newId: this.#newId,
      },
    );
    const { name, id: instanceId } = start;
    const found = await traced(this.#calls, { kind: 'start', name, instanceId }, (trace) => {
      if (trace !== undefined) start.trace = trace;
      return this.#backend.start(start);
    });
    return this.startedHandle(found);
  }

  /**
   * Runs a task. Idempotent with an `id`: the first call creates the run, the others find it. With a `dedupeKey`, finds
   * an active run of the task that has the key.
   */
  runTask<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: RunTaskArguments<Input>
  ): Promise<StartedHandle<Output>>;
  runTask(task: string, input?: unknown, options?: RunTaskOptions): Promise<StartedHandle>;
  async runTask(
    task: TaskRef | string,
    input?: unknown,
    options?: RunTaskOptions,
  ): Promise<StartedHandle> {
    this.assertOpen();
    const call = await this.#taskCall({ task, input, options });
    const { name, id: instanceId } = call;
    const run = await traced(this.#calls, { kind: 'start', name, instanceId }, (trace) =>
      this.#backend.runTask({ ...call, trace }),
    );
    return this.startedHandle(run);
  }

  /**
   * Runs many tasks in few transactions. Checks all requests before it creates the first run. If an id is taken, rejects
   * with the error of the first such request; the other runs exist.
   */
  async runTasks<const Tasks extends readonly (TaskRef | string)[]>(requests: {
    readonly [Index in keyof Tasks]: TaskRequest<Tasks[Index]>;
  }): Promise<TaskHandles<Tasks>> {
    this.assertOpen();
    const calls: TaskCall[] = [];
    for (const request of readTaskRequests(requests)) {
      const call = this.#taskCall(request);
      calls.push(call instanceof Promise ? await call : call);
    }
    const runs = await traced(this.#calls, toBatchCall(calls), (trace) =>
      this.#backend.runTasks(
        trace === undefined ? calls : calls.map((call) => ({ ...call, trace })),
      ),
    );
    return runs.map((run) => this.startedHandle(run)) as unknown as TaskHandles<Tasks>;
  }

  /** Starts a run of a flow. Idempotent with an `id`, as `start` is. */
  async runFlow<Input, Output>(
    flow: StartableFlow<Input, Output>,
    ...[input, options]: StartArguments<Input>
  ): Promise<Handle<Output>> {
    this.assertOpen();
    if (options?.priority !== undefined) checkPriority(options.priority);
    if (typeof (flow as Partial<StartableFlow> | null)?.start !== 'function') throw notAFlow();
    return (await flow.start(this, input as Input, options)) as Handle<Output>;
  }

  /** Returns a handle of an instance, which may have been started elsewhere. Reads nothing. */
  handle<Output = unknown>(id: string): Handle<Output>;
  handle<Input, Output>(
    definition: OrchestrationRef<Input, Output> | TaskRef<Input, Output>,
    id: string,
  ): Handle<Output>;
  handle(definitionOrId: OrchestrationRef | TaskRef | string, id?: string): Handle {
    return new Handle(checkInstanceId(id ?? definitionOrId), this.#access);
  }

  /**
   * Sends an external event to an instance, which buffers it until its code waits for it. With a `key`, a repeated call
   * raises one event. A remote client always sends a key, and repeats the call if the response is lost.
   */
  raiseEvent<Value>(
    id: string,
    event: EventToken<Value, unknown>,
    ...payload: EventArguments<Value>
  ): Promise<void>;
  raiseEvent(
    id: string,
    name: string,
    payload?: unknown,
    options?: RaiseEventOptions,
  ): Promise<void>;
  raiseEvent(
    id: string,
    event: EventToken | string,
    payload?: unknown,
    options?: RaiseEventOptions,
  ): Promise<void> {
    return this.#raise(id, event, payload, options);
  }

  /**
   * Sends an update to a running instance and waits for the reply of its handler. Rejects with `UPDATE_REJECTED`,
   * `UPDATE_FAILED`, `UNKNOWN_UPDATE` or `UPDATE_INTERRUPTED`, with `INSTANCE_OVER` if the instance has ended, and with
   * `TIMEOUT` if there is no reply in time. A repeat with the same `key` gets the same reply.
   */
  update<Input, Output>(
    id: string,
    update: UpdateToken<Input, Output, unknown>,
    ...args: UpdateArguments<Input>
  ): Promise<Output>;
  update(id: string, name: string, input?: unknown, options?: UpdateOptions): Promise<unknown>;
  async update(
    id: string,
    update: UpdateToken | string,
    input?: unknown,
    options?: UpdateOptions,
  ): Promise<unknown> {
    this.assertOpen();
    const { call, timeoutMs } = readUpdate({ id, update, input, options }, this.payloadLimitBytes);
    const { name } = call;
    return traced(this.#calls, { kind: 'update', name, instanceId: call.id }, (trace) =>
      this.#backend.updates.update({ ...call, trace }, timeoutMs),
    );
  }

  /**
   * Resolves the promise of an awakeable. The token is the only right that the caller needs. Rejects with `AWAKEABLE_ALREADY_ANSWERED`, or
   * with `AWAKEABLE_NOT_FOUND` for a wrong token, a withdrawn awakeable, and after the end of its execution.
   */
  async resolveAwakeable(token: string, value?: unknown): Promise<void> {
    this.assertOpen();
    const call = readResolution(token, value, this.payloadLimitBytes);
    await this.#backend.updates.answerAwakeable(call);
  }

  /** Rejects the promise of an awakeable with a text or an error: see `resolveAwakeable`. */
  async rejectAwakeable(token: string, reason?: string | Error): Promise<void> {
    this.assertOpen();
    await this.#backend.updates.answerAwakeable(readRejection(token, reason));
  }

  /**
   * Asks an instance to stop. The request is durable. The instance is `canceling` until its code has cleaned up and its
   * handlers have stopped, then `canceled`. Resolves with `found: false` for an unknown id.
   *
   * After this resolves, queued work does not start. Neither does claimed work of workers of this `Perdure` object.
   * Other processes may start claimed work until they are notified. Shielded work, work with `cancellation: 'abandon'`
   * and work past its point of no return still starts.
   */
  async cancel(id: string, options?: CancelOptions): Promise<StopResult> {
    this.assertOpen();
    const { wait, ...stop } = readCancelOptions(options);
    const instanceId = checkInstanceId(id);
    const result = await traced(this.#calls, { kind: 'cancel', instanceId }, () =>
      this.#backend.cancel({ instanceId, ...stop }),
    );
    if (!result.found || !wait) return result;
    try {
      const { status } = await this.#backend.wait(id, undefined);
      return { ...result, status };
    } catch (error) {
      // Deleted during the wait, so it has stopped.
      if (isPerdureError(error, 'INSTANCE_NOT_FOUND')) return { ...result, status: null };
      throw error;
    }
  }

  /** Ends an instance immediately, without running its code. Resolves with `found: false` for an unknown id. */
  async terminate(id: string, options?: TerminateOptions): Promise<StopResult> {
    this.assertOpen();
    return this.#backend.terminate(readTerminate(id, options));
  }

  /**
   * Runs a root again that failed, was canceled, was terminated or expired: starts its next execution under the same id.
   * The ended execution stays readable with `listExecutions` and `history`. Rejects with `INSTANCE_NOT_FOUND`,
   * `INSTANCE_STILL_RUNNING` or `INSTANCE_NOT_RETRYABLE`, and then changes nothing.
   */
  async retry(id: string, options: RetryOptions): Promise<RetryInfo> {
    this.assertOpen();
    return this.#backend.retry(readRetry(id, options, this.payloadLimitBytes));
  }

  /**
   * Creates an instance with a copy of the first events of a root, which may be live and does not change. The work that
   * the copied events wait for is scheduled again. Rejects with `INSTANCE_ALREADY_EXISTS` if the new id is taken.
   */
  async fork(id: string, options: ForkOptions): Promise<Handle> {
    this.assertOpen();
    const limitBytes = this.payloadLimitBytes;
    const generateId = this.#newId;
    const call = readFork(id, options, { limitBytes, generateId });
    await this.#backend.fork(call);
    return new Handle(call.newId, this.#access);
  }

  /**
   * Pauses an instance, or a definition by name for all workers. Durable and idempotent: the first reason is kept.
   *
   * After this resolves, no worker claims a turn, an activity or an attempt of it. A claim made before may still start its
   * handler. What runs ends and is recorded; timers fall due and events are kept until the resume. Cancel, terminate and
   * delete pass. Resolves with `found: false` for an unknown id, and `changed: false` for an instance that is paused,
   * canceling or has ended.
   */
  async pause(target: PauseTarget, options?: PauseOptions): Promise<PauseResult> {
    this.assertOpen();
    return this.#backend.pauses.pause(readPause(target, options, 'pause()'));
  }

  /** Resumes a paused instance or definition. Workers claim what is due immediately. */
  async resume(target: PauseTarget, options?: ResumeOptions): Promise<PauseResult> {
    this.assertOpen();
    return this.#backend.pauses.resume(readPause(target, options, 'resume()'));
  }

  /**
   * Reads the state of an instance from the store, without a worker: all keys in their order, or one key. Resolves with
   * `undefined` for a key without a value. Rejects with `INSTANCE_NOT_FOUND` for an unknown id.
   */
  state(id: string): Promise<readonly StateEntry[]>;
  state<Value = unknown>(id: string, key: string): Promise<StateEntry<Value> | undefined>;
  state(id: string, key?: string): Promise<readonly StateEntry[] | StateEntry | undefined> {
    return this.#state(id, key);
  }

  /**
   * Waits for a value of a key with a version above `after`, and resolves with the newest one. Rejects with
   * `INSTANCE_OVER` if the instance has ended without one, with `INSTANCE_NOT_FOUND` and with `TIMEOUT`.
   */
  async waitForState<Value = unknown>(
    id: string,
    key: string,
    options?: StateWaitOptions,
  ): Promise<StateEntry<Value>> {
    this.assertOpen();
    const instanceId = checkInstanceId(id);
    const wait = readStateWait({ instanceId, key }, options, 'waitForState()');
    const found = await this.#backend.states.wait(wait.request, wait.timeoutMs);
    return { key, ...found } as StateEntry<Value>;
  }

  /**
   * Waits for a custom status with a version above `after`, and resolves with the newest one. Rejects as `waitForState`
   * does.
   */
  async waitForStatus<Value = unknown>(
    id: string,
    options?: StateWaitOptions,
  ): Promise<CustomStatus<Value>> {
    this.assertOpen();
    const instanceId = checkInstanceId(id);
    const wait = readStateWait({ instanceId }, options, 'waitForStatus()');
    const found = await this.#backend.states.wait(wait.request, wait.timeoutMs);
    return found as CustomStatus<Value>;
  }

  /** Waits until an instance has ended, in any status. A remote client also waits while the server is unreachable. */
  async wait(id: string, options?: WaitOptions): Promise<InstanceInfo> {
    this.assertOpen();
    const timeoutMs = readWaitOptions(options, 'wait()');
    return this.#backend.wait(checkInstanceId(id), timeoutMs);
  }

  /**
   * Follows the events of an instance as they are committed, across continue-as-new, until it has ended. Rejects with
   * `INSTANCE_NOT_FOUND` for an unknown id, and when the instance is deleted.
   */
  async *watchHistory(
    id: string,
    options?: WatchHistoryOptions,
  ): AsyncGenerator<WatchedEvent, void, undefined> {
    this.assertOpen();
    const { signal, ...call } = readWatchHistoryOptions(options);
    yield* this.#backend.views.watchHistory(checkInstanceId(id), call, signal);
  }

  /**
   * Reads the stream of a run: the chunks that its handlers and its orchestration emit with `ctx.emit`. Starts with the
   * oldest kept chunk, or after the cursor `after`. Ends when the run has ended and all chunks were read. Any number of
   * readers can read it. Rejects with `INSTANCE_NOT_FOUND`, with `CURSOR_UNKNOWN` for an `after` of another stream, and
   * with `STREAM_TAKEN` for a job.
   */
  async *stream<Chunk = unknown>(
    id: string,
    options?: StreamOptions,
  ): AsyncGenerator<StreamEntry<Chunk>, void, undefined> {
    this.assertOpen();
    const { signal, ...call } = readStreamOptions(options);
    const entries = this.#backend.views.stream(checkInstanceId(id), call, signal);
    yield* entries as AsyncGenerator<StreamEntry<Chunk>, void, undefined>;
  }

  /**
   * Follows up to 200 instances: yields the state of each, then each state that changed. Fast changes of one instance
   * are coalesced. Never ends by itself: leave the loop, or abort the signal.
   */
  async *watch(
    ids: readonly string[],
    options?: { readonly signal?: AbortSignal | undefined },
  ): AsyncGenerator<InstanceChange, void, undefined> {
    this.assertOpen();
    const { signal } = readWatchHistoryOptions(readFields(options, 'watch()', ['signal'] as const));
    for await (const batch of this.#backend.views.watch(readWatchedIds(ids), signal)) yield* batch;
  }

  /**
   * Deletes an ended root and all its descendants in one transaction; the id can be reused immediately. Rejects with
   * `INSTANCE_NOT_FOUND`, `CANNOT_DELETE_SUB_ORCHESTRATION` for a child, and, without `force`, `INSTANCE_STILL_RUNNING`.
   */
  async deleteInstance(id: string, options?: DeleteOptions): Promise<DeleteInstanceResult> {
    this.assertOpen();
    return this.#backend.deletion.deleteInstance(id, options);
  }

  /**
   * Deletes the ended roots that match a filter, with their descendants. Each tree is deleted in one transaction. Skips
   * trees with running instances; call again to continue after `limit`.
   */
  async deleteInstanceBulk(
    filter?: InstanceFilter,
    options?: BulkDeleteOptions,
  ): Promise<DeleteInstanceResult> {
    this.assertOpen();
    return this.#backend.deletion.deleteInstanceBulk(filter, options);
  }

  /** Deletes finished executions of an instance in any status; the current execution stays. */
  async pruneExecutions(id: string, options?: PruneOptions): Promise<PruneResult> {
    this.assertOpen();
    return this.#backend.deletion.pruneExecutions(id, options);
  }

  /** Deletes finished executions of all ended instances that match a filter, children included. */
  async pruneExecutionsBulk(
    filter?: InstanceFilter,
    options?: BulkPruneOptions,
  ): Promise<PruneResult> {
    this.assertOpen();
    return this.#backend.deletion.pruneExecutionsBulk(filter, options);
  }

  /**
   * Rejects all waits and further calls with `CLOSED`. Instances continue; the sessions and jobs of this client are
   * canceled. Resolves once that is stored. Idempotent, never rejects.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  /** Throws if the client is closed or must not be used here. */
  protected assertOpen(): void {
    if (this.#closed !== undefined) throw clientClosed();
    this.#guard();
  }

  protected startedHandle({ id, created }: StartedRun): StartedHandle {
    return new StartedHandle(id, created, this.#access);
  }

  #close(): Promise<void> {
    return this.#backend.close(this.attached.close(clientClosed()));
  }

  #taskCall(request: Parameters<typeof readTaskRun>[0]): TaskCall | Promise<TaskCall> {
    return readTaskRun(request, {
      limitBytes: this.payloadLimitBytes,
      newId: this.#newId,
    });
  }

  async #raise(
    id: string,
    event: EventToken | string,
    value: unknown,
    options: RaiseEventOptions | undefined,
  ): Promise<void> {
    this.assertOpen();
    const instanceId = checkInstanceId(id);
    const call = readEventCall(event, value, options, this.payloadLimitBytes);
    await traced(this.#calls, { kind: 'event', name: call.name, instanceId }, (trace) =>
      this.#backend.raise({ id: instanceId, ...call, trace }),
    );
  }

  async #state(
    id: string,
    key: string | undefined,
  ): Promise<readonly StateEntry[] | StateEntry | undefined> {
    this.assertOpen();
    const checked = key === undefined ? undefined : checkStateKey(key);
    const entries = await this.#backend.states.read(checkInstanceId(id), checked);
    return checked === undefined ? entries : entries[0];
  }

  async #status(id: string): Promise<InstanceInfo> {
    const info = await this.get(id);
    if (info === undefined) throw notFound(id);
    return info;
  }

  async #result(id: string, options?: WaitOptions): Promise<unknown> {
    this.assertOpen();
    return this.#backend.result(checkInstanceId(id), readWaitOptions(options, 'result()'));
  }
}

/** One span for a batch: named after its task, if all runs have the same one. */
function toBatchCall(calls: readonly TaskCall[]): TracedCall {
  const names = new Set(calls.map(({ name }) => name));
  const [name = 'tasks'] = names;
  return { kind: 'start', name: names.size > 1 ? 'tasks' : name, count: calls.length };
}

function checkLimit(bytes: unknown): number {
  if (Number.isSafeInteger(bytes) && (bytes as number) >= 1) return bytes as number;
  throw invalidOption('payloadLimitBytes', bytes, 'an integer of 1 or more');
}
