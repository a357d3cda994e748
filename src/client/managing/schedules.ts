import {
  readActor,
  readAuditOptions,
  type AuditNote,
  type AuditOptions,
} from '../../model/audit-options.ts';
import { cleanReason } from '../../model/cancel.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { readAttempt, type StartAttempt } from '../../model/values/start-attempt.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { TraceContext } from '../../model/trace-context.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import { randomToken } from '../../model/values/random-id.ts';
import { readFlag } from '../../management/management-options.ts';
import type { Overlap } from '../../schedules/overlap.ts';
import type { CatchUp } from '../../schedules/ticks.ts';
import { readTime } from '../../model/start-settings.ts';
import { traced, type CallPath } from '../starting/traced-call.ts';
import type { FailureSummary } from '../reading/inspect-instance.ts';
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
  /** When the next tick fires, including its jitter; absent if there is none. */
  readonly nextAt?: number;
  readonly lastTickAt?: number;
  /** The instance or task run that the last tick started. */
  readonly lastInstanceId?: string;
  /** Why the last tick started nothing. */
  readonly lastError?: string;
  /** Ticks that started no run because an earlier run had not ended. Absent: none. */
  readonly skippedTicks?: number;
  /** Ticks that wait for a run to end, earliest first. Absent: none. */
  readonly bufferedTicks?: readonly number[];
  /** Ids of its runs that have not ended, of the last 20 and all that overlap considers. `get` only. Absent: none. */
  readonly runningIds?: readonly string[];
  /** Its last runs, newest first, at most 10. `get` only. Absent: none. */
  readonly lastRuns?: readonly ScheduleRunInfo[];
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
    readonly jitterMs?: number;
    /** Absent: `'allow'`. */
    readonly overlap?: Overlap;
    /** Absent: 1. */
    readonly bufferLimit?: number;
    readonly starts: { readonly kind: 'task' | 'orchestration'; readonly name: string };
  };
}

/** A run that a tick or a trigger of a schedule started. */
export interface ScheduleRunInfo {
  readonly id: string;
  readonly status: InstanceStatus;
  readonly createdAt: number;
  /** Absent: it has not ended. */
  readonly endedAt?: number;
}

/** A past run of a schedule with its result. */
export interface ScheduleRun {
  readonly id: string;
  /** The definition that it runs. */
  readonly name: string;
  readonly status: InstanceStatus;
  readonly createdAt: number;
  readonly startedAt?: number;
  /** Absent: it has not ended. */
  readonly endedAt?: number;
  /** The tick that started it. Absent: a trigger did. */
  readonly tickAt?: number;
  readonly failure?: FailureSummary;
}

/** A future tick of a schedule. */
export interface NextTick {
  /** The tick, as it appears in the id of its run. */
  readonly tickAt: number;
  /** When it fires: the tick and its jitter. */
  readonly firesAt: number;
  /** The id of its run. */
  readonly id: string;
}

/** Options of `schedules.trigger()`. */
export interface TriggerOptions {
  /** Identifies the call: a repeat with the same key starts no second run. Default: a random key. */
  readonly key?: string | undefined;
  /** Recorded in the audit. */
  readonly actor?: string | undefined;
  /** Recorded in the audit. Cut to 4,096 characters. */
  readonly reason?: string | undefined;
}

/** The run of a trigger. */
export interface TriggerResult {
  /** The id of the run, or of the active run that holds its dedupe key. */
  readonly id: string;
  /** Whether this call created the run. */
  readonly created: boolean;
}

/** Options of `schedules.backfill()`. */
export interface BackfillOptions {
  /** The first tick at this time or later. */
  readonly from: Date | number;
  /** The last tick at this time or earlier. Ticks in the future are not started. */
  readonly to: Date | number;
  /** Maximum ticks of this call, 1 to 1,000. Default 1,000. */
  readonly limit?: number | undefined;
  /** Count without starting runs. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** Recorded in the audit. */
  readonly actor?: string | undefined;
  /** Recorded in the audit. Cut to 4,096 characters. */
  readonly reason?: string | undefined;
}

/** The ticks that a backfill processed. */
export interface BackfillResult {
  /** Runs that this call started, or would start. */
  readonly started: number;
  /** Ticks whose run exists already, or whose dedupe key an active run holds. */
  readonly existing: number;
  /** The `from` of the next call, if ticks are left. Absent: all are done. */
  readonly nextFrom?: number;
}

/** A trigger, checked. */
export interface TriggerCall extends StartAttempt {
  readonly key: string;
  readonly actor: string | null;
  readonly reason?: string;
  readonly trace?: TraceContext | undefined;
}

/** A backfill, checked. */
export interface BackfillCall extends StartAttempt {
  readonly from: number;
  readonly to: number;
  readonly limit: number;
  readonly dryRun: boolean;
  readonly actor: string | null;
  readonly reason?: string;
  readonly trace?: TraceContext | undefined;
}

