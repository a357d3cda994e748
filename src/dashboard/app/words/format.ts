import { timeZone } from '../state/settings.ts';

const numbers = new Intl.NumberFormat('en-US');

/** `1,284` */
export function formatNumber(value: number): string {
  return numbers.format(value);
}

/** A count that may be a lower bound: `10,000+`. */
export function formatCount({
  count,
  capped,
}: {
  readonly count: number;
  readonly capped: boolean;
}): string {
  return capped ? `${formatNumber(count)}+` : formatNumber(count);
}

/** `1 instance`, `3 instances` */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** `820 ms`, `6.2 s`, `4 min 20 s`, `2 h 41 min`, `3 d 4 h` */
export function formatDuration(ms: number): string {
  const abs = Math.max(0, ms);
  if (abs < 1_000) return `${Math.round(abs)} ms`;
  if (abs < 10_000) return `${(Math.floor(abs / 100) / 10).toString()} s`;
  const seconds = Math.floor(abs / 1_000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return join(minutes, 'min', seconds % 60, 's');
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return join(hours, 'h', minutes % 60, 'min');
  return join(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

/** An age in one unit, which does not tick faster than needed: `6 s`, `4 min`, `2 h`, `3 d` */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400)
    return join(Math.floor(seconds / 3_600), 'h', Math.floor((seconds % 3_600) / 60), 'min');
  return join(Math.floor(seconds / 86_400), 'd', Math.floor((seconds % 86_400) / 3_600), 'h');
}

/** `18.2 kB` */
export function formatBytes(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  let value = bytes;
  let unit = -1;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${value < 100 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

/** `13:02:54` */
export function formatTime(at: number, { millis = false }: { millis?: boolean } = {}): string {
  return format(at, {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    hourCycle: 'h23',
    ...(millis && { fractionalSecondDigits: 3 }),
  });
}

/** A label of a time axis: `13:02`, or `17 Nov` for long windows. */
export function formatClock(at: number, { day = false }: { day?: boolean } = {}): string {
  return day
    ? format(at, { day: 'numeric', month: 'short' })
    : format(at, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });
}

/** `17 Nov 2026, 13:02:54` */
export function formatDateTime(at: number): string {
  return `${format(at, { day: 'numeric', month: 'short', year: 'numeric' })}, ${formatTime(at)}${timeZone.value === 'utc' ? ' UTC' : ''}`;
}

/** The time alone today, else with its date. */
export function formatMoment(at: number, now: number): string {
  const day = { day: 'numeric', month: 'short', year: 'numeric' } as const;
  if (format(at, day) === format(now, day)) return formatTime(at);
  return `${format(at, { day: 'numeric', month: 'short' })}, ${format(at, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })}`;
}

const formatters = new Map<string, Intl.DateTimeFormat>();

function format(at: number, options: Intl.DateTimeFormatOptions): string {
  const zone = timeZone.value === 'utc' ? 'UTC' : undefined;
  const key = `${zone ?? ''} ${JSON.stringify(options)}`;
  let formatter = formatters.get(key);
  if (formatter === undefined) {
    formatter = new Intl.DateTimeFormat('en-GB', {
      ...options,
      ...(zone !== undefined && { timeZone: zone }),
    });
    formatters.set(key, formatter);
  }
  // Times outside the range of dates come from clocks or data that are wrong.
  return Math.abs(at) <= 8.64e15 ? formatter.format(at) : 'invalid time';
}

function join(major: number, majorUnit: string, minor: number, minorUnit: string): string {
  return minor === 0 ? `${major} ${majorUnit}` : `${major} ${majorUnit} ${minor} ${minorUnit}`;
}
