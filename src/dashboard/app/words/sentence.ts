import { now } from '../state/clock.ts';
import { formatDuration, formatMoment } from './format.ts';

/** `in 12 s`, or `now` once it is due. */
export function until(at: number): string {
  const ms = at - now.value;
  return ms <= 0 ? 'now' : `in ${formatDuration(Math.ceil(ms / 1_000) * 1_000)}`;
}

/** `12 s ago` */
export function ago(at: number): string {
  return `${formatDuration(Math.floor(Math.max(0, now.value - at) / 1_000) * 1_000)} ago`;
}

/** How long something has lasted, in whole seconds. */
export function since(at: number): string {
  return formatDuration(Math.floor(Math.max(0, now.value - at) / 1_000) * 1_000);
}

/** A time of today, or with its date. */
export function moment(at: number): string {
  return formatMoment(at, now.value);
}
