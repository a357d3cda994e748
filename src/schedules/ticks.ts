/** The tick times of a schedule, in milliseconds since the epoch. */
export interface Timing {
  /** Returns the first tick after `afterMs`, or `null`. */
  next(afterMs: number): number | null;
  /** Returns the last tick at or before `atMs`, or `null`. */
  previous(atMs: number): number | null;
}

/** Ticks every `everyMs` after `anchorMs`. The anchor itself is not a tick. */
export function everyTiming(everyMs: number, anchorMs: number): Timing {
  const at = (index: number): number | null => (index < 1 ? null : anchorMs + index * everyMs);
  return {
    next: (afterMs) => at(Math.max(1, Math.floor((afterMs - anchorMs) / everyMs) + 1)),
    previous: (atMs) => at(Math.floor((atMs - anchorMs) / everyMs)),
  };
}

/** Limits a timing to `fromMs` … `untilMs`, both inclusive. */
export function limitTiming(
  timing: Timing,
  fromMs: number | undefined,
  untilMs: number | undefined,
): Timing {
  const [first, last] = [fromMs ?? -Infinity, untilMs ?? Infinity];
  const within = (tick: number | null): number | null =>
    tick !== null && tick >= first && tick <= last ? tick : null;
  return {
    next: (afterMs) => within(timing.next(Math.max(afterMs, first - 1))),
    previous: (atMs) => within(timing.previous(Math.min(atMs, last))),
  };
}

/** Policy for missed ticks: `'skip'` drops them, `'one'` runs once for all of them, `'all'` runs each. */
export type CatchUp = 'skip' | 'one' | 'all';

/** Lateness from which a tick counts as missed, in milliseconds. Earlier ticks fire under every policy. */
export const onTimeMs = 10_000;

/** Maximum ticks per pass, across all schedules. The rest stay due for the next pass. */
export const maxTicks = 1_000;

/** Returns the ticks to fire now, and the time of the next tick. */
export function dueTicks(params: {
  readonly timing: Timing;
  readonly catchUp: CatchUp;
  /** The first tick that has not fired. Must not be later than `nowMs`. */
  readonly nextAt: number;
  readonly nowMs: number;
  /** Maximum ticks to return. Default: `maxTicks`. */
  readonly max?: number;
}): { readonly ticks: readonly number[]; readonly nextAt: number | null } {
  const { timing, catchUp, nextAt, nowMs, max = maxTicks } = params;
  const missedUntil = nowMs - onTimeMs;
  const begin = catchUp === 'all' || nextAt > missedUntil ? nextAt : timing.next(missedUntil);
  const ticks: number[] = [];
  if (catchUp === 'one') ticks.push(...lastMissed(timing, nextAt, missedUntil));
  let tick = begin;
  while (tick !== null && tick <= nowMs && ticks.length < max) {
    ticks.push(tick);
    tick = timing.next(tick);
  }
  return { ticks, nextAt: tick };
}

/** Returns the last missed tick. A changed schedule may have no tick after `nextAt`. */
function lastMissed(timing: Timing, nextAt: number, missedUntil: number): readonly number[] {
  if (nextAt > missedUntil) return [];
  return [Math.max(nextAt, timing.previous(missedUntil) ?? nextAt)];
}
