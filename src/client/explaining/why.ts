import type { CancelRequest } from '../../model/cancel.ts';
import type { InstanceStatus, TerminalStatus } from '../../model/status.ts';
import type { DefinitionKind } from '../../providers/contract/pausing.ts';
import type { SessionState } from '../../providers/contract/sessions.ts';
import type { OnFailState } from '../../providers/contract/tasks.ts';
import type { FailureSummary, PendingWork } from '../reading/inspect-instance.ts';
import type { BlockedInfo } from '../reading/instance-info.ts';

/** Why an instance is in its state: what it waits for, or how it ended. All times are milliseconds since the epoch. */
export interface Why {
  readonly id: string;
  readonly status: InstanceStatus;
  /** The explanation in plain words, by the store's clock. */
  readonly text: string;
  /** The most important part of `text` as one short sentence without a full stop, for a row of a list. */
  readonly short: string;
  /** What it waits for, at most 100 entries. One entry of kind `ended` if it has ended. */
  readonly waits: readonly Wait[];
  /** The number of waits beyond those in `waits`. */
  readonly more: number;
  /** The history is too long or damaged, so waits for events, timers and children may be missing. */
  readonly incomplete?: true;
}

/** One thing that an instance waits for. */
export type Wait =
  | PausedWait
  | WorkerWait
  | TurnWait
  | DelayWait
  | StartWait
  | DebouncedWait
  | PlaceWait
  | ActivityWait
  | TaskWait
  | TimerWait
  | EventWait
  | ChildWait
  | DetachedWait
  | AwakeableWait
  | UpdateWait
  | CancelWait
  | BlockedWait
  | JobWait
  | EndedWait;

/**
 * Why no worker has claimed work. `noWorker`: no live worker has its definition. `busy`: by their last heartbeats, all live
 * workers that have it run as many activities and tasks as they may. `queued`: a live worker can claim it. `paused`: its
 * instance or definition is paused. `limited`: a limit of its definition is reached; see `limit`.
 */
export type UnclaimedReason = 'noWorker' | 'busy' | 'queued' | 'paused' | 'limited';

/** The instance is paused, or a definition that it needs. */
export interface PausedWait {
  readonly kind: 'paused';
  /** What is paused. */
  readonly target: 'instance' | DefinitionKind;
  /** The name of the paused definition. */
  readonly name?: string;
  readonly at: number;
  readonly reason?: string;
  readonly actor?: string;
}

/** A worker must claim the instance to run its next turn. */
export interface WorkerWait {
  readonly kind: 'worker';
  readonly reason: Extract<UnclaimedReason, 'noWorker' | 'queued'>;
  /** The name and version of the orchestration that the worker needs. No version: any. */
  readonly name: string;
  readonly version?: string;
  /** With `noWorker`: a version that live workers have, the next lower one if it exists. */
  readonly nearestVersion?: string;
  /** Since when a worker may claim it. */
  readonly dueAt: number;
  /** Claims without a committed turn. Too many fail the instance with `POISON`. */
  readonly claims: number;
  /** The lease of the last claim expired: the worker crashed or lost its connection. */
  readonly expired?: { readonly worker?: string; readonly at: number };
}

/** A worker runs a turn of the instance. */
export interface TurnWait {
  readonly kind: 'turn';
  readonly worker?: string;
  readonly claimedAt?: number;
  readonly lockedUntil: number;
}

/** A worker released the instance, for example after an error of the store. It is claimable after a delay. */
export interface DelayWait {
  readonly kind: 'delay';
  readonly until: number;
}

/** The instance has not started: its start has a `delay` or `runAt`. */
export interface StartWait {
  readonly kind: 'start';
  readonly startsAt: number;
  /** Set if no live worker has its code. */
  readonly unclaimed?: Extract<UnclaimedReason, 'noWorker'>;
  /** The name and version of its orchestration. No version: any. */
  readonly name: string;
  readonly version?: string;
}

/** A debounced run has not started: a further start with its key moves it. */
export interface DebouncedWait {
  readonly kind: 'debounced';
  readonly key: string;
  readonly startsAt: number;
  /** How often a later start has moved it. */
  readonly moves: number;
}

