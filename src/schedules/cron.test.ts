import { describe, expect, it } from 'vitest';
import { cronTiming } from './cron.ts';

function at(text: string): number {
  return Date.parse(text);
}

function iso(moment: number | null): string | null {
  return moment === null ? null : new Date(moment).toISOString();
}

describe('cronTiming', () => {
  it('next() is exclusive and previous() is inclusive of the given time', () => {
    const timing = cronTiming('*/15 * * * *', 'UTC');
    expect(iso(timing.next(at('2026-05-01T00:15:00Z')))).toBe('2026-05-01T00:30:00.000Z');
    expect(iso(timing.next(at('2026-05-01T00:14:59.999Z')))).toBe('2026-05-01T00:15:00.000Z');
    expect(iso(timing.previous(at('2026-05-01T00:15:00Z')))).toBe('2026-05-01T00:15:00.000Z');
    expect(iso(timing.previous(at('2026-05-01T00:14:59.999Z')))).toBe('2026-05-01T00:00:00.000Z');
  });

  it('accepts a seconds field and nicknames such as @daily', () => {
    const after = at('2026-05-01T00:00:00Z');
    expect(iso(cronTiming('30 * * * * *', 'UTC').next(after))).toBe('2026-05-01T00:00:30.000Z');
    expect(iso(cronTiming('@daily', 'UTC').next(after))).toBe('2026-05-02T00:00:00.000Z');
  });

  it('uses local time in its zone before and after a DST change', () => {
    const timing = cronTiming('0 9 * * *', 'Europe/Berlin');
    expect(iso(timing.next(at('2026-03-28T00:00:00Z')))).toBe('2026-03-28T08:00:00.000Z');
    expect(iso(timing.next(at('2026-03-29T00:00:00Z')))).toBe('2026-03-29T07:00:00.000Z');
  });

  it('fires once for a local time that DST skips or repeats', () => {
    const timing = cronTiming('30 2 * * *', 'Europe/Berlin');
    const skipped = timing.next(at('2026-03-28T12:00:00Z')) ?? 0;
    expect(iso(skipped)?.slice(0, 10)).toBe('2026-03-29');
    expect(iso(timing.next(skipped))).toBe('2026-03-30T00:30:00.000Z');
    const repeated = timing.next(at('2026-10-24T12:00:00Z')) ?? 0;
    expect(iso(repeated)).toBe('2026-10-25T00:30:00.000Z');
    expect(iso(timing.next(repeated))).toBe('2026-10-26T01:30:00.000Z');
  });

  it('returns within 2 s when the next tick is years away or never comes', () => {
    const before = performance.now();
    const leap = cronTiming('0 0 29 2 *', 'UTC');
    expect(iso(leap.next(at('2097-01-01T00:00:00Z')))).toBe('2104-02-29T00:00:00.000Z');
    expect(iso(leap.previous(at('2103-01-01T00:00:00Z')))).toBe('2096-02-29T00:00:00.000Z');
    expect(cronTiming('0 0 30 2 *', 'UTC').next(at('2026-01-01T00:00:00Z'))).toBeNull();
    expect(performance.now() - before).toBeLessThan(2_000);
  });

  it.each(['', 'a b c d e', '61 * * * *', '* * * *', '* * * * * * 2030', '2030-01-01T00:00:00'])(
    'throws INVALID_SCHEDULE for the expression %j',
    (expression) => {
      expect(() => cronTiming(expression, 'UTC')).toThrow(
        expect.objectContaining({ code: 'INVALID_SCHEDULE' }),
      );
    },
  );

  it.each(['Mars/Olympus', '', 'Europe/Berlin; DROP TABLE'])(
    'throws INVALID_SCHEDULE for the time zone %j',
    (timeZone) => {
      expect(() => cronTiming('* * * * *', timeZone)).toThrow(
        expect.objectContaining({ code: 'INVALID_SCHEDULE' }),
      );
    },
  );
});
