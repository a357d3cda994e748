import { newAuditEntry, noteEntry } from '../management/management-options.ts';
import type { AuditNote } from '../model/audit-options.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { decodeFailure } from '../model/failures/failure.ts';
import { isTerminal } from '../model/status.ts';
import { isSampled, toLink, type TraceContext } from '../model/trace-context.ts';
import { carriedSettings } from '../model/start-settings.ts';
import { encodeTaskOptions } from '../model/work-item-options.ts';
import { inputHash } from '../model/values/input-hash.ts';
import type { InstanceRecord } from '../providers/contract/instances.ts';
import type { Provider } from '../providers/contract/provider.ts';
import type { SchedulePlan, ScheduleRecord } from '../providers/contract/schedules.ts';
import {
  decodeSchedule,
  firingTimesOf,
  timingOf,
  type ScheduleDefinition,
} from '../schedules/schedule-definition.ts';
import { newRuns, tickRunId, triggerRunId } from '../schedules/scheduled-runs.ts';
import type { Timing } from '../schedules/ticks.ts';
import { summarizeFailure } from './reading/inspect-instance.ts';
import { maxPageBytes } from './reading/instance-list.ts';
import type { ScheduleRequest } from './managing/schedule-request.ts';
import type {
  BackfillCall,
  BackfillResult,
  NextTick,
  ScheduleBackend,
  ScheduleInfo,
  ScheduleRun,
  SchedulePage,
  TriggerCall,
  TriggerResult,
} from './managing/schedules.ts';

/** Runs that a backfill starts in one transaction. */
const maxStarts = 100;
const maxLastRuns = 10;
const maxRunPages = 10;
/** Maximum runs that `get` reads. */
const maxShown = 100;

/** Schedules in a store that is open in this process. */
export class LocalSchedules implements ScheduleBackend {
  readonly #provider: Provider;
  readonly #onChanged: () => void;

  /** `onChanged` notifies the workers of this process. */
  constructor(provider: Provider, onChanged: () => void = () => undefined) {
    this.#provider = provider;
    this.#onChanged = onChanged;
  }

  async put(
    name: string,
    request: ScheduleRequest,
    { note, trace }: { readonly note: AuditNote; readonly trace?: TraceContext | undefined },
  ): Promise<ScheduleInfo> {
    const wanted = toDefinition(request);
    // Throws for an invalid cron expression before the store is queried.
    timingOf(wanted);
    for (;;) {
      const before = await this.#find(name);
      if (before !== undefined && isUnchanged(wanted, before)) return toScheduleInfo(before);
      let never = false;
      const planAt = (nowMs: number): SchedulePlan | undefined => {
        const planned = plan(name, { ...wanted, ...linkTo(trace) }, { before, nowMs });
        never = planned === undefined;
        return planned;
      };
      const ifRevision = before?.revision ?? 0;
      const audit = noteEntry('schedulePut', note, { schedule: name });
      const write = { name, plan: planAt, ifRevision, audit };
      const after = await this.#provider.putSchedule(write);
      if (never) throw neverFires();
      // The schedule ticked or changed concurrently: read it again.
      if (after === undefined) continue;
      this.#onChanged();
      return toScheduleInfo(after);
    }
  }