/** An instance of a limited orchestration or flow has not begun: as many as allowed have begun and not ended. */
export interface PlaceWait {
  readonly kind: 'place';
  /** The orchestration. */
  readonly name: string;
  /** Absent: its start named no key. */
  readonly key?: string;
  /** Instances that may have begun at a time. Absent: unlimited. */
  readonly global?: number;
  /** Instances of one key that may have begun at a time. Absent: unlimited. */
  readonly perKey?: number;
  /** Instances that have begun and not ended, of all keys. */
  readonly running: number;
}

/** An activity, or the failure handler of a task, without an outcome. */
export interface ActivityWait extends PendingWork {
  readonly kind: 'activity' | 'onFail';
  /** Why no worker has claimed it. Set if it is due, paused, or if no live worker has it. */
  readonly unclaimed?: UnclaimedReason;
  /** In a run of a flow: the step whose handler it runs. */
  readonly step?: string;
}

/** The task run itself. */
export interface TaskWait extends PendingWork {
  readonly kind: 'task';
  /** Why no worker has claimed it. Set if it is due, paused, or if no live worker has it. */
  readonly unclaimed?: UnclaimedReason;
  readonly priority: number;
  /** If no worker has claimed it by then, it ends as `expired`. */
  readonly expiresAt?: number;
  readonly dedupeKey?: string;
}

/** A timer: a sleep, the timeout of a scope or a wait, or the back-off of a step. */
export interface TimerWait {
  readonly kind: 'timer';
  readonly operation: number;
  readonly fireAt: number;
  /** The name of a step whose next attempt begins then. */
  readonly step?: string;
  /** Of a step: the error of its last attempt. */
  readonly lastFailure?: FailureSummary;
}

/** An external event. */
export interface EventWait {
  readonly kind: 'event';
  readonly operation: number;
  readonly name: string;
  /** In a run of a flow: the signal. */
  readonly signal?: string;
  /** In a run of a flow: the step that waits for items of its generator. */
  readonly step?: string;
}

/** A child. */
export interface ChildWait {
  readonly kind: 'child';
  readonly operation: number;
  /** Absent if the caller must not see its definition. */
  readonly name?: string;
  readonly id: string;
  /** Absent if the child does not exist yet, beyond the first 3 children, and without `name`. */
  readonly status?: InstanceStatus;
  /** The code no longer needs it, but waits until it has stopped. */
  readonly isStopping?: true;
  /** What the child waits for. Set for the first 3 children. */
  readonly text?: string;
}

/** The confirmation that a detached instance was started. */
export interface DetachedWait {
  readonly kind: 'detached';
  readonly operation: number;
  /** Absent if the caller must not see its definition. */
  readonly name?: string;
  readonly id: string;
}

/** The answer to the token of an awakeable. */
export interface AwakeableWait {
  readonly kind: 'awakeable';
  readonly operation: number;
}

/** The handler of an accepted update runs, or waits for the next execution. */
export interface UpdateWait {
  readonly kind: 'update';
  readonly name: string;
  readonly key: string;
  /** It arrived after the code had continued as new: the next execution handles it. Absent: its handler runs. */
  readonly deferred?: true;
}

/** The instance was canceled and has not ended. */
export interface CancelWait extends CancelRequest {
  readonly kind: 'cancel';
  /** `cleanup`: its code may clean up. `handlers`: only running work keeps it from its end. */
  readonly phase: 'cleanup' | 'handlers';
  /** When any worker may end it without its code. */
  readonly cleanupUntil?: number;
}

/** The instance is blocked. */
export interface BlockedWait extends BlockedInfo {
  readonly kind: 'blocked';
  /** When a worker of the same build retries it. */
  readonly retryAt?: number;
}

/** The run is a job: a session waits for its result. */
export interface JobWait {
  readonly kind: 'job';
  readonly sessionId: string;
  readonly sessionState: SessionState;
  /** When the session ends unless its client renews it. */
  readonly expiresAt: number;
  /** Since when no caller takes the result. */
  readonly abandonedAt?: number;
}

/** How the instance ended. */
export interface EndedWait {
  readonly kind: 'ended';
  readonly status: TerminalStatus;
  readonly at: number;
  readonly failure?: FailureSummary;
  /** Of a cancel or a termination. */
  readonly reason?: string;
  readonly actor?: string;
  readonly cleanupSkipped?: true;
  /** Handlers that still ran after their grace. */
  readonly leaked?: number;
  /** The state of the failure handler of a task. */
  readonly onFail?: OnFailState;
}
