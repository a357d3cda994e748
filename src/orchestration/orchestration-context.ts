import type { CancellationType } from '../model/cancel.ts';
import type {
  ActivityRef,
  EventToken,
  FlowRef,
  OrchestrationRef,
  TaskRef,
  UpdateToken,
} from '../model/definition.ts';
import type { Logger } from '../model/logger.ts';
import type { OnConflict, StartEvent } from '../model/admission-options.ts';
import type { CommonStartOptions } from '../model/start-settings.ts';
import type { Headers } from '../model/values/headers.ts';
import type { TagChanges } from '../model/values/tags.ts';
import type { Duration } from '../model/values/duration.ts';
import type { DurablePromise } from '../replay/durable-promise.ts';
import type { CallOptions, InputArguments, taskCallOptionNames } from './call-options.ts';
import type { StepContext, StepOptions, TransactionStepWork } from './steps.ts';
import type { Awakeable, AwakeableOptions, UpdateHandlers } from './update-context.ts';

/** Options of `ctx.child`. Its headers are added to those of the parent. */
export interface ChildOptions<EventValue = unknown> extends CommonStartOptions {
  /** Default: derived from the parent's id, its execution and the operation number. */
  readonly id?: string | undefined;
  /** Default: the version of the definition; for a name, the latest registered version. */
  readonly version?: string | undefined;
  /**
   * What happens to the child when the call is canceled or the parent ends. `request` (default): it is canceled. `wait`: it
   * is canceled, and the parent waits until it has ended. `abandon`: it continues.
   */
  readonly cancellation?: CancellationType | undefined;
  /**
   * Raised with the start, in one transaction. If the id belongs to an earlier child of this execution, only the event is
   * raised, and the promise settles as that of the earlier call. Rejects with `INSTANCE_OVER` if that child has ended.
   */
  readonly event?: StartEvent<EventValue> | undefined;
  /**
   * What happens if the id belongs to an earlier child of this execution. `reject` (default): rejects. `useExisting`:
   * returns the promise of the earlier call. `terminateExisting`: terminates the child, whose promise rejects, and starts
   * its next execution. An id of any other instance always rejects with `CHILD_FAILED`.
   */
  readonly onConflict?: OnConflict | undefined;
}

/** Options of `ctx.runTask`. */
export type TaskCallOptions = Pick<CallOptions, (typeof taskCallOptionNames)[number]>;

/** Options of `ctx.startDetached`. Its headers are added to those of the starting instance. */
export interface DetachedOptions<EventValue = unknown> extends CommonStartOptions {
  readonly id: string;
  readonly version?: string | undefined;
  /**
   * Raised with the start, in one transaction. If the id belongs to a live instance of the orchestration, only the event
   * is raised, whatever its input. Rejects with `INSTANCE_OVER` if that instance has ended.
   */
  readonly event?: StartEvent<EventValue> | undefined;
  /** What happens if the id belongs to an instance with another input. Default: `reject`. */
  readonly onConflict?: OnConflict | undefined;
}

/** Options of `ctx.waitFor`. */
export interface WaitOptions {
  /** Rejects with code `TIMEOUT` after this time. */
  readonly timeout?: Duration | undefined;
}

/** Options of `ctx.scope`. */
export interface ScopeOptions {
  /** Cancels the scope after this time: its promise rejects with a `CanceledError` whose trigger is `timeout`. */
  readonly timeout?: Duration | undefined;
  /** The scope's name in the reason of that error. */
  readonly name?: string | undefined;
}

/** Options of `ctx.shield`. */
export interface ShieldOptions {
  /** Cancels the shield, and the shields inside it, after this time. */
  readonly timeout?: Duration | undefined;
}

/** Options of `ctx.race`, `ctx.select` and `ctx.any`. */
export interface RaceOptions {
  /** Leaves the losers running. Default: false, they are canceled. */
  readonly keepLosers?: boolean | undefined;
}

/** The index and value of the promise that settled first. */
export type Selected<T extends readonly unknown[]> = {
  [K in keyof T]: {
    readonly index: K extends `${infer Index extends number}` ? Index : number;
    readonly value: Awaited<T[K]>;
  };
}[number];

/** The key and value of the promise that settled first. */
export type SelectedKey<T> = {
  [K in keyof T]: { readonly key: K; readonly value: Awaited<T[K]> };
}[keyof T];

/** The state of an instance: small values by key, which clients can read and which survive continue-as-new. */
export interface OrchestrationState {
  /** Returns a copy of the value of a key; `undefined` if it has none. The type is not checked. */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the author names the type
  get<T = unknown>(key: string): T | undefined;
  /**
   * Sets a key; `undefined` deletes it. The turn commits all changes together. Throws `STATE_LIMIT_EXCEEDED` for more
   * than 256 keys or a value above 64 KiB (worker option `stateLimits`), and `NOT_SERIALIZABLE`.
   */
  set(key: string, value: unknown): void;
  /** Deletes a key. Returns whether it had a value. */
  delete(key: string): boolean;
  /** The keys, in the order in which they were first set. */
  keys(): readonly string[];
}

