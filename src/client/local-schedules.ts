import { noteEntry } from '../management/management-options.ts';
import { type AuditNote } from '../model/audit-options.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { encodeTaskOptions } from '../model/work-item-options.ts';
import { inputHash } from '../model/values/input-hash.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { SchedulePlan, ScheduleRecord } from '../providers/contract/schedules.ts';
import {
  decodeSchedule,
  timingOf,
  type ScheduleDefinition,
} from '../schedules/schedule-definition.ts';
import { maxPageBytes } from './reading/instance-list.ts';
import type { ScheduleRequest } from './managing/schedule-request.ts';
import type { ScheduleBackend, ScheduleInfo, SchedulePage } from './managing/schedules.ts';

/** Schedules in a store that is open in this process. */
export class LocalSchedules implements ScheduleBackend {
  readonly #provider: Provider;
  readonly #onChanged: () => void;

  /** `onChanged` notifies the workers of this process. */
  constructor(provider: Provider, onChanged: () => void = () => undefined) {
    this.#provider = provider;
    this.#onChanged = onChanged;
  }

  async put(name: string, request: ScheduleRequest, note?: AuditNote): Promise<ScheduleInfo> {
    const wanted = toDefinition(request);
    // Throws for an invalid cron expression before the store is queried.
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
      const audit = noteEntry('schedulePut', note, { schedule: name });
      const write = { name, plan: planAt, ifRevision, ...audit };
      const after = await this.#provider.putSchedule(write);
      if (never) throw neverFires();
      // The schedule ticked or changed concurrently: read it again.
      if (after === undefined) continue;
      this.#onChanged();
      return toScheduleInfo(after);
    }
  }

  async pause(name: string, note?: AuditNote): Promise<void> {
    // A repeated pause changes nothing to record.
    const isRepeat = note !== undefined && (await this.#find(name))?.paused === true;
    const audit = isRepeat ? {} : noteEntry('schedulePause', note, { schedule: name });
    if (!(await this.#provider.setSchedulePaused(name, true, audit))) throw scheduleNotFound(name);
  }

  async resume(name: string, note?: AuditNote): Promise<void> {
    for (;;) {
      const record = await this.#find(name);
      if (record === undefined) throw scheduleNotFound(name);
      if (!record.paused) return;
      const { revision: ifRevision } = record;
      const timing = timingOf(decodeSchedule(name, record.definition));
      const nextAt = (nowMs: number): number | null => timing.next(nowMs);
      // `nextAt` is computed from the timing that was read, so the revision must not have changed.
      const audit = noteEntry('scheduleResume', note, { schedule: name });
      const resumed = { nextAt, ifRevision, ...audit };
      if (await this.#provider.setSchedulePaused(name, false, resumed)) break;
    }
    this.#onChanged();
  }

  delete(name: string, note?: AuditNote): Promise<boolean> {
    const { audit } = noteEntry('scheduleDelete', note, { schedule: name });
    return this.#provider.deleteSchedule(name, audit);
  }

  async get(name: string): Promise<ScheduleInfo | undefined> {
    const record = await this.#find(name);
    return record && toScheduleInfo(record);
  }

  async list({ limit, after }: Parameters<ScheduleBackend['list']>[0]): Promise<SchedulePage> {
    // One extra entry shows whether there is a next page.
    const records = await this.#provider.listSchedules({
      limit: limit + 1,
      maxBytes: maxPageBytes,
      ...(after !== undefined && { afterName: after }),
    });
    const shown = records.slice(0, limit).filter(({ withheld }) => withheld !== true);
    const items = shown.map(toScheduleInfo);
    const last = items.at(-1);
    return last === undefined || records.length === shown.length
      ? { items }
      : { items, nextAfter: last.name };
  }

  async nextRuns(name: string, count: number): Promise<readonly Date[]> {
    const record = await this.#find(name);
    if (record === undefined) throw scheduleNotFound(name);
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
    const [record] = await this.#provider.listSchedules({ limit: 1, names: [name] });
    return record;
  }
}

/** The definition to store. `isUnchanged` compares its JSON text, so the order of the fields is fixed. */
function toDefinition({ work, ...request }: ScheduleRequest): ScheduleDefinition {
  const { name, payload, tags } = work;
  const tagged = tags !== undefined && { tags };
  if (work.kind === 'orchestration') {
    const { kind, version } = work;
    const target = { kind, name, version, payload, inputHash: inputHash(payload), ...tagged };
    return { ...request, target };
  }
  const { kind, priority, expiresInMs, dedupeKey, headers, onFail } = work;
  const target = {
    kind,
    name,
    payload,
    inputHash: inputHash(payload),
    options: encodeTaskOptions(headers),
    priority,
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(dedupeKey !== undefined && { dedupeKey }),
    onFail,
    ...tagged,
  };
  return { ...request, target };
}

/**
 * Returns the definition to store at the store's time `nowMs`, and its next tick. An unchanged timing keeps the tick of
 * the record. Returns `undefined` if the schedule would never fire.
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

/** Whether the record already holds the wanted definition. */
function isUnchanged(wanted: ScheduleDefinition, before: ScheduleRecord): boolean {
  // `Infinity` is no stored anchor, so an interval that would start over never compares equal.
  return JSON.stringify(anchored(wanted, readOld(before), Infinity)) === before.definition;
}

function neverFires(): PerdureError {
  return new PerdureError(
    'INVALID_SCHEDULE',
    'The schedule never fires. Check its days, `startAt` and `endAt`.',
  );
}

// A damaged definition is replaced.
function readOld(record: ScheduleRecord): ScheduleDefinition | undefined {
  try {
    return decodeSchedule(record.name, record.definition);
  } catch {
    return undefined;
  }
}

/** Keeps the anchor of an unchanged interval; a new interval starts at `nowMs`. */
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

function scheduleNotFound(name: string): PerdureError {
  return new PerdureError(
    'SCHEDULE_NOT_FOUND',
    `Schedule ${JSON.stringify(name)} does not exist. List the schedules with schedules.list().`,
  );
}

/** Decodes a record; a damaged definition is left out. */
function toScheduleInfo(record: ScheduleRecord): ScheduleInfo {
  const definition = readDefinition(record);
  return {
    name: record.name,
    paused: record.paused,
    ...(record.nextAt !== null && { nextAt: record.nextAt }),
    ...(record.lastTickAt !== null && { lastTickAt: record.lastTickAt }),
    ...(record.lastInstanceId !== null && { lastInstanceId: record.lastInstanceId }),
    ...(record.lastError !== null && { lastError: record.lastError }),
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    ...(definition !== undefined && { definition }),
  };
}

function readDefinition(record: ScheduleRecord): ScheduleInfo['definition'] | undefined {
  try {
    const { timing, startAt, endAt, catchUp, target } = decodeSchedule(
      record.name,
      record.definition,
    );
    return {
      ...(timing.kind === 'cron'
        ? { cron: timing.expression, timeZone: timing.timeZone }
        : { everyMs: timing.everyMs }),
      ...(startAt !== undefined && { startAt }),
      ...(endAt !== undefined && { endAt }),
      catchUp,
      starts: { kind: target.kind, name: target.name },
    };
  } catch {
    return undefined;
  }
}
