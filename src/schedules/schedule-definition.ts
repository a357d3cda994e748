import { PerdureError } from '../model/failures/errors.ts';
import { parseJson, type Payload } from '../model/values/payload.ts';
import type { Tags } from '../model/values/tags.ts';
import { cronTiming } from './cron.ts';
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
  readonly onFail: boolean;
  readonly tags?: Tags;
}

/** The orchestration that each tick starts. */
export interface ScheduledOrchestration {
  readonly kind: 'orchestration';
  readonly name: string;
  readonly version: string | null;
  readonly payload: Payload | null;
  readonly inputHash: string;
  readonly tags?: Tags;
}

/** The stored definition of a schedule. */
export interface ScheduleDefinition {
  readonly timing: StoredTiming;
  readonly startAt?: number;
  readonly endAt?: number;
  readonly catchUp: CatchUp;
  readonly target: ScheduledTask | ScheduledOrchestration;
}

/** Returns the timing of a schedule. Throws `INVALID_SCHEDULE` for an invalid expression or time zone. */
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
  const { timing, catchUp, target } = value as Partial<Record<keyof ScheduleDefinition, unknown>>;
  return (
    isTiming(timing) &&
    (catchUp === 'skip' || catchUp === 'one' || catchUp === 'all') &&
    isTarget(target)
  );
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
