import { uptime } from 'node:os';
import { systemClock, type Clock } from '../../model/clock.ts';
import type { StoreClockOptions } from './store-clock.ts';

/** What a store's clock needs of the machine; an injected clock is a machine of its own. */
export function machineOf(clock: Clock): Omit<StoreClockOptions, 'plan'> {
  if (clock !== systemClock) return { clock };
  // `hrtime` counts from the same moment in all processes of a machine.
  const machineAheadMs = Number(process.hrtime.bigint()) / 1e6 - clock.monotonic();
  return {
    clock,
    machineAheadMs,
    // On Linux the monotonic clock stands still while the machine is suspended, and its uptime does not.
    suspendedMs: () => uptime() * 1_000 - clock.monotonic() - machineAheadMs,
  };
}
