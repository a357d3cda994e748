import { readFileSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { systemClock, type Clock } from '../../../model/clock.ts';
import { randomToken } from '../../../model/values/random-id.ts';
import type { Machine } from './store-clock.ts';

const injected = new WeakMap<Clock, string>();

/** The machine of a clock; an injected clock is a machine of its own. */
export function machineOf(clock: Clock): Machine {
  if (clock !== systemClock) {
    const boot = injected.get(clock) ?? randomToken();
    injected.set(clock, boot);
    return { clock, boot, aheadMs: 0, suspendedMs: () => 0 };
  }
  // `hrtime` counts from the same moment in all processes of a machine.
  const aheadMs = Number(process.hrtime.bigint()) / 1e6 - clock.monotonic();
  return {
    clock,
    boot: bootId() ?? `${hostname()} ${String(process.pid)} ${randomToken()}`,
    aheadMs,
    // On Linux the monotonic clock stands still while the machine is suspended, and its uptime does not.
    suspendedMs: () => uptime() * 1_000 - clock.monotonic() - aheadMs,
  };
}

/** What Linux calls this start of the machine; elsewhere a process only agrees with itself. */
function bootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return undefined;
  }
}
