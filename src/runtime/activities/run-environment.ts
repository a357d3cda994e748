import type { Clock } from '../../model/clock.ts';
import type { PointOfNoReturn } from '../../providers/contract/cancellation.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { TaskClient } from '../../tasks/task.ts';
import type { ResolvedOptions } from '../options.ts';
import type { LeakedHandlers, StartSlices } from './concurrency.ts';
import type { Emitter } from './emitter.ts';
import type { RunningActivityContext } from './running-context.ts';
import type { SessionReader } from './session-reader.ts';

/** What all runs of a worker share. */
export interface RunEnvironment {
  readonly clock: Clock;
  readonly options: ResolvedOptions;
  readonly client: TaskClient;
  readonly markPointOfNoReturn: (lockToken: string) => Promise<PointOfNoReturn>;
  /** Cancels the run of the item. Tasks only. */
  readonly cancelRun: (item: WorkItem, reason: string | undefined) => Promise<void>;
  readonly newEmitter: (item: WorkItem, context: RunningActivityContext) => Emitter;
  readonly store: Pick<Provider, 'name' | 'transact'>;
  readonly sessions: SessionReader;
  readonly starts: StartSlices;
  readonly leaked: LeakedHandlers;
  readonly leases: StartLeases;
  readonly watchdogId: number;
  /** Called when the handler blocked the event loop, and so the renewals, past its lease. */
  readonly onBlocked: (item: WorkItem, blockedMs: number) => void;
}

/** Checks of the claim directly before the handler starts. */
interface StartLeases {
  isHeld(lockToken: string): boolean;
  pendingRenewal(lockToken: string): Promise<unknown> | undefined;
  /** Stops renewing a claim. */
  remove(lockToken: string): void;
}