/** The context of an orchestration. All waits and side effects must go through it. */
export interface OrchestrationContext<Input = unknown> {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  /** The headers of the start. Every activity, task, child and detached instance of this one reads them too. */
  readonly headers: Headers;
  /** Whether the code is replaying recorded events. Must not affect control flow. */
  readonly isReplaying: boolean;
  /** A logger that is silent during replay, so that each line appears once. */
  readonly log: Logger;
  /** Whether the instance or the current scope was canceled, so that new operations reject. A shield ignores outer cancels. */
  readonly isCanceled: boolean;
  /** Throws a `CanceledError` if `isCanceled` is true. */
  throwIfCanceled(): void;

  /**
   * Calls an activity. Rejects with code `ACTIVITY_FAILED` if it fails, with its error as `cause`.
   *
   * For a call by name, missing options come from the registered definition: `retry` and `attemptTimeout` from the worker
   * that runs the activity; `timeout`, `priority` and `cancellation` from the worker that runs the turn.
   */
  call<In, Out>(
    activity: ActivityRef<In, Out>,
    ...args: InputArguments<In, CallOptions>
  ): DurablePromise<Out>;
  call(activity: string, input?: unknown, options?: CallOptions): DurablePromise<unknown>;

  /**
   * Runs a step: a closure in the worker that runs this turn. Its result is recorded. A closure whose result was not
   * recorded, because its process died, runs again: at least once. Rejects with code `STEP_FAILED` if it fails, with its
   * error as `cause`. The closure must not use `ctx`. Names may repeat: the order of the calls tells steps apart.
   */
  run<Out>(
    name: string,
    body: (step: StepContext) => Out | Promise<Out>,
    options?: StepOptions,
  ): DurablePromise<Out>;

  /**
   * Runs a step whose writes to the tables of the application commit in the same transaction as its result: exactly once.
   * A lost claim, an error and a timeout roll back. The closure writes through `tx` only, and can run again after a conflict
   * in the database. Rejects with code `STEP_FAILED` if it fails.
   */
  transaction<Out>(
    name: string,
    body: TransactionStepWork<Out>,
    options?: StepOptions,
  ): DurablePromise<Out>;

  /** Waits for a duration. The timer is durable. */
  sleep(duration: Duration): DurablePromise<void>;
  /** Waits until a time: a Date, or milliseconds since the epoch. Resolves immediately if it has passed. */
  sleepUntil(moment: Date | number): DurablePromise<void>;
  /** Waits for an external event. Resolves immediately if one is buffered. */
  waitFor<Value, Parsed>(
    event: EventToken<Value, Parsed>,
    options?: WaitOptions,
  ): DurablePromise<Parsed>;
  waitFor(event: string, options?: WaitOptions): DurablePromise<unknown>;

  /**
   * Handles an update, which `client.update` sends. Call it before the first `await`: an update without a handler is
   * rejected. Throws `ALREADY_REGISTERED` for a second handler.
   */
  onUpdate<In, Out, Parsed>(
    update: UpdateToken<In, Out, Parsed>,
    handlers: UpdateHandlers<Parsed, Out>,
  ): void;
  onUpdate(update: string, handlers: UpdateHandlers<unknown, unknown>): void;
  /**
   * Resolves once no update handler runs. Await it before a return or `continueAsNew`, which interrupt running handlers:
   * their callers get `UPDATE_INTERRUPTED`. Updates that arrive meanwhile are accepted.
   */
  updatesSettled(): Promise<void>;
  /**
   * Creates a token with which a caller can answer, once. `promise` settles with the answer. Pass the token to an
   * activity, for example to send a link. A caller that may read the history can read it.
   */
  awakeable<T = unknown>(options?: AwakeableOptions<T>): Awakeable<T>;

  /** Starts a child and waits for its output. Rejects with `CHILD_FAILED`, or with `CanceledError` if it is canceled. */
  child<In, Out, EventValue = unknown>(
    orchestration: OrchestrationRef<In, Out>,
    ...args: InputArguments<In, ChildOptions<EventValue>>
  ): DurablePromise<Out>;
  child<In, Out, EventValue = unknown>(
    flow: FlowRef<In, Out>,
    ...args: InputArguments<In, ChildOptions<EventValue>>
  ): DurablePromise<Out>;
  child(orchestration: string, input?: unknown, options?: ChildOptions): DurablePromise<unknown>;
  /**
   * Runs a task as a part of this instance, and waits for its output. Cancels reach it as they reach an activity. Retry and
   * attempt timeout are those of the worker's definition. Rejects with `ACTIVITY_FAILED`, with the error as `cause`; if
   * the condition of the task is false, the cause has the code `TASK_SKIPPED`. Its `concurrency.perWorker` and circuit
   * breaker hold for calls and runs together. Its `onFail` does not run: the orchestration handles the failure.
   */
  runTask<In, Out>(
    task: TaskRef<In, Out>,
    ...args: InputArguments<In, TaskCallOptions>
  ): DurablePromise<Out>;
  runTask(task: string, input?: unknown, options?: TaskCallOptions): DurablePromise<unknown>;
  /**
   * Starts a detached instance. Resolves with its id once it is stored. If the id is taken by the same orchestration with
   * the same input, it resolves, too; otherwise it rejects with code `INSTANCE_ALREADY_EXISTS`, unless `event` or
   * `onConflict` says otherwise.
   */
  startDetached<In, EventValue = unknown>(
    orchestration: OrchestrationRef<In>,
    input: In,
    options: DetachedOptions<EventValue>,
  ): Promise<string>;
  startDetached<In, EventValue = unknown>(
    flow: FlowRef<In>,
    input: In,
    options: DetachedOptions<EventValue>,
  ): Promise<string>;
  startDetached(orchestration: string, input: unknown, options: DetachedOptions): Promise<string>;

