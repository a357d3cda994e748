import { describe, expect, it } from 'vitest';
import { cronTiming } from './cron.ts';

// An independent calculation: it formats the local time of every minute around each clock change, and matches the
// expression against these texts.

const zones = [
  'Europe/Berlin',
  'America/New_York',
  'America/Sao_Paulo',
  'America/Havana',
  'Australia/Lord_Howe',
  'Australia/Sydney',
  'Africa/Cairo',
  'Africa/Casablanca',
  'Asia/Beirut',
  'Asia/Kathmandu',
  'America/Santiago',
];

// Ten years each. Brazil changed its clocks for the last time in 2019.
const firstYear = (zone: string): number => (zone === 'America/Sao_Paulo' ? 2010 : 2018);
const years = 10;

interface Expression {
  readonly text: string;
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  /** 0 is Sunday. Absent: every day. */
  readonly weekdays?: readonly number[];
  readonly real: boolean;
}

const all = (count: number, step = 1): readonly number[] =>
  Array.from({ length: Math.ceil(count / step) }, (_, index) => index * step);

const fixed: readonly Expression[] = [
  { text: '30 2,14 * * *', minutes: [30], hours: [2, 14], real: false },
  { text: '30 1,13 * * *', minutes: [30], hours: [1, 13], real: false },
  { text: '0 0 * * *', minutes: [0], hours: [0], real: false },
  { text: '@daily', minutes: [0], hours: [0], real: false },
  { text: '15,45 0-3 * * *', minutes: [15, 45], hours: [0, 1, 2, 3], real: false },
  { text: '10 0,23 * * SUN', minutes: [10], hours: [0, 23], weekdays: [0], real: false },
];
const real: readonly Expression[] = [
  { text: '@hourly', minutes: [0], hours: all(24), real: true },
  { text: '*/30 * * * *', minutes: all(60, 30), hours: all(24), real: true },
  { text: '*/20 2 * * *', minutes: all(60, 20), hours: [2], real: true },
  { text: '30 */2 * * *', minutes: [30], hours: all(24, 2), real: true },
  { text: '5 * * * 0,6', minutes: [5], hours: all(24), weekdays: [0, 6], real: true },
];

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

class LocalText {
  readonly #format: Intl.DateTimeFormat;

  constructor(timeZone: string) {
    // Swedish dates use the ISO format, so text order is time order.
    this.#format = new Intl.DateTimeFormat('sv-SE', {
      timeZone,
      dateStyle: 'short',
      timeStyle: 'short',
    });
  }

  of(moment: number): string {
    return this.#format.format(moment).replace(' ', 'T');
  }
}

/** Returns the UTC offset of a local time text. */
function offset(text: LocalText, moment: number): number {
  return Date.parse(`${text.of(moment)}Z`) - moment;
}

/** Returns the clock changes of a zone, to the minute. */
function changes(text: LocalText, from: number, to: number): readonly number[] {
  const found: number[] = [];
  const stepMs = 24 * hourMs;
  for (let at = from; at < to; at += stepMs) {
    const before = offset(text, at);
    if (before === offset(text, at + stepMs)) continue;
    let moment = at;
    while (offset(text, moment) === before) moment += minuteMs;
    found.push(moment);
  }
  return found;
}

function matches({ minutes, hours, weekdays }: Expression, local: string): boolean {
  return (
    minutes.includes(Number(local.slice(14, 16))) &&
    hours.includes(Number(local.slice(11, 13))) &&
    (weekdays === undefined || weekdays.includes(new Date(`${local}Z`).getUTCDay()))
  );
}

/** Returns the ticks of an expression in a window of minutes, given their local times in order. */
function reference(expression: Expression, from: number, locals: readonly string[]): number[] {
  const moments = new Set<number>();
  if (expression.real) {
    for (const [index, local] of locals.entries()) {
      if (matches(expression, local)) moments.add(from + index * minuteMs);
    }
    return [...moments];
  }
  // Each matching local time fires at the first minute with that local time or a later one.
  const begin = Date.parse(`${locals[0] ?? ''}Z`);
  const end = Date.parse(`${locals.at(-1) ?? ''}Z`);
  let index = 0;
  for (let at = begin; at <= end; at += minuteMs) {
    const named = new Date(at).toISOString().slice(0, 16);
    if (!matches(expression, named)) continue;
    while ((locals[index] ?? '~') < named) index += 1;
    moments.add(from + index * minuteMs);
  }
  return [...moments];
}

function inWindow(expression: string, zone: string, from: number, to: number): number[] {
  const timing = cronTiming(expression, zone);
  const moments: number[] = [];
  for (let at = timing.next(from - 1); at !== null && at < to; at = timing.next(at))
    moments.push(at);
  return moments;
}

function backwards(expression: string, zone: string, from: number, to: number): number[] {
  const timing = cronTiming(expression, zone);
  const moments: number[] = [];
  for (let at = timing.previous(to - 1); at !== null && at >= from; at = timing.previous(at - 1)) {
    moments.unshift(at);
  }
  return moments;
}

const iso = (moments: readonly number[]): readonly string[] =>
  moments.map((moment) => new Date(moment).toISOString());

describe.each(zones)('cronTiming in %s over ten years', (zone) => {
  const text = new LocalText(zone);
  const begin = Date.UTC(firstYear(zone), 0, 1);
  const end = Date.UTC(firstYear(zone) + years, 0, 1);
  const changed = changes(text, begin, end);
  // Also days without a change: in summer and in winter.
  const samples = [1, 7].map((month) => Date.UTC(firstYear(zone) + 5, month, 11, 7));
  const windows = [...changed, ...samples].map((middle) => {
    const [from, to] = [middle - 15 * hourMs, middle + 15 * hourMs];
    const locals = all((to - from) / minuteMs).map((minute) => text.of(from + minute * minuteMs));
    return { from, to, locals };
  });

  it('the zone has the expected number of clock changes', () => {
    expect(changed.length > 0).toBe(zone !== 'Asia/Kathmandu');
  });

  it.each([...fixed, ...real])(
    '$text fires at the minutes of the independent calculation',
    (expression) => {
      for (const { from, to, locals } of windows) {
        const expected = iso(reference(expression, from, locals));
        expect(iso(inWindow(expression.text, zone, from, to))).toEqual(expected);
        expect(iso(backwards(expression.text, zone, from, to))).toEqual(expected);
      }
    },
  );
});
