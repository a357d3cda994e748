import type { NewInstance } from './instances.ts';
import type { AuditEntry } from './management.ts';
import type { Withheld } from './page-bytes.ts';
import type { NewTask } from './tasks.ts';

/** A stored schedule. The store does not interpret its texts. */
export interface ScheduleRecord extends Withheld {
  readonly name: string;
  /** When it fires, what it starts, and its policy for missed ticks, as JSON text. */
  readonly definition: string;
  /** Changes with every write to the definition or to `nextAt`. The fence of a tick. */
  readonly revision: number;
  readonly paused: boolean;
  /** The next tick. `null` if there is none. */
  readonly nextAt: number | null;
  readonly lastTickAt: number | null;
  readonly lastInstanceId: string | null;
  /** Why the last tick started nothing. */
  readonly lastError: string | null;
  /**
   * The last 20 runs of ticks and triggers, oldest first. If a tick has `whileRunning`, also every earlier one that had
   * not ended by then.
   */
  readonly runIds: readonly string[];
  /** Times of the ticks that wait until no run of `runIds` is live, earliest first. */
  readonly bufferedTicks: readonly number[];
  /** Ticks that started no run because an earlier run had not ended. */
  readonly skippedTicks: number;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** The values to write to a schedule. */
export interface SchedulePlan {
  readonly definition: string;
  readonly nextAt: number | null;
}

/** A schedule to write, with all values. */
export interface PlannedSchedule extends SchedulePlan {
  readonly name: string;
  readonly ifRevision?: number | undefined;
}

/** A schedule to create or update. */
export type ScheduleWrite = {
  readonly name: string;
  /** Only if the record has this revision (0: only if there is none). Absent: any. */
  readonly ifRevision?: number;
  /** Recorded in the same transaction if the schedule is written. Absent: not recorded. */
  readonly audit?: AuditEntry;
} & (
  | SchedulePlan
  | {
      /**
       * Computes the values from the time of the transaction. `undefined`: write nothing.
       * Must be pure and must not throw: a retried transaction calls it again.
       */
      readonly plan: (nowMs: number) => SchedulePlan | undefined;
    }
);

/** How to pause or resume a schedule. */
export interface ScheduleResume {
  /** The next tick, or a function of the transaction's time. Absent: unchanged. */
  readonly nextAt?: number | null | ((nowMs: number) => number | null);
  /** Only if the record has this revision. Absent: any. */
  readonly ifRevision?: number;
  /** Recorded in the same transaction if the schedule is written. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/** Due ticks: what they start, and when the schedule fires next. */
export interface ScheduleTick {
  readonly name: string;
  /** Only if the schedule has this revision and is not paused. */
  readonly revision: number;
  readonly nextAt: number | null;
  readonly lastTickAt: number;
  readonly instances: readonly NewInstance[];
  readonly tasks: readonly NewTask[];
  /** Why the tick started nothing. */
  readonly error: string | null;
  /** The buffered ticks after this one. Absent: none. */
  readonly bufferedTicks?: readonly number[];
  /** Ticks to add to `skippedTicks`. Absent: 0. */
  readonly skipped?: number;
  /** Applied instead of the runs while a run of the schedule has not ended. Absent: runs may overlap. */
  readonly whileRunning?: WhileRunning;
}

/** The effect of a tick while an earlier run of its schedule has not ended. The tick starts nothing. */
export interface WhileRunning {
  readonly bufferedTicks: readonly number[];
  readonly skipped: number;
  /** Cancels every run of the schedule that has not ended. Absent: they continue. */
  readonly cancel?: { readonly reason: string; readonly cleanupMs: number };
}

/** Runs to start for a schedule in addition to its ticks. */
export interface ScheduledRuns {
  readonly name: string;
  /** Only if the schedule has this revision. */
  readonly ifRevision: number;
  readonly instances: readonly NewInstance[];
  readonly tasks: readonly NewTask[];
  /** Whether the runs become part of `runIds`, so that later ticks consider them. */
  readonly areTracked: boolean;
  /** Recorded in the same transaction if a run was started. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/** A run of `ScheduledRuns`. */
export interface ScheduledRun {
  /** The id of the run, or of the run that holds its dedupe key. */
  readonly instanceId: string;
  /** Whether the call created the run. */
  readonly created: boolean;
}

/** Schedules. Each tick fires once across all workers, because one transaction starts its runs and advances the schedule. */
export interface ScheduleStore {
  /**
   * Creates or updates a schedule. Returns the record, or `undefined` if `ifRevision` does not match.
   *
   * A provider must:
   * - store the values unchanged (schedule/comes-as-it-was-put)
   * - call `plan` with the time of its own clock in the transaction, and write nothing if it returns `undefined`
   *   (schedule/is-planned-by-the-stores-clock)
   * - assign a new revision, also to one that was deleted and recreated, and keep paused, last tick and creation time
   *   of an existing one (schedule/a-change-keeps-its-past, schedule/needs-its-revision)
   * - change nothing if `ifRevision` does not match (schedule/a-write-can-be-fenced)
   * - record the audit entry in the same transaction, exactly if it wrote the schedule (audit/records-schedules)
   */
  putSchedule(write: ScheduleWrite): Promise<ScheduleRecord | undefined>;

