import { Cron } from 'croner';
import { PerdureError } from '../model/failures/errors.ts';
import type { Timing } from './ticks.ts';

/** Local times that match an expression, written as if they were UTC. */
interface LocalTimes {
  /** The first one after a local time. */
  next(local: number): number | null;
  /** The last one at or before a local time. */
  previous(local: number): number | null;
}

// Longer than any zone's offset changes at once, and shorter than the time between two changes.
const windowMs = 2 * 86_400_000;

/**
 * The moments of a cron expression of five fields, or six with seconds first, in a time zone.
 *
 * Where seconds, minutes and hours are numbers, lists or ranges, each local time fires once: one that a clock change
 * skips at the moment of the change, one that it repeats the first time. With a `*` or a step in one of them the
 * expression follows real time: what is skipped does not fire, and what is repeated fires again.
 */
export function cronTiming(expression: string, timeZone: string): Timing {
  const zone = zoneOf(timeZone);
  const cron = parse(expression);
  const times: LocalTimes = {
    next: (local) => cron.nextRun(new Date(local))?.getTime() ?? null,
    previous: (local) => {
      // Times are whole seconds, and the one asked about is to be among them.
      const reference = new Date((Math.floor(local / 1_000) + 1) * 1_000);
      return cron.previousRuns(1, reference)[0]?.getTime() ?? null;
    },
  };
  return followsRealTime(expression) ? realTiming(times, zone) : fixedTiming(times, zone);
}

/** Whether a field of the time of day is a wildcard or has a step. */
function followsRealTime(expression: string): boolean {
  const fields = expression.trim().split(/\s+/);
  // A nickname is one field.
  if (fields.length === 1) return fields[0]?.toLowerCase() === '@hourly';
  return fields.slice(0, -3).some((field) => /[*?/]/.test(field));
}

/** Each local time once, in the order in which they come: their moments never go back. */
function fixedTiming(times: LocalTimes, zone: ZoneOffsets): Timing {
  return {
    next(after) {
      let local = times.next(after + zone.at(after));
      // In a repeated hour the times that are still to come have fired the first time.
      while (local !== null && zone.momentOf(local) <= after) local = times.next(local);
      return local === null ? null : zone.momentOf(local);
    },
    previous(at) {
      let local = times.previous(lastLocal(zone, at));
      while (local !== null && zone.momentOf(local) > at) local = times.previous(local - 1);
      return local === null ? null : zone.momentOf(local);
    },
  };
}

/** The last local time up to a moment: before a clock was set back it was later than after that. */
function lastLocal(zone: ZoneOffsets, at: number): number {
  const change = zone.changeBetween(at - windowMs, at);
  const local = at + zone.at(at);
  return change === undefined ? local : Math.max(local, change - 1 + zone.at(change - 1));
}

/** Every moment whose local time matches. */
function realTiming(times: LocalTimes, zone: ZoneOffsets): Timing {
  return {
    next(after) {
      for (let from = after + 1; ;) {
        const offset = zone.at(from);
        const local = times.next(from + offset - 1);
        const moment = local === null ? Infinity : local - offset;
        const end = Math.min(moment, from + windowMs);
        const change = zone.changeBetween(from, end);
        if (change !== undefined) from = change;
        else if (moment === end) return moment;
        else if (moment === Infinity) return null;
        // Nothing matches in between, by whatever offset.
        else from = Math.max(end, moment - windowMs);
      }
    },
    previous(at) {
      for (let to = at; ;) {
        const offset = zone.at(to);
        const local = times.previous(to + offset);
        const moment = local === null ? -Infinity : local - offset;
        const start = Math.max(moment, to - windowMs);
        const change = zone.changeBetween(start, to);
        if (change !== undefined) to = change - 1;
        else if (moment === start) return moment;
        else if (moment === -Infinity) return null;
        else to = Math.min(start, moment + windowMs);
      }
    },
  };
}

function parse(expression: string): Cron {
  let cron: Cron;
  try {
    cron = new Cron(expression, { paused: true, timezone: 'UTC', mode: '5-or-6-parts' });
  } catch (cause) {
    throw invalidCron(expression, cause instanceof Error ? cause.message : 'not understood', cause);
  }
  // The library also takes a date, for what happens once.
  if (cron.getOnce() !== null) throw invalidCron(expression, 'a date is no cron expression');
  return cron;
}

function zoneOf(timeZone: string): ZoneOffsets {
  try {
    return new ZoneOffsets(timeZone);
  } catch (cause) {
    throw new PerdureError(
      'INVALID_SCHEDULE',
      `Time zone ${JSON.stringify(String(timeZone).slice(0, 60))} is unknown. Use an IANA name such as 'Europe/Berlin', or 'UTC'.`,
      { cause },
    );
  }
}

function invalidCron(expression: string, problem: string, cause?: unknown): PerdureError {
  return new PerdureError(
    'INVALID_SCHEDULE',
    `Cron expression ${JSON.stringify(expression.slice(0, 60))}: ${problem}. Use five fields (minute hour day month weekday), or six with seconds first.`,
    cause === undefined ? undefined : { cause },
  );
}

const dayMs = 86_400_000;

// No zone changes its offset twice within this time.
const stableMs = 4 * dayMs;

/** The offset of a time zone from UTC: in every zone and year from -12 h to +14 h. */
export class ZoneOffsets {
  readonly #format: Intl.DateTimeFormat;
  readonly #isUtc: boolean;
  /** Between these moments the offset is known: formatting costs more than everything else here. */
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

  /** What to add to a moment to get its local time, written as if it were UTC. */
  at(moment: number): number {
    if (this.#isUtc) return 0;
    const { from, to, offset } = this.#known;
    return moment >= from && moment <= to ? offset : this.#compute(moment);
  }

  #compute(moment: number): number {
    const whole = Math.floor(moment / 1_000) * 1_000;
    const fields: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {};
    for (const { type, value } of this.#format.formatToParts(whole)) fields[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields;
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  }

  /** The moment in `(from, to]` from which on the offset is another than at `from`; `undefined` if it stays. */
  changeBetween(from: number, to: number): number | undefined {
    const before = this.at(from);
    if (this.at(to) === before) {
      this.#learn(from, to, before);
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

  #learn(from: number, to: number, offset: number): void {
    if (!(to - from <= stableMs)) return;
    const known = this.#known;
    const joins = known.offset === offset && from <= known.to && to >= known.from;
    this.#known = joins
      ? { from: Math.min(from, known.from), to: Math.max(to, known.to), offset }
      : { from, to, offset };
  }

  /** The first moment of a local time; of one that a change skips, the moment of the change. */
  momentOf(local: number): number {
    const [from, to] = [local - dayMs, local + dayMs];
    const change = this.changeBetween(from, to);
    const first = local - this.at(from);
    if (change === undefined || first < change) return first;
    return Math.max(change, local - this.at(to));
  }
}
