import type { ActivityClient, AttemptContext } from '../orchestration/activity-context.ts';
import type { InputArguments } from '../orchestration/call-options.ts';
import type { TaskRef } from '../model/definition.ts';
import type { Headers } from '../model/work-item-options.ts';

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
export interface TaskAttempt extends AttemptContext {
  /** The id of the run. */
  readonly runId: string;
  readonly taskName: string;
  /** What the caller sent along with the input. */
  readonly headers: Headers;
  readonly client: TaskClient;
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
