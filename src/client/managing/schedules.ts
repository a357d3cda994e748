import { PerdureError } from '../../model/failures/errors.ts';
import { checkName } from '../../model/values/names.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { SchedulePlan, ScheduleRecord } from '../../providers/contract/schedules.ts';
import {
  decodeSchedule,
  timingOf,
  type ScheduleDefinition,
} from '../../schedules/schedule-definition.ts';
import { maxPageBytes } from '../reading/page-bytes.ts';
import { toScheduleInfo, type ScheduleInfo } from './schedule-info.ts';
import {
  readSchedule,
  type FlowSchedule,
  type OrchestrationSchedule,
  type TaskSchedule,
} from './schedule-request.ts';

/** A page of schedules, by name. */
export interface SchedulePage {
  readonly items: readonly ScheduleInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

export interface SchedulesParams {
  readonly provider: Provider;
  readonly payloadLimitBytes: number;
  /** Throws where a client must not be used. */
  readonly assertOpen: () => void;
  /** Tells the workers of this process that there is something new. */
  readonly onChanged: () => void;
}

const maxCount = 1_000;

/** Starts tasks, orchestrations and flows at given times, once for each tick among all workers. */
export class Schedules {
  readonly #params: SchedulesParams;

  constructor(params: SchedulesParams) {
    this.#params = params;
  }

  /**
   * Creates a schedule, or changes the one of this name. Putting what is there already changes nothing: a program may
   * do so whenever it starts. Its ticks go on as they were unless its timing changes.
   */
  put<Input>(name: string, schedule: TaskSchedule<Input>): Promise<ScheduleInfo>;
  put<Input>(name: string, schedule: OrchestrationSchedule<Input>): Promise<ScheduleInfo>;
  put<Input>(name: string, schedule: FlowSchedule<Input>): Promise<ScheduleInfo>;
  async put(name: string, schedule: unknown): Promise<ScheduleInfo> {
    const { provider, payloadLimitBytes, assertOpen, onChanged } = this.#params;
    assertOpen();
    checkScheduleName(name);
    const wanted = await readSchedule(schedule, payloadLimitBytes);
    // Throws for an expression that cannot be read, before the store is asked.
    timingOf(wanted);
    for (;;) {
      const before = await this.#find(name);
      if (before !== undefined && isUnchanged(wanted, before)) return toScheduleInfo(before);
      let never = false;
      const planAt = (nowMs: number): SchedulePlan | undefined => {
        const planned = plan(wanted, before, nowMs);
        never = planned === undefined;
        return planned;
      };
      const ifRevision = before?.revision ?? 0;
      const after = await provider.putSchedule({ name, plan: planAt, ifRevision });
      if (never) throw neverFires();
      // It ticked or was changed meanwhile: look again at what is there.
      if (after === undefined) continue;
      onChanged();
      return toScheduleInfo(after);
    }
  }

  /** Stops a schedule from firing until it is resumed; what it started goes on. */
  async pause(name: string): Promise<void> {
    this.#params.assertOpen();
    const found = await this.#params.provider.setSchedulePaused(checkScheduleName(name), true);
    if (!found) throw notFound(name);
  }

  /** Lets a paused schedule fire again, from its next tick on: those that fell into the pause are not made up for. */
  async resume(name: string): Promise<void> {
    const { provider, assertOpen, onChanged } = this.#params;
    assertOpen();
    for (;;) {
      const record = await this.#find(checkScheduleName(name));
      if (record === undefined) throw notFound(name);
      if (!record.paused) return;
      const { revision: ifRevision } = record;
      const timing = timingOf(decodeSchedule(name, record.definition));
      const nextAt = (nowMs: number): number | null => timing.next(nowMs);
      // Its timing may be another by now: the next tick is only good for the one that was read.
      if (await provider.setSchedulePaused(name, false, { nextAt, ifRevision })) break;
    }
    onChanged();
  }

  /** Deletes a schedule; what it started goes on. Answers whether there was one. */
  async delete(name: string): Promise<boolean> {
    this.#params.assertOpen();
    return this.#params.provider.deleteSchedule(checkScheduleName(name));
  }

