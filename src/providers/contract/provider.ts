/**
 * The contract that every store implements.
 *
 * P1. One transaction per state change: committed changes are complete, also after a restart.
 *   (atomic/an-ack-commits-all-its-parts, atomic/a-refused-ack-leaves-nothing, shared/state-survives-a-restart)
 * P2. Every write after a claim is fenced by the claim's token, and an expired token is invalid.
 *   (fence/an-expired-token-cannot-ack, fence/an-expired-token-cannot-settle-work,
 *   shared/a-token-works-in-every-process)
 * P3. Unique keys make repeats harmless: (instance, execution, event id), and one work item per (instance, execution,
 *   operation). (atomic/event-ids-that-exist-are-refused, atomic/an-operation-has-one-work-item)
 * P4. One clock decides visibility and expiry. (lock/ends-at-its-moment, timer/is-hidden-until-due)
 * P5. An unknown commit outcome is resolved by a read: `lastTurn` shows whether a turn was committed.
 *   (ack/records-the-turn-as-the-last)
 * P6. A claim increments the claim count. A shutdown or a hold-back gives it back. (claims/count-from-one,
 *   claims/an-abandoned-claim-counts-unless-given-back, blocked/counts-no-claim)
 * P7. Policy (retry, backoff, status) is computed by the caller. A provider only stores the result.
 *   (retry/counts-a-failure-and-resets-the-claims, retry/waits-its-delay)
 * P8. Operations take batches, and one bad item does not affect the others. (batch/empty-batches-answer-empty,
 *   batch/a-bad-turn-spares-its-neighbours, large/instances, large/turn, large/work)
 * P9. Hints are best-effort: everything stays correct if all of them are lost. (hint/needs-no-listener)
 * P10. Text is opaque: ids, names, tokens and payloads with any characters are returned unchanged.
 *   (hostile/ids-are-only-text, hostile/names-and-versions-are-only-text, hostile/stored-text-is-not-touched,
 *   hostile/look-alikes-are-different-ids, hostile/tokens-are-only-text,
 *   hostile/children-and-messages-find-their-ids, large/payloads)
 * P11. Processes that open one store see the same state, and a commit of one ends the waits of the others.
 *   (shared/claims-exclude-each-other, shared/work-from-elsewhere-ends-a-wait,
 *   shared/a-cancel-elsewhere-ends-a-wait)
 *
 * Each rule and each clause of a method lists in parentheses the cases of the conformance suite in `perdure/testing`
 * that test it.
 */
import type { Clock } from '../../model/clock.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { CancellationStore } from './cancellation.ts';
import type { InspectionStore } from './inspection.ts';
import type { InstanceStore } from './instances.ts';
import type { LimitStore } from './limits.ts';
import type { ManagementStore } from './management.ts';
import type { PauseStore } from './pausing.ts';
import type { ProcessStore } from './processes.ts';
import type { RerunStore } from './reruns.ts';
import type { ScheduleStore } from './schedules.ts';
import type { SeriesStore } from './series.ts';
import type { SessionStore } from './sessions.ts';
import type { StateStore } from './state.ts';
import type { StreamStore } from './streams.ts';
import type { TaskStore } from './tasks.ts';
import type { OrchestrationQueue } from './orchestration-queue.ts';
import type { UpdateStore } from './updates.ts';
import type {
  TransactionalWrites,
  TransactionConnection,
  TransactionStore,
} from './transactional.ts';
import type { UnclaimedWorkStore } from './unclaimed-work.ts';
import type { ViewStore } from './views.ts';
import type { CancelInfo, WorkQueue } from './work-queue.ts';
import type { WorkerStore } from './workers.ts';

/** The output of a completed instance, with its incarnation. */
export interface CompletedOutput {
  readonly incarnation: string;
  readonly output: Payload | null;
}

