import { readAuditOptions, type AuditNote, type AuditOptions } from '../../model/audit-options.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { checkName } from '../../model/values/names.ts';
import type { CatchUp } from '../../schedules/ticks.ts';
import {
  readSchedule,
  type FlowSchedule,
  type OrchestrationSchedule,
  type ScheduleRequest,
  type TaskSchedule,
} from './schedule-request.ts';

/** The state of a schedule. All times are milliseconds since the epoch. */
export interface ScheduleInfo {
  readonly name: string;
  readonly paused: boolean;
  /** The next tick; absent if there is none. */
  readonly nextAt?: number;
  readonly lastTickAt?: number;
  /** The instance or task run that the last tick started. */
  readonly lastInstanceId?: string;
  /** Why the last tick started nothing. */
  readonly lastError?: string;
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Absent if the stored definition is damaged. */
  readonly definition?: {
    readonly cron?: string;
    readonly timeZone?: string;
    readonly everyMs?: number;
    readonly startAt?: number;
    readonly endAt?: number;
    readonly catchUp: CatchUp;
    readonly starts: { readonly kind: 'task' | 'orchestration'; readonly name: string };
  };
}

/** A page of schedules, by name. */
export interface SchedulePage {
  readonly items: readonly ScheduleInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** The part of a client's backend that stores schedules. Names and requests are checked. */
export interface ScheduleBackend {
  put(name: string, request: ScheduleRequest, note?: AuditNote): Promise<ScheduleInfo>;
  /** Rejects with `SCHEDULE_NOT_FOUND`, as `resume` and `nextRuns` do. */
  pause(name: string, note?: AuditNote): Promise<void>;
  resume(name: string, note?: AuditNote): Promise<void>;
  delete(name: string, note?: AuditNote): Promise<boolean>;
  get(name: string): Promise<ScheduleInfo | undefined>;
  list(page: { readonly limit: number; readonly after: string | undefined }): Promise<SchedulePage>;
  nextRuns(name: string, count: number): Promise<readonly Date[]>;
}

export interface SchedulesParams {
  readonly backend: ScheduleBackend;
  readonly payloadLimitBytes: number;
  /** Throws if the client must not be used. */
  readonly assertOpen: () => void;
}

const maxCount = 1_000;

/** Starts tasks, orchestrations and flows at given times, once per tick across all workers. */
export class Schedules {
  readonly #params: SchedulesParams;

  constructor(params: SchedulesParams) {
    this.#params = params;
  }

  /**
   * Creates the schedule `name`, or changes it. Idempotent: a program may put its schedules at every start. The ticks
   * continue unless the timing changes.
   */
  put<Input>(
    name: string,
    schedule: TaskSchedule<Input>,
    options?: AuditOptions,
  ): Promise<ScheduleInfo>;
  put<Input>(
    name: string,
    schedule: OrchestrationSchedule<Input>,
    options?: AuditOptions,
  ): Promise<ScheduleInfo>;
  put<Input>(
    name: string,
    schedule: FlowSchedule<Input>,
    options?: AuditOptions,
  ): Promise<ScheduleInfo>;
  async put(name: string, schedule: unknown, options?: AuditOptions): Promise<ScheduleInfo> {
    const backend = this.#open();
    checkScheduleName(name);
    const note = readAuditOptions(options, 'schedules.put()');
    return backend.put(name, await readSchedule(schedule, this.#params.payloadLimitBytes), note);
  }

  /** Stops a schedule from firing until it is resumed. Runs that it started continue. */
  async pause(name: string, options?: AuditOptions): Promise<void> {
    const note = readAuditOptions(options, 'schedules.pause()');
    await this.#open().pause(checkScheduleName(name), note);
  }

  /** Resumes a paused schedule from its next tick; ticks missed during the pause are skipped. */
  async resume(name: string, options?: AuditOptions): Promise<void> {
    const note = readAuditOptions(options, 'schedules.resume()');
    await this.#open().resume(checkScheduleName(name), note);
  }

  /** Deletes a schedule and returns whether it existed. Runs that it started continue. */
  async delete(name: string, options?: AuditOptions): Promise<boolean> {
    const note = readAuditOptions(options, 'schedules.delete()');
    return this.#open().delete(checkScheduleName(name), note);
  }

  /** Reads a schedule; `undefined` for an unknown name. */
  async get(name: string): Promise<ScheduleInfo | undefined> {
    return this.#open().get(checkScheduleName(name));
  }

  /** Lists schedules by name, one page at a time. */
  async list(page?: {
    readonly limit?: number | undefined;
    readonly after?: string | undefined;
  }): Promise<SchedulePage> {
    const backend = this.#open();
    const { limit, after } = readFields(page, 'schedules.list()', ['limit', 'after'] as const);
    return backend.list({
      limit: readCount('limit', limit ?? 100),
      after: after === undefined ? undefined : checkScheduleName(after),
    });
  }

  /** Returns the next ticks of a schedule, at most `count`; none while it is paused. */
  async nextRuns(name: string, count = 10): Promise<readonly Date[]> {
    const backend = this.#open();
    return backend.nextRuns(checkScheduleName(name), readCount('count', count));
  }

  #open(): ScheduleBackend {
    this.#params.assertOpen();
    return this.#params.backend;
  }
}

function checkScheduleName(name: unknown): string {
  return checkName(name, 'Schedule name');
}

function readCount(what: string, count: unknown): number {
  if (Number.isSafeInteger(count) && (count as number) >= 1 && (count as number) <= maxCount) {
    return count as number;
  }
  throw invalid(what, count, `a whole number from 1 to ${maxCount}`);
}
