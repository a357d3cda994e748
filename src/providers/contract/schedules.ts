import type { NewInstance } from './instances.ts';
import type { Withheld } from './page-bytes.ts';
import type { NewTask } from './tasks.ts';

/** A schedule as it is stored; what the texts mean is not the store's business. */
export interface ScheduleRecord extends Withheld {
  readonly name: string;
  /** When it fires, what it starts, what it does about missed ticks: JSON text. */
  readonly definition: string;
  /** Changes with every write to the definition or to `nextAt`: the fence of a tick. */
  readonly revision: number;
  readonly paused: boolean;
  /** The next tick; `null` when there is none left. */
  readonly nextAt: number | null;
  readonly lastTickAt: number | null;
  readonly lastInstanceId: string | null;
  /** Why the last tick could start nothing. */
  readonly lastError: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What is written of a schedule. */
export interface SchedulePlan {
  readonly definition: string;
  readonly nextAt: number | null;
}

/** A schedule to be written, with everything decided. */
export interface PlannedSchedule extends SchedulePlan {
  readonly name: string;
  readonly ifRevision?: number | undefined;
}

/** A schedule to be created or changed. */
export type ScheduleWrite = {
  readonly name: string;
  /** Only if the record still has this revision (0: only if there is none). Absent: whatever is there. */
  readonly ifRevision?: number;
} & (
  | SchedulePlan
  | {
      /**
       * Plans by the time of the transaction that writes it; `undefined`: write nothing. Must be pure and must not throw:
       * a transaction that is repeated calls it again.
       */
      readonly plan: (nowMs: number) => SchedulePlan | undefined;
    }
);

/** How a schedule goes on that is paused or resumed. */
export interface ScheduleResume {
  /** The next tick from then on, or what it is by the time of the transaction. Absent: as it is. */
  readonly nextAt?: number | null | ((nowMs: number) => number | null);
  /** Only if the record still has this revision. Absent: whatever is there. */
  readonly ifRevision?: number;
}

/** Ticks that have come: what they start, and when the schedule fires next. */
export interface ScheduleTick {
  readonly name: string;
  /** Only if the schedule still has this revision and is not paused. */
  readonly revision: number;
  readonly nextAt: number | null;
  readonly lastTickAt: number;
  readonly instances: readonly NewInstance[];
  readonly tasks: readonly NewTask[];
  /** What kept the tick from starting anything. */
  readonly error: string | null;
}

/** Schedules: each tick happens once among all workers, because starting and moving on is one transaction. */
export interface ScheduleStore {
  /**
   * Creates or changes a schedule; answers the record, or `undefined` if `ifRevision` does not fit.
   *
   * A provider must:
   * - keep what it is given, as it is (schedule/comes-as-it-was-put)
   * - call `plan` with the time of its own clock in the transaction, and write nothing where it returns `undefined`
   *   (schedule/is-planned-by-the-stores-clock)
   * - give it a new revision, also one that was deleted and made anew, and keep paused, last tick and creation time
   *   of one that exists (schedule/a-change-keeps-its-past, schedule/needs-its-revision)
   * - change nothing when `ifRevision` does not fit (schedule/a-write-can-be-fenced)
   */
  putSchedule(write: ScheduleWrite): Promise<ScheduleRecord | undefined>;

  /**
   * Pauses or resumes; `false` when there is none of this name, or `ifRevision` does not fit.
   *
   * A provider must:
   * - give it a new revision, and leave the next tick as it is when none is given (schedule/can-be-paused)
   * - call `nextAt` with the time of its own clock in the transaction (schedule/a-resume-is-planned-by-the-stores-clock)
   * - change nothing when `ifRevision` does not fit (schedule/a-resume-can-be-fenced)
   */
  setSchedulePaused(name: string, paused: boolean, resume?: ScheduleResume): Promise<boolean>;

  /**
   * Deletes a schedule; `false` when there is none of this name.
   *
   * A provider must:
   * - leave what it started (schedule/can-be-deleted)
   */
  deleteSchedule(name: string): Promise<boolean>;

  /**
   * Lists schedules, one page at a time.
   *
   * A provider must:
   * - list by name, compared by code points, at most `limit`, and only those that are named (schedule/lists-by-name)
   * - with `maxBytes` and without names, end the page with the first entry, but never the first of the page, whose
   *   definition would take it over so many bytes; that one is `withheld` and has an empty one
   *   (schedule/list-ends-at-its-bytes)
   */
  listSchedules(params: {
    readonly limit: number;
    readonly afterName?: string;
    readonly names?: readonly string[];
    readonly maxBytes?: number;
  }): Promise<readonly ScheduleRecord[]>;

  /**
   * Reads which schedules are due by the store's clock, and when the next one after those is.
   *
   * A provider must:
   * - answer those that are not paused, the longest due first, at most `max`
   *   (schedule/the-longest-due-is-first, schedule/can-be-paused)
   */
  dueSchedules(max: number): Promise<{
    readonly due: readonly ScheduleRecord[];
    readonly nowMs: number;
    readonly nextAt: number | null;
  }>;

  /**
   * Makes ticks happen, each in one transaction: creates what it starts and moves the schedule on.
   *
   * A provider must, per tick:
   * - create all that it starts, and record the last of it (schedule/a-tick-starts-and-moves-on)
   * - count an id that is taken, or a key that another run has, as started
   *   (schedule/what-is-there-counts-as-started)
   * - answer `false`, changing nothing, when the revision does not fit or the schedule is paused or gone, so that of
   *   ticks for one revision one happens (schedule/a-tick-happens-once, shared/a-tick-happens-once,
   *   schedule/needs-its-revision)
   * - record the error of a tick that starts nothing (schedule/an-error-is-on-record)
   * - start nothing of a tick that it cannot take, but move on with that error, because it would hold up the
   *   schedule for ever; its neighbours are not affected (schedule/a-bad-tick-spares-its-neighbours)
   */
  tickSchedules(ticks: readonly ScheduleTick[]): Promise<readonly boolean[]>;
}