/** A notification that data changed. It can arrive late, twice or never. */
export type Hint =
  /**
   * Instances ended or were deleted, in this or another process.
   * The outputs of completed ones may be included to save a read.
   */
  | {
      readonly kind: 'finished';
      readonly instanceIds: readonly string[];
      readonly outputs?: ReadonlyMap<string, CompletedOutput>;
    }
  /**
   * These claimed items were asked to stop or were deleted.
   * The requests, as a renewal returns them, may be included to save it.
   */
  | {
      readonly kind: 'cancelRequested';
      readonly lockTokens: readonly string[];
      readonly cancels?: ReadonlyMap<string, CancelInfo>;
    }
  /** Chunks of these runs were added or read, in this process or a notifying one. */
  | { readonly kind: 'emitted'; readonly instanceIds: readonly string[] }
  /** The custom status or the state of these instances was set, or updates of them got replies, in any process. */
  | { readonly kind: 'statusSet'; readonly instanceIds: readonly string[] }
  /** Claimed instances got messages, in this process or a notifying one. */
  | { readonly kind: 'messages'; readonly instanceKeys: readonly number[] }
  /** Another process committed a change. */
  | { readonly kind: 'changed' }
  /** This process, or a notifying one, committed a change. Sent with every commit: throttle what follows from it. */
  | { readonly kind: 'committed' }
  /**
   * Hints of other processes were lost: instances may have ended or replied, and custom status may have been set. A store that
   * cannot name the instances that other processes end sends it instead of `finished`.
   */
  | { readonly kind: 'missed' };

/** How another thread opens the same store: a module, its export, and cloneable options. */
export interface Reopening {
  readonly module: string;
  /** The exported function takes the options and resolves to a provider. */
  readonly exportName: string;
  readonly options: object;
}

/** A store: SQLite, PostgreSQL, or your own. */
export interface Provider
  extends
    OrchestrationQueue,
    WorkQueue,
    InstanceStore,
    CancellationStore,
    ManagementStore,
    PauseStore,
    ProcessStore,
    WorkerStore,
    TaskStore,
    ScheduleStore,
    SessionStore,
    StreamStore,
    UpdateStore,
    UnclaimedWorkStore,
    RerunStore,
    StateStore,
    InspectionStore,
    ViewStore,
    SeriesStore,
    LimitStore,
    Partial<TransactionStore> {
  /** For logs and errors. Contains no secrets. */
  readonly name: string;
  /** The store's clock as known to this process, used by workers. Absent: the system clock. */
  readonly clock?: Clock;
  /** Whether `clock` only estimates the clock of a database server. Default: `false`. */
  readonly clockIsEstimate?: boolean;
  /** How another thread opens the same store. Absent: not supported, and a blocked worker is only logged. */
  readonly reopening?: Reopening;

  /**
   * Subscribes to hints. Returns a function that unsubscribes.
   *
   * A provider must:
   * - report instances that ended or were deleted, after the commit, on every path that ends one
   *   (hint/tells-of-finished-instances, hint/tells-of-stopped-instances, delete/notifies-waiting-clients,
   *   hint/tells-nothing-of-instances-that-go-on)
   * - include in `outputs`, if at all, only committed outputs of completed instances
   *   (hint/brings-the-outputs-of-completed-instances)
   * - report cancel requests to claimed items, with their lock tokens (hint/tells-whom-a-cancel-concerns,
   *   hint/tells-of-cancel-requests, shared/a-cancel-elsewhere-is-told)
   * - include in `cancels`, if at all, the committed requests as a renewal returns them, and none for deleted items
   *   (hint/brings-the-requests-of-canceled-items)
   * - report a set custom status and a changed state, after the commit (hint/tells-of-custom-status,
   *   state/emits-a-hint)
   * - report messages to claimed instances, after the commit (hint/tells-of-messages-to-claimed-instances)
   * - also report ends, custom status and state of other processes, or that some were missed
   *   (shared/an-end-elsewhere-is-told, shared/custom-status-elsewhere-is-told, shared/state-elsewhere-is-told)
   * - send `committed` after every commit of this process that changes an instance (hint/tells-of-commits)
   * - notify every listener until it unsubscribes (hint/reaches-every-listener-until-it-stops)
   */
  hints(listener: (hint: Hint) => void): () => void;

  /** Writes within a transaction of the application, if the store supports it. */
  within?(connection: TransactionConnection): TransactionalWrites;

  /**
   * Closes the store.
   *
   * A provider must:
   * - complete pending operations (close/finishes-what-was-begun)
   * - end waits without a claim, and clear its timers (wait/ends-at-close, close/leaves-no-alarm)
   * - be idempotent (close/can-be-repeated)
   * - reject every later call with `CLOSED` (close/refuses-what-comes-later)
   */
  close(): Promise<void>;
}
