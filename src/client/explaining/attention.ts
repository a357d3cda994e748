import type { PausedDefinition } from '../../providers/contract/pausing.ts';
import type { InstanceInfo } from '../reading/instance-info.ts';
import type { DefinitionQueueInfo } from '../reading/queues.ts';
import type { UnclaimedWorkInfo, WorkerInfo } from '../reading/workers.ts';

/** What needs the attention of an operator. */
export interface Attention {
  /** The time of the store's clock, in milliseconds since the epoch. */
  readonly at: number;
  /** Kinds of problems that exist, the most urgent first. Each lists at most 5 examples. */
  readonly findings: readonly AttentionFinding[];
}

/** A kind of problem. */
export type AttentionFinding =
  | BlockedFinding
  | FailedFinding
  | UnclaimedFinding
  | LeakedFinding
  | StaleWorkersFinding
  | LateSchedulesFinding
  | OldQueuesFinding
  | PausedDefinitionsFinding;

/** The number and age of problems. */
export interface FindingCount {
  readonly count: number;
  /** There are more than `count`. */
  readonly capped?: true;
  /** Since when the oldest exists, in milliseconds since the epoch. */
  readonly oldestAt?: number;
}

/** Instances that are blocked, up to 1,000. */
export interface BlockedFinding extends FindingCount {
  readonly kind: 'blocked';
  readonly instances: readonly {
    readonly id: string;
    readonly name: string;
    readonly at: number;
    /** Why, in one short sentence. */
    readonly text: string;
  }[];
}

/** Instances that failed in the last hour, up to 1,000. The most frequent failures are first. */
export interface FailedFinding extends FindingCount {
  readonly kind: 'failed';
  readonly groups: readonly FailureGroup[];
}

/** Instances of one definition that failed in the same way. */
export interface FailureGroup {
  /** The code of the failure. */
  readonly code?: string;
  /** The name of the error. */
  readonly error: string;
  /** The definition of the instances. */
  readonly name: string;
  readonly count: number;
  /** The instance that failed last, with its message and time. */
  readonly id: string;
  readonly message: string;
  readonly at: number;
}

/** Definitions with due work that no live worker has. */
export interface UnclaimedFinding extends FindingCount {
  readonly kind: 'unclaimed';
  /** `waiting`: entries that can be claimed, up to 10,000. */
  readonly work: readonly (UnclaimedWorkInfo & { readonly waiting: number })[];
}

/** Handlers of live workers that still run after their grace. */
export interface LeakedFinding extends FindingCount {
  readonly kind: 'leaked';
  readonly workers: readonly Pick<WorkerInfo, 'id' | 'name' | 'leaked'>[];
}

/** Workers that were lost in the last hour: they did not stop, and are not live. */
export interface StaleWorkersFinding extends FindingCount {
  readonly kind: 'staleWorkers';
  readonly workers: readonly Pick<WorkerInfo, 'id' | 'name' | 'host' | 'lastSeenAt' | 'diedAt'>[];
}

/** Schedules that are late. */
export interface LateSchedulesFinding extends FindingCount {
  readonly kind: 'lateSchedules';
  readonly schedules: readonly {
    readonly name: string;
    /** `late`: a tick is due for more than a minute. `overlap`: ticks are skipped or wait, because a run has not ended. */
    readonly reason: 'late' | 'overlap';
    /** When the tick was due, or when the run was started. */
    readonly since: number;
    readonly lastInstanceId?: string;
    readonly skippedTicks?: number;
  }[];
}

/** Queues whose oldest entry waits for more than a minute, although a live worker has the definition. */
export interface OldQueuesFinding extends FindingCount {
  readonly kind: 'oldQueues';
  readonly queues: readonly DefinitionQueueInfo[];
}

/** Definitions that are paused. */
export interface PausedDefinitionsFinding extends FindingCount {
  readonly kind: 'pausedDefinitions';
  readonly definitions: readonly (Pick<PausedDefinition, 'kind' | 'name'> &
    NonNullable<InstanceInfo['paused']>)[];
}