  /**
   * Pauses or resumes a schedule. Returns `false` for an unknown name, or if `ifRevision` does not match.
   *
   * A provider must:
   * - assign a new revision, and keep the next tick if none is given (schedule/can-be-paused)
   * - call `nextAt` with the time of its own clock in the transaction
   *   (schedule/a-resume-is-planned-by-the-stores-clock)
   * - change nothing if `ifRevision` does not match (schedule/a-resume-can-be-fenced)
   * - record the audit entry as `putSchedule` does (audit/records-schedules)
   */
  setSchedulePaused(name: string, paused: boolean, resume?: ScheduleResume): Promise<boolean>;

  /**
   * Deletes a schedule. Returns `false` for an unknown name.
   *
   * A provider must:
   * - keep the runs that it started (schedule/can-be-deleted)
   * - record the audit entry as `putSchedule` does (audit/records-schedules)
   */
  deleteSchedule(name: string, audit?: AuditEntry): Promise<boolean>;

  /**
   * Lists schedules, one page at a time.
   *
   * A provider must:
   * - list by name in code point order, at most `limit`, and only the given names (schedule/lists-by-name)
   * - with `maxBytes` and without names, end the page with the first entry whose definition would exceed this size,
   *   unless it is the first of the page; that entry is `withheld` and has an empty definition
   *   (schedule/list-ends-at-its-bytes)
   */
  listSchedules(params: {
    readonly limit: number;
    readonly afterName?: string;
    readonly names?: readonly string[];
    readonly maxBytes?: number;
  }): Promise<readonly ScheduleRecord[]>;

  /**
   * Reads the schedules that are due by the store's clock, and when the next one is due.
   *
   * A provider must:
   * - return those that are not paused, longest due first, at most `max` (schedule/the-longest-due-is-first,
   *   schedule/can-be-paused)
   * - also return schedules with buffered ticks once every run of `runIds` has ended or was deleted, at most `max`
   *   (schedule/a-buffered-tick-is-due-after-the-run)
   * - return in `waitsFor` ids of live runs that hold back buffered ticks, at most 1,000
   *   (schedule/a-buffered-tick-is-due-after-the-run)
   */
  dueSchedules(max: number): Promise<{
    readonly due: readonly ScheduleRecord[];
    readonly nowMs: number;
    readonly nextAt: number | null;
    readonly waitsFor: readonly string[];
  }>;

  /**
   * Fires ticks, each in one transaction: creates its runs and advances the schedule.
   *
   * A provider must, per tick:
   * - create all runs, and record the last one (schedule/a-tick-starts-and-moves-on)
   * - count an id that is taken, or a key that another run holds, as started
   *   (schedule/what-is-there-counts-as-started)
   * - return `false`, changing nothing, if the revision does not match or the schedule is paused or deleted, so that
   *   one tick per revision fires (schedule/a-tick-happens-once, shared/a-tick-happens-once,
   *   schedule/needs-its-revision)
   * - record the error of a tick that starts nothing (schedule/an-error-is-on-record)
   * - start nothing of a tick that the store rejects, but advance the schedule with that error, because it would
   *   block the schedule forever; other ticks are not affected (schedule/a-bad-tick-spares-its-neighbours)
   * - store the buffered ticks, add the skipped ones, and append the runs to `runIds` (schedule/a-tick-keeps-its-runs,
   *   schedule/a-tick-waits-for-the-run)
   * - with `whileRunning`, check in the transaction whether a run of `runIds` or `lastInstanceId` has not ended; if so,
   *   start nothing and apply `whileRunning` (schedule/a-tick-waits-for-the-run, schedule/a-run-that-ended-is-not-live,
   *   shared/one-run-at-a-time)
   * - with `cancel`, request the cancel of all live runs in the same transaction, as `requestCancel` does
   *   (schedule/a-tick-cancels-the-run)
   */
  tickSchedules(ticks: readonly ScheduleTick[]): Promise<readonly boolean[]>;

  /**
   * Starts runs of a schedule in one transaction, without a tick. Returns `undefined` if the revision does not match.
   *
   * A provider must:
   * - keep the revision, the ticks and the pause of the schedule, and start the runs also while it is paused
   *   (schedule/a-trigger-moves-no-tick)
   * - return per run, instances first, whether it was created; a taken id or held dedupe key changes nothing
   *   (schedule/a-trigger-can-be-repeated)
   * - append tracked runs to `runIds`, and record the last one as `lastInstanceId` (schedule/a-trigger-moves-no-tick,
   *   schedule/untracked-runs-leave-no-trace)
   * - change nothing if the name is unknown or the revision does not match (schedule/a-trigger-needs-the-revision)
   * - record the audit entry if a run was created, and only then (schedule/a-trigger-is-audited)
   * - reject if the store rejects a run, changing nothing (schedule/a-rejected-trigger-changes-nothing)
   */
  startScheduledRuns(runs: ScheduledRuns): Promise<readonly ScheduledRun[] | undefined>;
}
