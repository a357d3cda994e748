import { Cron } from 'croner';
import { PerdureError } from '../model/failures/errors.ts';
import type { Timing } from './ticks.ts';

/** Local times that match an expression, encoded as if they were UTC. */
interface LocalTimes {
  /** Returns the first match after a local time. */
  next(local: number): number | null;
  /** Returns the last match at or before a local time. */
  previous(local: number): number | null;
}

// Longer than any offset change, and shorter than the time between two changes of a zone.
const windowMs = 2 * 86_400_000;

/**
 * Parses a cron expression: five fields, or six with seconds first, in an IANA time zone.
 * Throws `INVALID_SCHEDULE` for an invalid expression or time zone.
 *
 * If seconds, minutes and hours are numbers, lists or ranges, each local time fires once. A skipped time fires at the clock
 * change, and a repeated time fires the first time. With a `*` or a step in one of them, the expression follows elapsed
 * time: skipped times do not fire, and repeated times fire again.
 */
export function cronTiming(expression: string, timeZone: string): Timing {
  const zone = zoneOf(timeZone);
  const cron = parse(expression);
  const times: LocalTimes = {
    next: (local) => cron.nextRun(new Date(local))?.getTime() ?? null,
    previous: (local) => {
      // croner excludes the reference. Times are whole seconds, so the next second makes `local` inclusive.
      const reference = new Date((Math.floor(local / 1_000) + 1) * 1_000);
      return cron.previousRuns(1, reference)[0]?.getTime() ?? null;
    },
  };
  return followsRealTime(expression) ? realTiming(times, zone) : fixedTiming(times, zone);
}

/** Whether a time-of-day field is a wildcard or has a step. */
function followsRealTime(expression: string): boolean {
  const fields = expression.trim().split(/\s+/);
  // A nickname such as `@daily` is a single field.
  if (fields.length === 1) return fields[0]?.toLowerCase() === '@hourly';
  return fields.slice(0, -3).some((field) => /[*?/]/.test(field));
}

/** Fires each local time once. The instants never go back. */
function fixedTiming(times: LocalTimes, zone: ZoneOffsets): Timing {
  return {
    next(after) {
      let local = times.next(after + zone.at(after));
      // In a repeated hour, the remaining local times have already fired.
      while (local !== null && zone.instantOf(local) <= after) local = times.next(local);
      return local === null ? null : zone.instantOf(local);
    },
    previous(at) {
      let local = times.previous(lastLocal(zone, at));
      while (local !== null && zone.instantOf(local) > at) local = times.previous(local - 1);
      return local === null ? null : zone.instantOf(local);
    },
  };
}

/** Returns the latest local time up to an instant. Before a clock was set back, it was later than after. */
function lastLocal(zone: ZoneOffsets, at: number): number {
  const change = zone.changeBetween(at - windowMs, at);
  const local = at + zone.at(at);
  return change === undefined ? local : Math.max(local, change - 1 + zone.at(change - 1));
}

/** Fires at every instant whose local time matches. */
function realTiming(times: LocalTimes, zone: ZoneOffsets): Timing {
  return {
    next(after) {
      for (let from = after + 1; ;) {
        const offset = zone.at(from);
        const local = times.next(from + offset - 1);
        const instant = local === null ? Infinity : local - offset;
        const end = Math.min(instant, from + windowMs);
        const change = zone.changeBetween(from, end);
        if (change !== undefined) from = change;
        else if (instant === end) return instant;
        else if (instant === Infinity) return null;
        // No local time matches in between, with any offset.
        else from = Math.max(end, instant - windowMs);
      }
    },
    previous(at) {
      for (let to = at; ;) {
        const offset = zone.at(to);
        const local = times.previous(to + offset);
        const instant = local === null ? -Infinity : local - offset;
        const start = Math.max(instant, to - windowMs);
        const change = zone.changeBetween(start, to);
        if (change !== undefined) to = change - 1;
        else if (instant === start) return instant;
        else if (instant === -Infinity) return null;
        else to = Math.min(start, instant + windowMs);
      }
    },
  };
}

function parse(expression: string): Cron {
  let cron: Cron;
  try {
    cron = new Cron(expression, { paused: true, timezone: 'UTC', mode: '5-or-6-parts' });
  } catch (cause) {
    throw invalidCron(
      expression,
      cause instanceof Error ? cause.message : 'it cannot be parsed',
      cause,
    );
  }
  // croner also accepts an ISO date, as a one-time run.
  if (cron.getOnce() !== null) throw invalidCron(expression, 'a date is not a cron expression');
  return cron;
}

function zoneOf(timeZone: string): ZoneOffsets {
  try {
    return new ZoneOffsets(timeZone);
  } catch (cause) {
    throw new PerdureError(
      'INVALID_SCHEDULE',
      `Unknown time zone ${JSON.stringify(String(timeZone).slice(0, 60))}. Use an IANA name such as 'Europe/Berlin', or 'UTC'.`,
      { cause },
    );
  }
}

function invalidCron(expression: string, problem: string, cause?: unknown): PerdureError {
  return new PerdureError(
    'INVALID_SCHEDULE',
    `Invalid cron expression ${JSON.stringify(expression.slice(0, 60))}: ${problem}. Use five fields (minute hour day month weekday), or six with seconds first.`,
    cause === undefined ? undefined : { cause },
  );
}

const dayMs = 86_400_000;

// No zone changes its offset twice within this time.
const stableMs = 4 * dayMs;

/** The UTC offsets of a time zone, from -12 h to +14 h. */
class ZoneOffsets {
  readonly #format: Intl.DateTimeFormat;
  readonly #isUtc: boolean;
  /** Cached range with a constant offset, because formatting is slow. */
  #known = { from: Infinity, to: -Infinity, offset: 0 };

  /** Throws a `RangeError` for an unknown zone. */
  constructor(timeZone: string) {
    this.#format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    this.#isUtc = this.#format.resolvedOptions().timeZone === 'UTC';
  }

  /** Returns the offset to add to an instant to get its local time, encoded as UTC. */
  at(instant: number): number {
    if (this.#isUtc) return 0;
    const { from, to, offset } = this.#known;
    return instant >= from && instant <= to ? offset : this.#compute(instant);
  }

  #compute(instant: number): number {
    const whole = Math.floor(instant / 1_000) * 1_000;
    const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
    for (const { type, value } of this.#format.formatToParts(whole)) fields[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields;
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  }

  /** Returns the instant in `(from, to]` at which the offset changes, or `undefined`. */
  changeBetween(from: number, to: number): number | undefined {
    const before = this.at(from);
    if (this.at(to) === before) {
      this.#remember(from, to, before);
      return undefined;
    }
    let [early, late] = [from, to];
    while (late - early > 1) {
      const middle = Math.floor((early + late) / 2);
      if (this.at(middle) === before) early = middle;
      else late = middle;
    }
    return late;
  }

  #remember(from: number, to: number, offset: number): void {
    if (!(to - from <= stableMs)) return;
    const known = this.#known;
    const overlaps = known.offset === offset && from <= known.to && to >= known.from;
    this.#known = overlaps
      ? { from: Math.min(from, known.from), to: Math.max(to, known.to), offset }
      : { from, to, offset };
  }

  /** Returns the first instant of a local time. For a skipped local time, returns the clock change. */
  instantOf(local: number): number {
    const [from, to] = [local - dayMs, local + dayMs];
    const change = this.changeBetween(from, to);
    const first = local - this.at(from);
    if (change === undefined || first < change) return first;
    return Math.max(change, local - this.at(to));
  }
}
