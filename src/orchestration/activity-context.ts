import type { EventToken, OrchestrationRef } from '../model/definition.ts';
import type { CancelTrigger } from '../model/failures/errors.ts';
import type { Logger } from '../model/logger.ts';
import type { InputArguments } from './call-options.ts';

/** Why an activity should stop. */
export interface CancelInfo {
  readonly reason: string;
  readonly trigger: CancelTrigger;
}

/** The part of a client that an activity can use. */
export interface ActivityClient {
  /** Starts an instance and answers its handle. */
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
  /** Asks an instance to stop, this one included. */
  cancel(id: string, options?: { readonly reason?: string | undefined }): Promise<unknown>;
  /** Reads what is known of an instance; `undefined` for an unknown id. */
  get(id: string): Promise<{ readonly id: string; readonly status: string } | undefined>;
}

/** What every handler is given besides its input, be it of an activity, a task or a step of a flow. */
export interface AttemptContext {
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** The same for every attempt of this call and for no other: hand it to services that can deduplicate. */
  readonly idempotencyKey: string;
  /** Aborted when the handler should stop; its `reason` is a `CanceledError` whose `trigger` tells why. */
  readonly signal: AbortSignal;
  readonly isCanceled: boolean;
  /** Throws the `CanceledError` if the handler should stop. */
  throwIfCanceled(): void;
  /** Resolves once the handler should stop. */
  canceled(): Promise<CancelInfo>;
  /** Reports progress: an attempt after a crash finds the details as `lastHeartbeat`. */
  heartbeat(details?: unknown): void;
  /** What an earlier attempt last reported. */
  readonly lastHeartbeat: unknown;
  /**
   * Adds a chunk to the stream of the job that this run is; waits while the reader is behind. Resolves with `false` when
   * nobody reads: no job, or its caller has gone. Rejects with the `CanceledError` when the handler should stop.
   */
  emit(chunk: unknown): Promise<boolean>;
  readonly log: Logger;
}

/** What the handler of an activity is given besides its input. */
export interface ActivityContext extends AttemptContext {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestrationName: string;
  readonly activityName: string;
  /**
   * Asks the store for leave to go past the point from which the work can no longer be undone. Once it resolves,
   * cancel, timeouts and lost races no longer reach this activity; it rejects if one already has. Only for calls with
   * `cancellation: 'wait'`.
   */
  pointOfNoReturn(): Promise<void>;
  readonly client: ActivityClient;
}

/** What the handler of an abandoned result is given besides that result. */
export interface AbandonedContext {
  /** The id of the run that completed although nobody wanted it any more. */
  readonly instanceId: string;
  /** The name of the activity, task, orchestration or flow. */
  readonly name: string;
  /** 1 for the first attempt. */
  readonly attempt: number;
  readonly client: ActivityClient;
  readonly log: Logger;
}

/** Disposes of a result that came when its caller had gone: closes, deletes or refunds what was made. */
export type OnAbandoned<Output> = (output: Output, context: AbandonedContext) => unknown;
