import type { CancellationType } from '../model/cancel.ts';
import type { ActivityRef, EventToken, OrchestrationRef } from '../model/definition.ts';
import type { Logger } from '../model/logger.ts';
import type { Duration } from '../model/values/duration.ts';
import type { DurablePromise } from '../replay/durable-promise.ts';
import type { CallOptions, InputArguments } from './call-options.ts';

/** How a child is started. */
export interface ChildOptions {
  /** Default: made from the parent's id, its execution and the place in it. */
  readonly id?: string | undefined;
  /** Default: the version of the definition; for a plain name, the newest. */
  readonly version?: string | undefined;
  /**
   * What a cancel, and any end of the parent, does to the child. `request` (default): it is asked to stop. `wait`:
   * it is asked, and the parent waits until it has stopped. `abandon`: it goes on.
   */
  readonly cancellation?: CancellationType | undefined;
}

/** How a detached instance is started. */
export interface DetachedOptions {
  readonly id: string;
  readonly version?: string | undefined;
}

/** How long to wait for an event. */
export interface WaitOptions {
  /** Rejects with code `TIMEOUT` after this long. */
  readonly timeout?: Duration | undefined;
}

/** How a scope is limited. */
export interface ScopeOptions {
  /** Cancels the scope after this long: its promise rejects with a `CanceledError` whose trigger is `timeout`. */
  readonly timeout?: Duration | undefined;
  /** Named in the reason of that error. */
  readonly name?: string | undefined;
}

/** How a shield is limited. */
export interface ShieldOptions {
  /** Cancels the shield, and the shields inside, after this long. */
  readonly timeout?: Duration | undefined;
}

/** What becomes of those that lost. */
export interface RaceOptions {
  /** Leave them running. Default: they are canceled. */
  readonly keepLosers?: boolean | undefined;
}

/** Which of several promises settled first, by its place, and its value. */
export type Selected<T extends readonly unknown[]> = {
  [K in keyof T]: {
    readonly index: K extends `${infer Index extends number}` ? Index : number;
    readonly value: Awaited<T[K]>;
  };
}[number];

/** Which of several promises settled first, by its key, and its value. */
export type SelectedKey<T> = {
  [K in keyof T]: { readonly key: K; readonly value: Awaited<T[K]> };
}[keyof T];

/** What the code of an orchestration may use: every wait and every effect goes through it. */
export interface OrchestrationContext<Input = unknown> {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  /** Whether the code is being shown what has already happened. Do not let decisions depend on it. */
  readonly isReplaying: boolean;
  /** Silent during replay, so each line appears once. */
  readonly log: Logger;
  /** Whether the instance, or the scope that the code is in, was canceled: new operations are refused then. Not in a shield. */
  readonly isCanceled: boolean;
  /** Throws the `CanceledError` that a new operation would be refused with. */
  throwIfCanceled(): void;

  /**
   * Calls an activity. A failed one rejects with code `ACTIVITY_FAILED`, its error as `cause`. Called by name, what the
   * options leave open comes from the definition: `retry` and `attemptTimeout` from that of the worker that runs it,
   * `timeout`, `priority` and `cancellation` from that of the worker that runs the turn, if it has one.
   */
  call<In, Out>(
    activity: ActivityRef<In, Out>,
    ...args: InputArguments<In, CallOptions>
  ): DurablePromise<Out>;
  call(activity: string, input?: unknown, options?: CallOptions): DurablePromise<unknown>;

  /** Waits for a time that outlives the process. */
  sleep(duration: Duration): DurablePromise<void>;
  /** Waits until a moment, given as a date or in milliseconds since the epoch; at once if it has passed. */
  sleepUntil(moment: Date | number): DurablePromise<void>;
  /** Waits for an external event; one that has already arrived is taken at once. */
  waitFor<Value, Parsed>(
    event: EventToken<Value, Parsed>,
    options?: WaitOptions,
  ): DurablePromise<Parsed>;
  waitFor(event: string, options?: WaitOptions): DurablePromise<unknown>;

  /** Starts a child and waits for it. A failed one rejects with code `CHILD_FAILED`, a canceled one with a `CanceledError`. */
  child<In, Out>(
    orchestration: OrchestrationRef<In, Out>,
    ...args: InputArguments<In, ChildOptions>
  ): DurablePromise<Out>;
  child(orchestration: string, input?: unknown, options?: ChildOptions): DurablePromise<unknown>;
  /**
   * Starts an instance whose end this one does not wait for. Resolves with its id once the store has it. An id that is
   * taken follows the rule of `client.start`: the same orchestration and input is the same start, anything else
   * rejects with code `INSTANCE_ALREADY_EXISTS`.
   */
  startDetached<In>(
    orchestration: OrchestrationRef<In>,
    input: In,
    options: DetachedOptions,
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
  /** Like `Promise.any`, and cancels what is still pending when one has succeeded. */
  any<const T extends readonly unknown[]>(
    promises: T,
    options?: RaceOptions,
  ): DurablePromise<Awaited<T[number]>>;
  /** Like `Promise.race`, and cancels those that lost: activities, timers, waits, children, groups and scopes. */
  race<const T extends readonly unknown[]>(
    promises: T,
    options?: RaceOptions,
  ): DurablePromise<Awaited<T[number]>>;
  /**
   * Like `race`, and tells which one settled first: `{ index, value }`, or `{ key, value }` for a record. If that one
   * failed, rejects with its error, whose `selectKey` is the index or key.
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
   * Runs a part of the code in a scope: all that it has pending is canceled together, by `cancel` on the promise,
   * by the timeout, by a cancel around it, or when the part ends. The promise settles when nothing of it runs any
   * more; a scope that was itself canceled rejects with a `CanceledError`, unless its code failed otherwise.
   */
  scope<T>(body: () => T | Promise<T>, options?: ScopeOptions): DurablePromise<T>;
  /**
   * Runs a part of the code that a cancel from outside does not reach: clean-up, compensation, work that must not be
   * left half done. The execution does not end before it has.
   */
  shield<T>(body: () => T | Promise<T>, options?: ShieldOptions): DurablePromise<T>;

  /**
   * Ends this execution and begins the next with a new input and an empty history. Nothing after it runs: the
   * promise never settles, so no `catch` or `finally` of yours gets in the way. Default: the same version. Once the
   * instance was asked to stop, it rejects with a `CanceledError` instead.
   */
  continueAsNew(...args: InputArguments<Input, { readonly version?: undefined }>): Promise<never>;
  continueAsNew(input: unknown, options: { readonly version: string }): Promise<never>;

  /** Shows a small value of your choice to whoever looks at the instance. */
  setCustomStatus(value: unknown): void;
  /** The time inside the orchestration, in milliseconds since the epoch. It advances with events. */
  now(): number;
  /** Like `Math.random()`, the same in every replay. */
  random(): number;
  /** Like `crypto.randomUUID()`, the same in every replay. */
  uuid(): string;
}
