import type { ResponseBody } from '../api/operations.ts';
import { formatDuration, formatNumber } from './format.ts';

export type Limits = ResponseBody<'listLimits'>['items'][number];
type Figures = Limits['effective'];

/** The number above which the store does not count what waits. */
const mostCounted = 1_000;

/** Formats limits: `50 at a time, 2 per key, 100 per minute per key`. */
export function limitsText({ global, perKey, rate }: Figures): string {
  const parts = [
    ...(global === undefined ? [] : [`${formatNumber(global)} at a time`]),
    ...(perKey === undefined ? [] : [`${formatNumber(perKey)} per key`]),
    ...(rate === undefined ? [] : [rateText(rate)]),
  ];
  return parts.length === 0 ? 'none' : parts.join(', ');
}

function rateText({ limit, perMs, burst, perKey }: NonNullable<Figures['rate']>): string {
  const extra = burst === 0 ? '' : `, burst ${formatNumber(burst)}`;
  return `${formatNumber(limit)} per ${periodText(perMs)}${perKey ? ' per key' : ''}${extra}`;
}

const units = [
  [86_400_000, 'day', 'd'],
  [3_600_000, 'hour', 'h'],
  [60_000, 'minute', 'm'],
  [1_000, 'second', 's'],
] as const;

/** The period of a rate: `minute`, `10 s`. */
export function periodText(ms: number): string {
  return units.find(([unit]) => unit === ms)?.[1] ?? formatDuration(ms);
}

/** The period of a rate as the server reads it: `1m`, `90s`, `250ms`. */
export function periodValue(ms: number): string {
  const [unit, , name] = units.find(([one]) => ms >= one && ms % one === 0) ?? [1, '', 'ms'];
  return `${ms / unit}${name}`;
}

/** Formats a count of what waits. */
export function waitingText(waiting: number): string {
  if (waiting === 0) return '';
  return waiting >= mostCounted ? `${formatNumber(mostCounted)}+` : formatNumber(waiting);
}