  /** Like `Promise.all`. */
  all<const T extends readonly unknown[]>(
    promises: T,
  ): DurablePromise<{ -readonly [K in keyof T]: Awaited<T[K]> }>;
  /** Like `Promise.allSettled`. */
  allSettled<const T extends readonly unknown[]>(
    promises: T,
  ): DurablePromise<{ -readonly [K in keyof T]: PromiseSettledResult<Awaited<T[K]>> }>;
  /** Like `Promise.any`. Cancels the pending promises after the first success. */
  any<const T extends readonly unknown[]>(
    promises: T,
    options?: RaceOptions,
  ): DurablePromise<Awaited<T[number]>>;
  /** Like `Promise.race`. Cancels the losers: activities, timers, waits, children, groups and scopes. */
  race<const T extends readonly unknown[]>(
    promises: T,
    options?: RaceOptions,
  ): DurablePromise<Awaited<T[number]>>;
  /**
   * Like `race`, but resolves with `{ index, value }`, or `{ key, value }` for a record. If the first to settle failed,
   * rejects with its error, whose `selectKey` is the index or key.
   */
  select<const T extends readonly unknown[]>(
    promises: T,
    options?: RaceOptions,
  ): DurablePromise<Selected<T>>;
  select<const T extends Readonly<Record<string, unknown>>>(
    promises: T,
    options?: RaceOptions,
  ): DurablePromise<SelectedKey<T>>;

  /**
   * Runs `body` in a scope. Its pending operations are canceled together: by `cancel` on the promise, by the timeout, by a
   * cancel of the surrounding scope, or when `body` ends. The promise settles once all work of the scope has stopped. A
   * canceled scope rejects with a `CanceledError`, unless `body` failed with another error.
   */
  scope<T>(body: () => T | Promise<T>, options?: ScopeOptions): DurablePromise<T>;
  /**
   * Runs `body` in a shield, which a cancel from outside does not reach. Use it for clean-up and compensation. The execution
   * ends after the shield has settled.
   */
  shield<T>(body: () => T | Promise<T>, options?: ShieldOptions): DurablePromise<T>;

  /**
   * Ends this execution and starts the next one, with new input and an empty history. The promise never settles, so no code
   * after it runs, including `catch` and `finally`. Default: the same version. Rejects with a `CanceledError` if the
   * instance was canceled.
   */
  continueAsNew(...args: InputArguments<Input, { readonly version?: undefined }>): Promise<never>;
  continueAsNew(input: unknown, options: { readonly version: string }): Promise<never>;

  /** Values by key that `client.state()` reads without a worker. They survive continue-as-new. */
  readonly state: OrchestrationState;
  /** Sets the custom status of the instance, which clients can read. Keep it small. */
  setCustomStatus(value: unknown): void;
  /**
   * Adds a chunk to the stream of the instance, which clients read with `client.stream(id)`. The turn's commit writes it
   * exactly once; a replay does not write it again. Each chunk is an event of the history: emit many chunks from an
   * activity instead.
   */
  emit(chunk: unknown): void;
  /**
   * Merges tags into those of the instance; `null` or `undefined` removes one. Lists and bulk operations filter by tags.
   * At most 16, names of 64 bytes, values of 256 bytes. Throws `INVALID_OPTION`.
   */
  setTags(tags: TagChanges): void;
  /**
   * Whether this execution has the patch `id`. True for executions that reach the call for the first time, and for replays
   * of those; false for older ones. Records a marker.
   */
  patched(id: string): boolean;
  /**
   * Keeps replaying executions that recorded the patch `id`, after the code before it was removed. Remove the call once no
   * such execution is left.
   */
  deprecatePatch(id: string): void;
  /** The deterministic time, in milliseconds since the epoch. It advances with recorded events. */
  now(): number;
  /** Like `Math.random()`, but deterministic in replay. */
  random(): number;
  /** Like `crypto.randomUUID()`, but deterministic in replay. */
  uuid(): string;
}