  async pause(name: string, note: AuditNote): Promise<void> {
    // A repeated pause changes nothing to record.
    const isRepeat = (await this.#find(name))?.paused === true;
    const audit = isRepeat ? {} : { audit: noteEntry('schedulePause', note, { schedule: name }) };
    if (!(await this.#provider.setSchedulePaused(name, true, audit))) throw scheduleNotFound(name);
  }

  async resume(name: string, note: AuditNote): Promise<void> {
    for (;;) {
      const record = await this.#find(name);
      if (record === undefined) throw scheduleNotFound(name);
      if (!record.paused) return;
      const { revision: ifRevision } = record;
      const { times } = firingTimesOf(name, decodeSchedule(name, record.definition));
      const nextAt = (nowMs: number): number | null => times.next(nowMs);
      // `nextAt` is computed from the timing that was read, so the revision must not have changed.
      const audit = noteEntry('scheduleResume', note, { schedule: name });
      const resumed = { nextAt, ifRevision, audit };
      if (await this.#provider.setSchedulePaused(name, false, resumed)) break;
    }
    this.#onChanged();
  }

  delete(name: string, note: AuditNote): Promise<boolean> {
    const audit = noteEntry('scheduleDelete', note, { schedule: name });
    return this.#provider.deleteSchedule(name, audit);
  }

  async get(name: string): Promise<ScheduleInfo | undefined> {
    const record = await this.#find(name);
    return record && { ...toScheduleInfo(record), ...(await this.#readRuns(record)) };
  }

  async #readRuns({
    runIds,
  }: ScheduleRecord): Promise<Pick<ScheduleInfo, 'runningIds' | 'lastRuns'>> {
    if (runIds.length === 0) return {};
    const runs: InstanceRecord[] = [];
    // In parts, because the records contain outputs.
    for (let rest = runIds.slice(-maxShown); rest.length > 0;) {
      const records = await this.#provider.getInstances(rest, maxPageBytes);
      runs.unshift(...records.filter((record) => record !== undefined).toReversed());
      rest = rest.slice(records.length);
    }
    const live = runs.filter(({ status }) => !isTerminal(status));
    return {
      ...(live.length > 0 && { runningIds: live.map(({ instanceId }) => instanceId) }),
      ...(runs.length > 0 && {
        lastRuns: runs.slice(0, maxLastRuns).map(({ instanceId, status, createdAt, endedAt }) => ({
          id: instanceId,
          status,
          createdAt,
          ...(endedAt !== null && { endedAt }),
        })),
      }),
    };
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

  async runs(name: string, limit: number): Promise<readonly ScheduleRun[]> {
    await this.#mustFind(name);
    const runs: ScheduleRun[] = [];
    let beforeKey: number | null = null;
    // A page may be short before the last one: it examines a bounded number of rows.
    for (let page = 0; page < maxRunPages && runs.length < limit; page += 1) {
      const { instances, nextKey } = await this.#provider.listInstances({
        filter: { idPrefix: `${name}@` },
        limit,
        payloads: false,
        maxBytes: maxPageBytes,
        ...(beforeKey !== null && { beforeKey }),
      });
      runs.push(...instances.flatMap((record) => toScheduleRun(name, record) ?? []));
      beforeKey = nextKey;
      if (beforeKey === null) break;
    }
    return runs.slice(0, limit);
  }

  async next(name: string, count: number): Promise<readonly NextTick[]> {
    const record = await this.#mustFind(name);
    if (record.paused) return [];
    const { times, tickAt } = firingTimesOf(name, decodeSchedule(name, record.definition));
    const ticks: NextTick[] = [];
    let firesAt = record.nextAt;
    while (firesAt !== null && ticks.length < count) {
      const at = tickAt(firesAt);
      ticks.push({ tickAt: at, firesAt, id: tickRunId(name, at) });
      firesAt = times.next(firesAt);
    }
    return ticks;
  }

  async trigger(name: string, call: TriggerCall): Promise<TriggerResult> {
    const { key, actor, reason, trace } = call;
    const audit = newAuditEntry('trigger', actor, { schedule: name }, { reason: reason ?? null });
    for (;;) {
      const { revision, definition } = await this.#mustFind(name);
      const ids = [triggerRunId(name, key)];
      const runs = newRuns(decodeSchedule(name, definition), ids, trace, call);
      const started = await this.#provider.startScheduledRuns({
        name,
        ifRevision: revision,
        ...runs,
        areTracked: true,
        audit,
      });
      const [run] = started ?? [];
      // Otherwise the schedule ticked or changed concurrently: read it again.
      if (run !== undefined) return { id: run.instanceId, created: run.created };
    }
  }

  async backfill(name: string, call: BackfillCall): Promise<BackfillResult> {
    const { to, limit, dryRun, actor, reason, trace } = call;
    const window = { schedule: name, from: call.from, to };
    const audit = newAuditEntry('backfill', actor, window, { reason: reason ?? null });
    // The store's clock decides which ticks are in the past.
    const { nowMs } = await this.#provider.dueSchedules(0);
    const until = Math.min(to, nowMs);
    let [from, started, existing] = [call.from, 0, 0];
    for (;;) {
      const { revision, definition: stored } = await this.#mustFind(name);
      const definition = decodeSchedule(name, stored);
      const left = limit - started - existing;
      const ticks = ticksFrom(timingOf(definition), { from, until, max: Math.max(1, left) });
      const [first] = ticks;
      if (first === undefined) return { started, existing };
      if (left === 0) return { started, existing, nextFrom: first };
      const part = ticks.slice(0, maxStarts);
      const ids = part.map((at) => tickRunId(name, at));
      const created = dryRun
        ? (await this.#provider.getInstances(ids)).map((record) => record === undefined)
        : (
            await this.#provider.startScheduledRuns({
              name,
              ifRevision: revision,
              ...newRuns(definition, ids, trace, call),
              areTracked: false,
              audit,
            })
          )?.map((run) => run.created);
      // The schedule ticked or changed concurrently: read it again.
      if (created === undefined) continue;
      const count = created.filter(Boolean).length;
      started += count;
      existing += created.length - count;
      from = (part.at(-1) ?? first) + 1;
    }
  }

