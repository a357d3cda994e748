import { createHash } from 'node:crypto';
import type { Timing } from './ticks.ts';

/** How long to delay the ticks of a schedule. */
export interface Jitter {
  readonly schedule: string;
  readonly jitterMs: number;
}

/**
 * Delays each tick by an amount derived from the schedule and the tick, less than `jitterMs` and than the time to the next
 * tick. So delayed ticks keep their order, and `nominalTick` finds the tick of each.
 */
export function jitterTiming(timing: Timing, { schedule, jitterMs }: Jitter): Timing {
  if (jitterMs <= 0) return timing;
  const delayed = (tick: number | null): number | null => {
    if (tick === null) return null;
    const next = timing.next(tick);
    const limit = Math.min(jitterMs, next === null ? jitterMs : next - tick);
    return tick + Math.floor(fraction(schedule, tick) * limit);
  };
  return {
    next(afterMs) {
      const current = delayed(timing.previous(afterMs));
      return current !== null && current > afterMs ? current : delayed(timing.next(afterMs));
    },
    previous(atMs) {
      const tick = timing.previous(atMs);
      const current = delayed(tick);
      if (tick === null || current === null || current <= atMs) return current;
      return delayed(timing.previous(tick - 1));
    },
  };
}

/** Returns the tick that is delayed to `delayedMs`. */
export function nominalTick(timing: Timing, delayedMs: number, jitterMs: number): number {
  return jitterMs <= 0 ? delayedMs : (timing.previous(delayedMs) ?? delayedMs);
}

/** A fraction from 0 to less than 1 that is the same in every process. */
function fraction(schedule: string, tick: number): number {
  const digest = createHash('sha256').update(`${tick}:${schedule}`).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48;
}
