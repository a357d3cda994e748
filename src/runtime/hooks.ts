import type { TerminalStatus } from '../model/status.ts';

/** A committed turn. */
export interface TurnCommitted {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestration: string;
  readonly events: number;
  /** `fast`: committed in one transaction with its cause. */
  readonly path: 'fast' | 'slow';
  readonly status: 'running' | 'completed' | 'failed' | 'canceled' | 'continuedAsNew';
  /** With `failed`: the error of the instance. */
  readonly error?: Error;
}

/** One finished attempt of an activity, a task or a task's `onFail` handler. */
export interface AttemptEnded {
  readonly instanceId: string;
  readonly kind: 'activity' | 'task' | 'onFail';
  /** Name of the activity or task. */
  readonly activity: string;
  readonly attempt: number;
  readonly durationMs: number;
  readonly outcome:
    | 'completed'
    | 'failed'
    | 'skipped'
    | 'retried'
    | 'canceled'
    | 'lost'
    | 'deleted';
  /** The error of a `failed` or `retried` attempt. */
  readonly error?: Error;
  /** With `retried`: the delay before the next attempt, in milliseconds. */
  readonly retryInMs?: number;
}

/** The end of a task run that this worker caused, after the store committed it. */
export interface TaskEnded {
  readonly instanceId: string;
  readonly task: string;
  /** The committed status. `canceled` also if the handler returned after the cancel. */
  readonly status: TerminalStatus;
  /** With `failed`: the error of the run. */
  readonly error?: Error;
}

/** An instance whose code and history disagree, or whose data cannot be decoded. */
export interface InstanceBlocked {
  readonly instanceId: string;
  readonly orchestration: string;
  readonly reason: string;
  readonly retryInMs: number;
}

/** Callbacks for metrics and traces. Must return quickly. An error that they throw is logged and dropped. */
export interface RuntimeHooks {
  readonly turnCommitted?: (turn: TurnCommitted) => void;
  readonly attemptEnded?: (attempt: AttemptEnded) => void;
  /**
   * Called once per run, after the commit. Not called for a run that ends without a worker, such as a cancel while
   * queued.
   */
  readonly taskEnded?: (run: TaskEnded) => void;
  readonly instanceBlocked?: (blocked: InstanceBlocked) => void;
  /** A handler still runs after its grace. Its slot is freed and its result is rejected. */
  readonly handlerLeaked?: (leak: {
    readonly instanceId: string;
    readonly activity: string;
  }) => void;
}
