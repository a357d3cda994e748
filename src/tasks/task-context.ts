import type { ActivityClient, CancelInfo } from '../orchestration/activity-context.ts';
import type { InputArguments } from '../orchestration/input-arguments.ts';
import type { TaskRef } from '../model/definition.ts';
import type { Logger } from '../model/logger.ts';
import type { Headers } from '../model/task-options.ts';

/** The part of a client that a task can use. */
export interface TaskClient extends ActivityClient {
  /** Runs a task and answers its handle. */
  runTask<Input, Output>(
    task: TaskRef<Input, Output>,
    ...args: InputArguments<Input, { readonly id?: string | undefined }>
  ): Promise<{ readonly id: string }>;
  runTask(
    task: string,
    input?: unknown,
    options?: { readonly id?: string | undefined },
  ): Promise<{ readonly id: string }>;
}

/** What every handler of a task is given besides its input. */
export interface TaskAttempt {
  /** The id of the run. */
  readonly runId: string;
  readonly taskName: string;
  /** What the caller sent along with the input. */
  readonly headers: Headers;
  /** 1 for the first attempt. */
  readonly attempt: number;
  /** The same for every attempt of this handler and for no other: hand it to services that can deduplicate. */
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
  readonly client: TaskClient;
  readonly log: Logger;
}

/** What the handler of a task is given besides its input. */
export interface TaskContext extends TaskAttempt {
  /**
   * Asks the store for leave to go past the point from which the work can no longer be undone. Once it resolves,
   * cancel and timeouts no longer reach this run; it rejects if one already has.
   */
  pointOfNoReturn(): Promise<void>;
  /**
   * Cancels this very run: its signal is aborted, and whatever the handler returns or throws afterwards, the run ends
   * as `canceled`, unless it is past its point of no return. Rejects with `OUTSIDE_HANDLER` once the handler has ended.
   */
  cancel(reason?: string): Promise<void>;
}