/** A page of schedules, by name. */
export interface SchedulePage {
  readonly items: readonly ScheduleInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** The part of a client's backend that stores schedules. Names and requests are checked. */
export interface ScheduleBackend {
  put(
    name: string,
    request: ScheduleRequest,
    call: { readonly note: AuditNote; readonly trace?: TraceContext | undefined },
  ): Promise<ScheduleInfo>;
  /** Rejects with `SCHEDULE_NOT_FOUND`, as `resume` and `next` do. */
  pause(name: string, note: AuditNote): Promise<void>;
  resume(name: string, note: AuditNote): Promise<void>;
  delete(name: string, note: AuditNote): Promise<boolean>;
  get(name: string): Promise<ScheduleInfo | undefined>;
  list(page: { readonly limit: number; readonly after: string | undefined }): Promise<SchedulePage>;
  next(name: string, count: number): Promise<readonly NextTick[]>;
  /** Rejects with `SCHEDULE_NOT_FOUND`. */
  runs(name: string, limit: number): Promise<readonly ScheduleRun[]>;
  /** Rejects with `SCHEDULE_NOT_FOUND`, as `backfill` does. */
  trigger(name: string, call: TriggerCall): Promise<TriggerResult>;
  backfill(name: string, call: BackfillCall): Promise<BackfillResult>;
}

export interface SchedulesParams {
  readonly backend: ScheduleBackend;
  readonly payloadLimitBytes: number;
  readonly calls: CallPath;
  /** Throws if the client must not be used. */
  readonly assertOpen: () => void;
}

const maxCount = 1_000;
const maxRuns = 100;
const backfillKeys = ['from', 'to', 'limit', 'dryRun', 'actor', 'reason'] as const;

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
    const request = await readSchedule(schedule, this.#params.payloadLimitBytes);
    return traced(this.#params.calls, { kind: 'schedule', name }, (trace) =>
      backend.put(name, request, { note, trace }),
    );
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
    const ticks = await this.next(name, { count });
    return ticks.map(({ tickAt }) => new Date(tickAt));
  }

  /** Returns the next ticks with the times at which they fire, at most `count` (default 10); none while it is paused. */
  async next(
    name: string,
    options?: { readonly count?: number | undefined },
  ): Promise<readonly NextTick[]> {
    const backend = this.#open();
    const { count } = readFields(options, 'schedules.next()', ['count'] as const);
    return backend.next(checkScheduleName(name), readCount('count', count ?? 10));
  }

  /**
   * Lists the runs that ticks, triggers and backfills have started, newest first, at most `limit` (1 to 100, default 20).
   * Deleted runs are missing.
   */
  async runs(
    name: string,
    options?: { readonly limit?: number | undefined },
  ): Promise<readonly ScheduleRun[]> {
    const backend = this.#open();
    const { limit } = readFields(options, 'schedules.runs()', ['limit'] as const);
    return backend.runs(checkScheduleName(name), readCount('limit', limit ?? 20, maxRuns));
  }

  /**
   * Starts one run now, also while the schedule is paused or a run is live. The next tick stays the same. The run has the
   * id `name@trigger-key`; pass `key` to repeat a call whose response was lost.
   */
  async trigger(name: string, options?: TriggerOptions): Promise<TriggerResult> {
    const backend = this.#open();
    const given = readFields(options, 'schedules.trigger()', ['key', 'actor', 'reason'] as const);
    const key = given.key === undefined ? randomToken() : checkName(given.key, 'Trigger key');
    const instanceId = checkInstanceId(`${checkScheduleName(name)}@trigger-${key}`);
    const call = {
      key,
      actor: readActor(given.actor),
      ...readReason(given.reason),
      ...readAttempt(options),
    };
    return traced(this.#params.calls, { kind: 'trigger', name, instanceId }, (trace) =>
      backend.trigger(name, { ...call, trace }),
    );
  }

  /**
   * Starts the runs of past ticks, each at most once: the ids are those of the ticks. Ignores `overlap`. Processes at
   * most `limit` ticks; repeat it with `from: nextFrom` until `nextFrom` is absent.
   */
  async backfill(name: string, options: BackfillOptions): Promise<BackfillResult> {
    const backend = this.#open();
    checkScheduleName(name);
    const given = readFields(options, 'schedules.backfill()', backfillKeys);
    const [from, to] = [readTime('from', given.from), readTime('to', given.to)];
    if (from === undefined) throw invalid('from', from, 'the time of the first tick');
    if (to === undefined || to < from) throw invalid('to', to, 'a time that is not before `from`');
    const call = {
      from: Math.ceil(from),
      to: Math.floor(to),
      limit: readCount('limit', given.limit ?? maxCount),
      dryRun: readFlag('dryRun', given.dryRun),
      actor: readActor(given.actor),
      ...readReason(given.reason),
      ...readAttempt(options),
    };
    return traced(this.#params.calls, { kind: 'trigger', name }, (trace) =>
      backend.backfill(name, { ...call, trace }),
    );
  }

  #open(): ScheduleBackend {
    this.#params.assertOpen();
    return this.#params.backend;
  }
}

function readReason(reason: unknown): { readonly reason?: string } {
  return reason === undefined ? {} : { reason: cleanReason(reason) };
}

function checkScheduleName(name: unknown): string {
  return checkName(name, 'Schedule name');
}

function readCount(what: string, count: unknown, max = maxCount): number {
  if (Number.isSafeInteger(count) && (count as number) >= 1 && (count as number) <= max) {
    return count as number;
  }
  throw invalid(what, count, `a whole number from 1 to ${max}`);
}
