/** When something happens: moments in milliseconds since the epoch, in order. */
export interface Timing {
  /** The first moment after one; `null` when there is none. */
  next(afterMs: number): number | null;
  /** The last moment at or before one; `null` when there is none. */
  previous(atMs: number): number | null;
}

/** A timing every so many milliseconds, counted from a moment that is none of them. */
export function everyTiming(everyMs: number, anchorMs: number): Timing {
  const at = (index: number): number | null => (index < 1 ? null : anchorMs + index * everyMs);
  return {
    next: (afterMs) => at(Math.max(1, Math.floor((afterMs - anchorMs) / everyMs) + 1)),
    previous: (atMs) => at(Math.floor((atMs - anchorMs) / everyMs)),
  };
}

/** The part of a timing from one moment to another, both included. */
export function limitTiming(
  timing: Timing,
  fromMs: number | undefined,
  untilMs: number | undefined,
): Timing {
  const [first, last] = [fromMs ?? -Infinity, untilMs ?? Infinity];
  const within = (moment: number | null): number | null =>
    moment !== null && moment >= first && moment <= last ? moment : null;
  return {
    next: (afterMs) => within(timing.next(Math.max(afterMs, first - 1))),
    previous: (atMs) => within(timing.previous(Math.min(atMs, last))),
  };
}

/** What to do about ticks that nobody was there for: nothing, one run for all of them, or a run for each. */
export type CatchUp = 'skip' | 'one' | 'all';

/** A tick that is this late was missed; a little late is on time, and fires under every policy. */
export const onTimeMs = 10_000;

/** The most ticks that are made to happen at once, of all schedules; what is left is due again. */
export const maxTicks = 1_000;

/** The ticks that are to happen now, and when the schedule fires next. */
export function dueTicks(params: {
  readonly timing: Timing;
  readonly catchUp: CatchUp;
  /** The first tick that has not happened; at or before now. */
  readonly nextAt: number;
  readonly nowMs: number;
  /** Default: as many as there may be of all schedules. */
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

/** The missed tick that stands for all; a schedule that was changed since may have had its last one at `nextAt`. */
function lastMissed(timing: Timing, nextAt: number, missedUntil: number): readonly number[] {
  if (nextAt > missedUntil) return [];
  return [Math.max(nextAt, timing.previous(missedUntil) ?? nextAt)];
}
