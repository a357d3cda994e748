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
export function between(
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
