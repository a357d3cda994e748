/**
 * The contract that every store fulfils.
 *
 * P1. One transaction per state change: what was committed is all there, also after a restart.
 *     (atomic/an-ack-commits-all-its-parts, atomic/a-refused-ack-leaves-nothing,
 *     shared/state-survives-a-restart)
 * P2. Every write after a claim is fenced by the claim's token, and an expired token is worth nothing.
 *     (fence/an-expired-token-cannot-ack, fence/an-expired-token-cannot-settle-work,
 *     shared/a-token-works-in-every-process)
 * P3. Unique keys make repeats harmless: (instance, execution, event id), one work item per (instance,
 *     execution, operation). (atomic/event-ids-that-exist-are-refused, atomic/an-operation-has-one-work-item)
 * P4. One clock decides visibility and expiry. (lock/ends-at-its-moment, timer/is-hidden-until-due)
 * P5. An unknown commit outcome is resolved by reading again: `lastTurn` tells whether a turn landed.
 *     (ack/records-the-turn-as-the-last)
 * P6. Claims are counted in the claim, and given back by a shutdown or a hold-back. (claims/count-from-one,
 *     claims/an-abandoned-claim-counts-unless-given-back, blocked/counts-no-claim)
 * P7. Policy (retry, backoff, status) is computed outside; a provider stores what it is told.
 *     (retry/counts-a-failure-and-resets-the-claims, retry/waits-its-delay)
 * P8. A batch is the normal case, a batch of one the simple one, and one bad item never spoils its
 *     neighbours. (batch/empty-batches-answer-empty, batch/a-bad-turn-spares-its-neighbours, large/instances,
 *     large/turn, large/work)
 * P9. Hints are only hints: everything stays correct when all of them are dropped.
 *     (hint/nobody-has-to-listen)
 * P10. Text is only text: ids, names, tokens and payloads of any characters come back as they were given.
 *     (hostile/ids-are-only-text, hostile/names-and-versions-are-only-text, hostile/stored-text-is-not-touched,
 *     hostile/look-alikes-are-different-ids, hostile/tokens-are-only-text,
 *     hostile/children-and-messages-find-their-ids, large/payloads)
 * P11. Processes that open one store see the same state, and what one of them brings ends the waits of the
 *     others. (shared/claims-exclude-each-other, shared/work-from-elsewhere-ends-a-wait,
 *     shared/a-cancel-elsewhere-ends-a-wait)
 *
 * Every rule here, and every clause of the methods, names in parentheses the cases of the conformance suite
 * in `perdure/testing` that show it.
 */
import type { Clock } from '../../model/clock.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { CancellationStore } from './cancellation.ts';
import type { InspectionStore } from './inspection.ts';
import type { InstanceStore } from './instances.ts';
import type { ManagementStore } from './management.ts';
import type { ProcessStore } from './processes.ts';
import type { ScheduleStore } from './schedules.ts';
import type { SessionStore } from './sessions.ts';
import type { StreamStore } from './streams.ts';
import type { TaskStore } from './tasks.ts';
import type { OrchestrationQueue } from './orchestration-queue.ts';
import type { TransactionalWrites, TransactionConnection } from './transactional.ts';
import type { UnclaimedWorkStore } from './unclaimed-work.ts';
import type { CancelInfo, WorkQueue } from './work-queue.ts';

/** What a completed instance returned, and in which life of its id. */
export interface CompletedOutput {
  readonly incarnation: string;
  readonly output: Payload | null;
}

/** Something a waiting process may want to look at. A hint can come late, twice, or not at all. */
export type Hint =
  /**
   * Instances reached a terminal state, or were deleted, in this process or another one; what completed ones returned may
   * come along, to save a read.
   */
  | {
      readonly kind: 'finished';
      readonly instanceIds: readonly string[];
      readonly outputs?: ReadonlyMap<string, CompletedOutput>;
    }
  /**
   * Cancel was requested for these claimed items, or they were deleted: a renewal tells. What it would say of a request
   * may come along, to save it.
   */
  | {
      readonly kind: 'cancelRequested';
      readonly lockTokens: readonly string[];
      readonly cancels?: ReadonlyMap<string, CancelInfo>;
    }
  /** Chunks of these runs were added or read, in this process or where another one says so. */
  | { readonly kind: 'emitted'; readonly instanceIds: readonly string[] }
  /** The custom status of these instances was set, in this process or another one. */
  | { readonly kind: 'statusSet'; readonly instanceIds: readonly string[] }
  /** Another process changed something. */
  | { readonly kind: 'changed' }
  /** Hints of other processes were lost: instances may have ended, and custom status may have been set. */
  | { readonly kind: 'missed' };

/** How another thread of the process opens the same store: a module, its export, and options that can be cloned. */
export interface Reopening {
  readonly module: string;
  /** A function that takes the options and returns a promise for the provider. */
  readonly exportName: string;
  readonly options: object;
}

/** A store: SQLite, PostgreSQL, or yours. */
export interface Provider
  extends
    OrchestrationQueue,
    WorkQueue,
    InstanceStore,
    CancellationStore,
    ManagementStore,
    ProcessStore,
    TaskStore,
    ScheduleStore,
    SessionStore,
    StreamStore,
    UnclaimedWorkStore,
    InspectionStore {
  /** For logs and errors, without secrets. */
  readonly name: string;
  /** The clock of the store as far as this process knows it; absent: the machine's own. Workers use it. */
  readonly clock?: Clock;
  /** Whether `clock` only estimates the clock that decides, which is that of a server. Default: `false`. */
  readonly clockIsEstimate?: boolean;
  /** How another thread opens the same store; absent: it cannot, and a blocked worker is only logged. */
  readonly reopening?: Reopening;

  /**
   * Calls back on hints; returns how to stop.
   *
   * A provider must:
   * - tell of instances that ended or were deleted, after that has committed, on every path that ends one
   *   (hint/tells-of-finished-instances, hint/tells-of-stopped-instances, delete/tells-whoever-waits,
   *   hint/tells-nothing-of-instances-that-go-on)
   * - bring as `outputs`, if it brings any, what was committed for instances that completed, and of no others
   *   (hint/brings-the-outputs-of-completed-instances)
   * - tell of cancel requests to claimed items, with the tokens that hold them
   *   (hint/tells-whom-a-cancel-concerns, hint/tells-of-cancel-requests, shared/a-cancel-elsewhere-is-told)
   * - bring as `cancels`, if it brings any, the requests that were committed, as a renewal would tell them, and none
   *   for what was deleted (hint/brings-the-requests-of-canceled-items)
   * - tell of custom status that was set, after that has committed (hint/tells-of-custom-status)
   * - tell of ends and of custom status in other processes too, or that some were missed
   *   (shared/an-end-elsewhere-is-told, shared/custom-status-elsewhere-is-told)
   * - tell every listener until it stops (hint/reaches-every-listener-until-it-stops)
   */
  hints(listener: (hint: Hint) => void): () => void;

  /** Writes as a part of a transaction of the application, where the store can do that. */
  within?(connection: TransactionConnection): TransactionalWrites;

  /**
   * Releases the store.
   *
   * A provider must:
   * - finish what was begun (close/finishes-what-was-begun)
   * - end waits, with nothing claimed, and take back its alarms (wait/ends-at-close, close/leaves-no-alarm)
   * - be idempotent (close/can-be-repeated)
   * - reject every call that comes later with `CLOSED` (close/refuses-what-comes-later)
   */
  close(): Promise<void>;
}
