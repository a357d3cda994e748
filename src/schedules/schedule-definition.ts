import { PerdureError } from '../model/failures/errors.ts';
import type { Lane } from '../model/limit-options.ts';
import type { TraceContext } from '../model/trace-context.ts';
import { parseJson, type Payload } from '../model/values/payload.ts';
import type { StartSettings } from '../model/start-settings.ts';
import type { Tags } from '../model/values/tags.ts';
import { cronTiming } from './cron.ts';
import { jitterTiming, nominalTick } from './jitter.ts';
import { maxBufferLimit, type Overlap, type OverlapPolicy } from './overlap.ts';
import { limitTiming, everyTiming, type CatchUp, type Timing } from './ticks.ts';

/** When a schedule fires. */
export type StoredTiming =
  | { readonly kind: 'cron'; readonly expression: string; readonly timeZone: string }
  | { readonly kind: 'every'; readonly everyMs: number; readonly anchorMs: number };

/** The task that each tick runs. */
export interface ScheduledTask {
  readonly kind: 'task';
  readonly name: string;
  readonly payload: Payload | null;
  readonly inputHash: string;
  readonly options: string | null;
  readonly priority: number;
  readonly expiresInMs?: number;
  readonly dedupeKey?: string;
  /** How long from its creation a run with the key is returned, also after its end. */
  readonly dedupeMs?: number;
  readonly onFail: boolean;
  readonly tags?: Tags;
  readonly timeoutMs?: number;
  readonly lane?: Lane;
}

/** The orchestration that each tick starts. */
export interface ScheduledOrchestration extends Omit<StartSettings, 'delayMs' | 'runAt'> {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly inputHash: string;
}

/** The stored definition of a schedule. */
export interface ScheduleDefinition {
  readonly timing: StoredTiming;
  readonly startAt?: number;
  readonly endAt?: number;
  readonly catchUp: CatchUp;
  /** Absent: 0. */
  readonly jitterMs?: number;
  /** Absent: `'allow'`. */
  readonly overlap?: Overlap;
  /** Absent: 1. */
  readonly bufferLimit?: number;
  readonly target: ScheduledTask | ScheduledOrchestration;
  /** The trace context of the last change, to which runs of ticks link. */
  readonly trace?: TraceContext;
}

/** Returns the policy for ticks while a run is live. */
export function overlapOf({
  overlap = 'allow',
  bufferLimit = 1,
}: ScheduleDefinition): OverlapPolicy {
  return { overlap, bufferLimit };
}

/** The times at which the ticks of a schedule fire, with their jitter, and the tick of each. */
export interface FiringTimes {
  readonly times: Timing;
  /** Returns the tick that fires at this time. */
  readonly tickAt: (firesAt: number) => number;
}

/** Returns when a schedule fires. Throws as `timingOf` does. */
export function firingTimesOf(schedule: string, definition: ScheduleDefinition): FiringTimes {
  const timing = timingOf(definition);
  const { jitterMs = 0 } = definition;
  return {
    times: jitterTiming(timing, { schedule, jitterMs }),
    tickAt: (firesAt) => nominalTick(timing, firesAt, jitterMs),
  };
}

/** Returns the ticks of a schedule, without jitter. Throws `INVALID_SCHEDULE` for an invalid expression or time zone. */
export function timingOf({ timing, startAt, endAt }: ScheduleDefinition): Timing {
  const all =
    timing.kind === 'cron'
      ? cronTiming(timing.expression, timing.timeZone)
      : everyTiming(timing.everyMs, timing.anchorMs);
  return limitTiming(all, startAt, endAt);
}

/** Decodes a stored definition. Throws `UNDECODABLE` if it is corrupt or from a newer version. */
export function decodeSchedule(name: string, stored: string): ScheduleDefinition {
  const definition = parse(stored);
  if (isDefinition(definition)) return definition;
  throw new PerdureError(
    'UNDECODABLE',
    `Schedule ${JSON.stringify(name)} cannot be decoded: it is corrupt or was written by a newer version. Create it again with client.schedules.put().`,
  );
}

function parse(stored: string): unknown {
  try {
    return parseJson(stored);
  } catch {
    return undefined;
  }
}

function isDefinition(value: unknown): value is ScheduleDefinition {
  if (typeof value !== 'object' || value === null) return false;
  const { timing, catchUp, jitterMs, overlap, bufferLimit, target } = value as Partial<
    Record<keyof ScheduleDefinition, unknown>
  >;
  return (
    isTiming(timing) &&
    (catchUp === 'skip' || catchUp === 'one' || catchUp === 'all') &&
    (jitterMs === undefined || (Number.isSafeInteger(jitterMs) && (jitterMs as number) > 0)) &&
    (overlap === undefined || isOverlap(overlap)) &&
    (bufferLimit === undefined || isBufferLimit(bufferLimit)) &&
    isTarget(target)
  );
}

function isOverlap(value: unknown): value is Overlap {
  return value === 'allow' || value === 'skip' || value === 'buffer' || value === 'cancelRunning';
}

function isBufferLimit(value: unknown): boolean {
  const count = value as number;
  return Number.isSafeInteger(count) && count >= 1 && count <= maxBufferLimit;
}

function isTiming(value: unknown): boolean {
  const timing = value as Partial<Record<string, unknown>> | null | undefined;
  return timing?.['kind'] === 'cron'
    ? typeof timing['expression'] === 'string' && typeof timing['timeZone'] === 'string'
    : timing?.['kind'] === 'every' &&
        typeof timing['everyMs'] === 'number' &&
        timing['everyMs'] > 0 &&
        typeof timing['anchorMs'] === 'number';
}

function isTarget(value: unknown): boolean {
  const target = value as Partial<ScheduledTask | ScheduledOrchestration> | null | undefined;
  const isKnown = target?.kind === 'task' || target?.kind === 'orchestration';
  return isKnown && typeof target.name === 'string' && typeof target.inputHash === 'string';
}
