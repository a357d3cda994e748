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
   */
  dueSchedules(max: number): Promise<{
    readonly due: readonly ScheduleRecord[];
    readonly nowMs: number;
    readonly nextAt: number | null;
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
   */
  tickSchedules(ticks: readonly ScheduleTick[]): Promise<readonly boolean[]>;
}
