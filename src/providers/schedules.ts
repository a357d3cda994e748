import type { NewInstance } from './instances.ts';
import type { NewTask } from './tasks.ts';

/** A schedule as it is stored; what the texts mean is not the store's business. */
export interface ScheduleRecord {
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

/** A schedule to be created or changed. */
export interface ScheduleWrite {
  readonly name: string;
  readonly definition: string;
  readonly nextAt: number | null;
  /** Only if the record still has this revision (0: only if there is none). Absent: whatever is there. */
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
   * - keep paused, last tick and creation time of one that exists
   */
  putSchedule(write: ScheduleWrite): Promise<ScheduleRecord | undefined>;

  /** Pauses or resumes, with the next tick from then on; `false` when there is none of this name. */
  setSchedulePaused(name: string, paused: boolean, nextAt?: number | null): Promise<boolean>;

  /** Deletes a schedule; what it started goes on. `false` when there is none of this name. */
  deleteSchedule(name: string): Promise<boolean>;

  /** Lists schedules by name, one page at a time. */
  listSchedules(params: {
    readonly limit: number;
    readonly afterName?: string;
    readonly names?: readonly string[];
  }): Promise<readonly ScheduleRecord[]>;

  /** Those that are due by the store's clock and not paused, the longest due first; and when the next one is. */
  dueSchedules(max: number): Promise<{
    readonly due: readonly ScheduleRecord[];
    readonly nowMs: number;
    readonly nextAt: number | null;
  }>;

  /**
   * Makes ticks happen, each in one transaction: creates what it starts (an id that is taken counts as started) and
   * moves the schedule on.
   *
   * A provider must, per tick:
   * - answer `false`, changing nothing, when the revision does not fit or the schedule is paused or gone
   * - keep one bad tick from spoiling its neighbours
   */
  tickSchedules(ticks: readonly ScheduleTick[]): Promise<readonly boolean[]>;
}
