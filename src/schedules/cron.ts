import { Cron } from 'croner';
import { PerdureError } from '../model/errors.ts';
import type { Timing } from './timing.ts';

/** The moments of a cron expression of five fields, or six with seconds first, in a time zone. */
export function cronTiming(expression: string, timeZone: string): Timing {
  checkTimeZone(timeZone);
  const cron = parse(expression, timeZone);
  const timing: Timing = {
    next: (afterMs) => cron.nextRun(new Date(afterMs))?.getTime() ?? null,
    previous: (atMs) => {
      // Moments are whole seconds, and the one asked about is to be among them.
      const reference = new Date((Math.floor(atMs / 1_000) + 1) * 1_000);
      return cron.previousRuns(1, reference)[0]?.getTime() ?? null;
    },
  };
  return timing;
}

function parse(expression: string, timeZone: string): Cron {
  let cron: Cron;
  try {
    cron = new Cron(expression, { paused: true, timezone: timeZone, mode: '5-or-6-parts' });
  } catch (cause) {
    throw invalidCron(expression, cause instanceof Error ? cause.message : 'not understood', cause);
  }
  // The library also takes a date, for what happens once.
  if (cron.getOnce() !== null) throw invalidCron(expression, 'a date is no cron expression');
  return cron;
}

function checkTimeZone(timeZone: string): void {
  try {
    new Intl.DateTimeFormat('en', { timeZone }).format(0);
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
