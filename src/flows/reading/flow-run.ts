import type { CancelRequest, Failure, InstanceStatus } from '../../index.ts';
import type { StepKind } from '../definition/graph.ts';

/** What has become of a step or an item. */
export type StepStatus =
  'pending' | 'queued' | 'running' | 'completed' | 'failed' | 'skipped' | 'canceled';

/** How something that runs once has gone so far. All times are milliseconds since the epoch. */
export interface StepState {
  readonly status: StepStatus;
  /** How often it was tried, as far as that is known: always for what has ended, and while it runs. */
  readonly attempts?: number;
  readonly queuedAt?: number;
  /** When a worker took it, for the last attempt; of a map, generator or reduce the first of its calls. */
  readonly startedAt?: number;
  readonly endedAt?: number;
  readonly output?: unknown;
  /** Its output is not shown, because those of the steps before it have 8 MiB; the history of the run has it. */
  readonly outputOmitted?: true;
  readonly failure?: Failure;
  /** The name of the worker that runs it, or ran it last; of items each has its own. */
  readonly worker?: string;
  /** Why it was canceled. */
  readonly reason?: string;
}

/** How many items there are in each status. */
export type ItemCounts = Readonly<Record<Exclude<StepStatus, 'skipped'>, number>>;

/** One step of a run. */
export interface FlowStep extends StepState {
  readonly name: string;
  readonly kind: StepKind;
  /** The items of a map or generator that are known so far; their outputs are read with `readFlowItems`. */
  readonly items?: ItemCounts;
}

/** One item of a map or generator. */
export interface FlowItem extends StepState {
  readonly index: number;
  readonly item?: unknown;
}

/** A run of a flow with its steps. */
export interface FlowRun {
  readonly id: string;
  readonly flow: string;
  readonly status: InstanceStatus;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly failure?: Failure;
  /** That of its steps that have none of their own. */
  readonly priority?: number;
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly endedAt?: number;
  /** The first wish that it stop: why, who asked, and when. */
  readonly cancel?: CancelRequest;
  /** When it was canceled for good. */
  readonly canceledAt?: number;
  /** Why its turns are held back, and since when. */
  readonly blocked?: { readonly reason: string; readonly at: number };
  /** The step that completed the whole flow, and why. */
  readonly completedEarly?: { readonly step: string; readonly reason: string };
  /** Signals that were taken. */
  readonly signals: readonly string[];
  /** In the order of their definition. */
  readonly steps: readonly FlowStep[];
  /** The on-fail handler, if it was called. */
  readonly onFail?: StepState;
}
