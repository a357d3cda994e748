import type { EventToken, OrchestrationRef } from '../model/definition.ts';
import type { CancelTrigger } from '../model/failures/errors.ts';
import type { Logger } from '../model/logger.ts';
import type { InputArguments } from './call-options.ts';

/** Why a handler should stop. */
export interface CancelInfo {
  readonly reason: string;
  readonly trigger: CancelTrigger;
}

/** The part of a client that an activity can use. */
export interface ActivityClient {
  /** Starts an instance and resolves with its handle. */
  start<Input, Output>(
    orchestration: OrchestrationRef<Input, Output>,
    ...args: InputArguments<Input, { readonly id?: string | undefined }>
  ): Promise<{ readonly id: string }>;
  start(
    orchestration: string,
    input?: unknown,
    options?: { readonly id?: string | undefined },
  ): Promise<{ readonly id: string }>;
  /** Sends an external event to an instance. */
  raiseEvent<Value>(
    id: string,
    event: EventToken<Value, unknown> | string,
    payload?: Value,
  ): Promise<void>;
  /** Cancels an instance, which may be the caller's own. */
  cancel(id: string, options?: { readonly reason?: string | undefined }): Promise<unknown>;
  /** Reads an instance; `undefined` for an unknown id. */
  get(id: string): Promise<{ readonly id: string; readonly status: string } | undefined>;
}

/** The context that the handlers of activities, tasks and flow steps have in common. */
export interface AttemptContext {
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** Unique per call, and stable across its attempts. Pass it to services that can deduplicate. */
  readonly idempotencyKey: string;
  /** Aborted when the handler should stop. Its `reason` is a `CanceledError` with the `trigger`. */
  readonly signal: AbortSignal;
  readonly isCanceled: boolean;
  /** Throws the `CanceledError` if the handler should stop. */
  throwIfCanceled(): void;
  /** Resolves once the handler should stop. */
  canceled(): Promise<CancelInfo>;
  /** Reports progress. The next attempt gets the details as `lastHeartbeat`. */
  heartbeat(details?: unknown): void;
  /** The details of the last heartbeat of an earlier attempt. */
  readonly lastHeartbeat: unknown;
  /**
   * Adds a chunk to the stream of the run, which clients read with `client.stream(id)`. Resolves with `true` once it is
   * committed; with `false` if the run has ended. Rejects with the `CanceledError` when the handler should stop. In a job,
   * the chunk is for its caller: `emit` waits while the reader is behind, and resolves with `false` if it has gone.
   */
  emit(chunk: unknown): Promise<boolean>;
  readonly log: Logger;
}

/** The context of an activity handler. */
export interface ActivityContext extends AttemptContext {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly activityName: string;
  /**
   * Sets the point of no return. Once it resolves, cancels, timeouts and lost races no longer reach this activity. Rejects
   * if one already has. Only for calls with `cancellation: 'wait'`.
   */
  pointOfNoReturn(): Promise<void>;
  readonly client: ActivityClient;
}

/** The context of an `onAbandoned` handler. */
export interface AbandonedContext {
  /** The id of the run that returned the abandoned result. */
  readonly instanceId: string;
  /** The name of the activity, task, orchestration or flow. */
  readonly name: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly client: ActivityClient;
  readonly log: Logger;
}

/** Disposes of a result whose caller no longer waits: for example, closes, deletes or refunds it. */
export type OnAbandoned<Output> = (output: Output, context: AbandonedContext) => unknown;