  async #mustFind(name: string): Promise<ScheduleRecord> {
    const record = await this.#find(name);
    if (record === undefined) throw scheduleNotFound(name);
    return record;
  }

  async #find(name: string): Promise<ScheduleRecord | undefined> {
    const [record] = await this.#provider.listSchedules({ limit: 1, names: [name] });
    return record;
  }
}

/** The context to which ticks link. None if it was not sampled: it would keep all runs of the schedule out of the traces. */
function linkTo(trace: TraceContext | undefined): Pick<ScheduleDefinition, 'trace'> {
  return trace !== undefined && isSampled(trace) ? { trace: toLink(trace) } : {};
}

/** The definition to store. `isUnchanged` compares its JSON text, so the order of the fields is fixed. */
function toDefinition({ work, ...request }: ScheduleRequest): ScheduleDefinition {
  const { name, payload, tags } = work;
  const tagged = tags !== undefined && { tags };
  if (work.kind === 'orchestration') {
    const { kind, version, timeoutMs, lane } = work;
    const target = { kind, name, version, payload, inputHash: inputHash(payload), ...tagged };
    const timed = timeoutMs !== undefined && { timeoutMs };
    const keyed = lane !== undefined && { lane };
    return { ...request, target: { ...target, ...carriedSettings(work), ...timed, ...keyed } };
  }
  const { kind, priority, expiresInMs, dedupeKey, dedupeMs, headers, onFail, timeoutMs, lane } =
    work;
  const target = {
    kind,
    name,
    payload,
    inputHash: inputHash(payload),
    options: encodeTaskOptions(headers),
    priority,
    ...(expiresInMs !== undefined && { expiresInMs }),
    ...(dedupeKey !== undefined && { dedupeKey }),
    ...(dedupeMs !== undefined && { dedupeMs }),
    onFail,
    ...tagged,
  };
  const timed = timeoutMs !== undefined && { timeoutMs };
  const keyed = lane !== undefined && { lane };
  return { ...request, target: { ...target, ...timed, ...keyed } };
}

/**
 * Returns the definition to store at the store's time `nowMs`, and its next tick. An unchanged timing keeps the tick of
 * the record. Returns `undefined` if the schedule would never fire.
 */
