import type { TerminalStatus } from '../model/status.ts';

/** A turn was committed. */
export interface TurnCommitted {
  readonly instanceId: string;
  readonly executionId: number;
  readonly orchestration: string;
  readonly events: number;
  /** `fast` when it shared a transaction with what led to it. */
  readonly path: 'fast' | 'slow';
  readonly status: 'running' | 'completed' | 'failed' | 'canceled' | 'continuedAsNew';
}

/** One attempt of an activity, of a task, or of a task's handler for failures ended. */
export interface AttemptEnded {
  readonly instanceId: string;
  readonly kind: 'activity' | 'task' | 'onFail';
  /** The name of the activity or task. */
  readonly activity: string;
  readonly attempt: number;
  readonly durationMs: number;
  readonly outcome:
    'completed' | 'failed' | 'skipped' | 'retried' | 'canceled' | 'lost' | 'deleted';
  /** Why it `failed`, or why it is `retried`. */
  readonly error?: Error;
  /** With `retried`: how long until the next attempt may start. */
  readonly retryInMs?: number;
}

/** A task run ended, by something that this worker told the store and the store has accepted. */
export interface TaskEnded {
  readonly instanceId: string;
  readonly task: string;
  /** What the store has committed: `canceled` also where the handler returned too late. */
  readonly status: TerminalStatus;
}

/** An instance was held back because its code and history disagree, or its data cannot be read. */
export interface InstanceBlocked {
  readonly instanceId: string;
  readonly orchestration: string;
  readonly reason: string;
  readonly retryInMs: number;
}

/** Called as things happen, for metrics and traces. They must be quick; what they throw is logged and dropped. */
export interface RuntimeHooks {
  readonly turnCommitted?: (turn: TurnCommitted) => void;
  readonly attemptEnded?: (attempt: AttemptEnded) => void;
  /** Once per run, and only for what was committed; a run that ends without a handler, as by a cancel while it waits, has none. */
  readonly taskEnded?: (run: TaskEnded) => void;
  readonly instanceBlocked?: (blocked: InstanceBlocked) => void;
  /** A handler went on past its grace period; its slot was freed and its late result will be refused. */
  readonly handlerLeaked?: (leak: {
    readonly instanceId: string;
    readonly activity: string;
  }) => void;
}