  /** Reads a schedule; `undefined` for an unknown name. */
  async get(name: string): Promise<ScheduleInfo | undefined> {
    this.#params.assertOpen();
    const record = await this.#find(checkScheduleName(name));
    return record && toScheduleInfo(record);
  }

  /** Lists schedules by name, one page at a time. */
  async list(page?: {
    readonly limit?: number | undefined;
    readonly after?: string | undefined;
  }): Promise<SchedulePage> {
    this.#params.assertOpen();
    const { limit: given, after } = readFields(page, 'page', ['limit', 'after'] as const);
    const limit = readCount('limit', given ?? 100);
    // One more than asked tells whether there is a next page.
    const records = await this.#params.provider.listSchedules({
      limit: limit + 1,
      maxBytes: maxPageBytes,
      ...(after !== undefined && { afterName: checkScheduleName(after) }),
    });
    const shown = records.slice(0, limit).filter(({ withheld }) => withheld !== true);
    const items = shown.map(toScheduleInfo);
    const last = items.at(-1);
    return last === undefined || records.length === shown.length
      ? { items }
      : { items, nextAfter: last.name };
  }

  /** When a schedule fires next, at most `count` times; never while it is paused. */
  async nextRuns(name: string, count = 10): Promise<readonly Date[]> {
    this.#params.assertOpen();
    readCount('count', count);
    const record = await this.#find(checkScheduleName(name));
    if (record === undefined) throw notFound(name);
    if (record.paused) return [];
    const timing = timingOf(decodeSchedule(name, record.definition));
    const runs: Date[] = [];
    let at = record.nextAt;
    while (at !== null && runs.length < count) {
      runs.push(new Date(at));
      at = timing.next(at);
    }
    return runs;
  }

  async #find(name: string): Promise<ScheduleRecord | undefined> {
    const [record] = await this.#params.provider.listSchedules({ limit: 1, names: [name] });
    return record;
  }
}

/**
 * What to store at a time of the store, and the next tick: that of the record where the timing is the same. `undefined`
 * for a schedule that would never fire.
 */
function plan(
  wanted: ScheduleDefinition,
  before: ScheduleRecord | undefined,
  nowMs: number,
): SchedulePlan | undefined {
  const old = before && readOld(before);
  const definition = anchored(wanted, old, nowMs);
  const text = JSON.stringify(definition);
  if (before !== undefined && old !== undefined && sameTiming(old, definition)) {
    return { definition: text, nextAt: before.nextAt };
  }
  const nextAt = timingOf(definition).next(nowMs);
  return nextAt === null ? undefined : { definition: text, nextAt };
}

/** Whether the record already says all that is wanted. */
function isUnchanged(wanted: ScheduleDefinition, before: ScheduleRecord): boolean {
  // An interval that begins anew has another anchor than any that is stored.
  return JSON.stringify(anchored(wanted, readOld(before), Infinity)) === before.definition;
}

function neverFires(): PerdureError {
  return new PerdureError(
    'INVALID_SCHEDULE',
    'This schedule would never fire. Check its days, its startAt and its endAt.',
  );
}

// One that was damaged is simply replaced.
function readOld(record: ScheduleRecord): ScheduleDefinition | undefined {
  try {
    return decodeSchedule(record.name, record.definition);
  } catch {
    return undefined;
  }
}

/** An interval counts from when it was first put, however often it is put. */
function anchored(
  wanted: ScheduleDefinition,
  old: ScheduleDefinition | undefined,
  nowMs: number,
): ScheduleDefinition {
  const { timing } = wanted;
  if (timing.kind !== 'every') return wanted;
  const isSame = old?.timing.kind === 'every' && timing.everyMs === old.timing.everyMs;
  return { ...wanted, timing: isSame ? old.timing : { ...timing, anchorMs: nowMs } };
}

function sameTiming(one: ScheduleDefinition, other: ScheduleDefinition): boolean {
  const text = ({ timing, startAt, endAt }: ScheduleDefinition): string =>
    JSON.stringify([timing, startAt, endAt]);
  return text(one) === text(other);
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

function notFound(name: string): PerdureError {
  return new PerdureError(
    'SCHEDULE_NOT_FOUND',
    `There is no schedule ${JSON.stringify(name)}. See with schedules.list() which there are.`,
  );
}
