import type { Turn } from '../contract/turn.ts';

/** How many versions of the custom status a turn adds: one for each time that its code set it. */
export function customStatusVersions({ customStatus, events }: Turn): number {
  if (customStatus === undefined) return 0;
  return Math.max(1, events.filter(({ kind }) => kind === 'customStatusSet').length);
}