function plan(
  name: string,
  wanted: ScheduleDefinition,
  { before, nowMs }: { readonly before: ScheduleRecord | undefined; readonly nowMs: number },
): SchedulePlan | undefined {
  const old = before && readOld(before);
  const definition = anchored(wanted, old, nowMs);
  const text = JSON.stringify(definition);
  const { times } = firingTimesOf(name, definition);
  if (before !== undefined && old !== undefined && sameTiming(old, definition)) {
    if (before.nextAt === null || old.jitterMs === definition.jitterMs) {
      return { definition: text, nextAt: before.nextAt };
    }
    // Another jitter delays the same tick.
    const tick = firingTimesOf(name, old).tickAt(before.nextAt);
    return { definition: text, nextAt: times.next(tick - 1) };
  }
  const nextAt = times.next(nowMs);
  return nextAt === null ? undefined : { definition: text, nextAt };
}

/** Whether the record already holds the wanted definition. */
function isUnchanged(wanted: ScheduleDefinition, before: ScheduleRecord): boolean {
  // `Infinity` is no stored anchor, so an interval that would start over never compares equal.
  const old = readOld(before);
  // The trace context is no part of what was asked for.
  const trace = old?.trace !== undefined && { trace: old.trace };
  return JSON.stringify({ ...anchored(wanted, old, Infinity), ...trace }) === before.definition;
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

function ticksFrom(
  timing: Timing,
  window: { readonly from: number; readonly until: number; readonly max: number },
): readonly number[] {
  const ticks: number[] = [];
  let at = timing.next(window.from - 1);
  while (at !== null && at <= window.until && ticks.length < window.max) {
    ticks.push(at);
    at = timing.next(at);
  }
  return ticks;
}

function scheduleNotFound(name: string): PerdureError {
  return new PerdureError(
    'SCHEDULE_NOT_FOUND',
    `Schedule ${JSON.stringify(name)} does not exist. List the schedules with schedules.list().`,
  );
}

/** Converts a run; `undefined` for an instance of another caller whose id has the same beginning. */
function toScheduleRun(schedule: string, record: InstanceRecord): ScheduleRun | undefined {
  const { instanceId: id, name, status, createdAt, startedAt, endedAt, failure } = record;
  const key = id.slice(schedule.length + 1);
  const tickAt = Date.parse(key);
  const isTick = !Number.isNaN(tickAt) && tickRunId(schedule, tickAt) === id;
  if (!isTick && !key.startsWith('trigger-')) return undefined;
  return {
    id,
    name,
    status,
    createdAt,
    ...(startedAt !== null && { startedAt }),
    ...(endedAt !== null && { endedAt }),
    ...(isTick && { tickAt }),
    ...(status === 'failed' && { failure: summarizeFailure(decodeFailure(failure)) }),
  };
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
    ...(record.skippedTicks > 0 && { skippedTicks: record.skippedTicks }),
    ...(record.bufferedTicks.length > 0 && { bufferedTicks: record.bufferedTicks }),
    createdAt: record.createdAt,
    updatedAt: record.updatedAt,
    ...(definition !== undefined && { definition }),
  };
}

function readDefinition(record: ScheduleRecord): ScheduleInfo['definition'] | undefined {
  try {
    const definition = decodeSchedule(record.name, record.definition);
    const { timing, startAt, endAt, catchUp, jitterMs, overlap, bufferLimit, target } = definition;
    return {
      ...(timing.kind === 'cron'
        ? { cron: timing.expression, timeZone: timing.timeZone }
        : { everyMs: timing.everyMs }),
      ...(startAt !== undefined && { startAt }),
      ...(endAt !== undefined && { endAt }),
      catchUp,
      ...(jitterMs !== undefined && { jitterMs }),
      ...(overlap !== undefined && { overlap }),
      ...(bufferLimit !== undefined && { bufferLimit }),
      starts: { kind: target.kind, name: target.name },
    };
  } catch {
    return undefined;
  }
}
