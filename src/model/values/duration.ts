import { PerdureError } from '../failures/errors.ts';

/** Milliseconds, or text such as `'250ms'`, `'30s'`, `'5m'`, `'1h'`, `'30d'`. */
export type Duration = number | string;

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

// A thousand years, so that a time plus a duration stays a safe integer.
const maxMs = 31_556_952_000_000;

/** Converts a duration to whole milliseconds, rounded up. Throws `INVALID_DURATION` for an invalid one. */
export function toMs(duration: Duration, what = 'duration'): number {
  const ms = typeof duration === 'number' ? duration : parse(duration);
  if (ms === undefined || !Number.isFinite(ms) || ms < 0 || ms > maxMs) {
    throw new PerdureError(
      'INVALID_DURATION',
      `Invalid \`${what}\` ${describe(duration)}: use milliseconds of 0 or more, or text such as '250ms', '30s', '5m', '1h', '30d'.`,
    );
  }
  // Rounds to thousandths first: 1.1 s is 1100.0000000000002 ms in floating point. Adding 0 turns -0 into 0.
  return Math.ceil(Math.round(ms * 1_000) / 1_000) + 0;
}

function parse(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined;
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)$/.exec(text.trim());
  const unit = match?.[2] === undefined ? undefined : unitMs[match[2]];
  return unit === undefined ? undefined : Number(match?.[1]) * unit;
}

function describe(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 60));
  return typeof value === 'object' && value !== null ? 'an object' : String(value).slice(0, 60);
}
