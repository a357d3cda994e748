import type { Check } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';

/** Reports a difference between the clock of the store and the clock of this process. */
export const checkClockSkew: Check = ({ reads, limits }) => {
  if (reads === undefined) return [];
  const { skewMs, skewErrorMs } = reads;
  if (Math.abs(skewMs) - skewErrorMs <= limits.skewMs) return [];
  const side = skewMs > 0 ? 'ahead of' : 'behind';
  return [
    {
      id: 'clock-skew',
      level: 'warning',
      sentence: `The clock of the store is ${formatDuration(Math.abs(skewMs))} ${side} the clock of this process. The clock of the store decides when timers and leases are due.`,
      remedy: 'Synchronize both clocks with NTP: `timedatectl set-ntp true`.',
    },
  ];
};
