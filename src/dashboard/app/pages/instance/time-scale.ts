/** A stretch of time in which nothing happened, shown narrow. */
export interface IdleBand {
  readonly from: number;
  readonly to: number;
  /** Per cent of the track. */
  readonly x: number;
  readonly width: number;
}

/** Maps times to positions on a track, in per cent. */
export interface TimeScale {
  readonly start: number;
  readonly end: number;
  readonly idle: readonly IdleBand[];
  x(at: number): number;
  /** The time at a position. */
  at(x: number): number;
}

/** Something that lasts, or a moment if both times are the same. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

const idleWidth = 6;
const maxBands = 5;
/** The share of the track for what is planned, in per cent. */
const futureWidth = 16;

/**
 * Builds a scale from `start` to `end`. With `collapse`, stretches without a span that are long beside the busy time are
 * narrowed, so that a wait of hours does not hide the seconds of work around it. With `until`, the time after `end` has a
 * fixed share of the track.
 */
export function makeScale(
  start: number,
  end: number,
  busy: readonly Span[],
  { collapse, until }: { readonly collapse: boolean; readonly until?: number | undefined },
): TimeScale {
  const last = Math.max(end, start + 1);
  const gaps = collapse ? findGaps(start, last, busy) : [];
  const gapTime = gaps.reduce((total, { from, to }) => total + to - from, 0);
  const future = until !== undefined && until > last ? futureWidth : 0;
  const linear = (100 - future - gaps.length * idleWidth) / Math.max(1, last - start - gapTime);
  const pieces: { from: number; to: number; x: number; perMs: number }[] = [];
  let x = 0;
  let from = start;
  const idle: IdleBand[] = [];
  const add = (to: number, width: number): void => {
    pieces.push({ from, to, x, perMs: to > from ? width / (to - from) : 0 });
    x += width;
    from = to;
  };
  for (const gap of gaps) {
    if (gap.from > from) add(gap.from, (gap.from - from) * linear);
    idle.push({ ...gap, x, width: idleWidth });
    add(gap.to, idleWidth);
  }
  if (last > from) add(last, (last - from) * linear);
  if (until !== undefined && future > 0) add(until, future);
  return {
    start,
    end: until ?? last,
    idle,
    x(at) {
      const piece = pieces.findLast((one) => one.from <= at) ?? pieces[0];
      if (piece === undefined) return 0;
      return Math.max(0, Math.min(100, piece.x + (at - piece.from) * piece.perMs));
    },
    at(place) {
      const piece = pieces.findLast((one) => one.x <= place) ?? pieces[0];
      if (piece === undefined || piece.perMs === 0) return start;
      return piece.from + (place - piece.x) / piece.perMs;
    },
  };
}

/** The longest stretches that are worth collapsing, in order of time. */
function findGaps(start: number, end: number, busy: readonly Span[]): readonly Span[] {
  const merged = mergeSpans(busy.filter(({ to, from }) => to >= start && from <= end));
  const gaps: Span[] = [];
  let from = start;
  for (const span of merged) {
    if (span.from > from) gaps.push({ from, to: span.from });
    from = Math.max(from, span.to);
  }
  if (end > from) gaps.push({ from, to: end });
  const total = end - start;
  const idleTime = gaps.reduce((sum, gap) => sum + gap.to - gap.from, 0);
  const busyTime = total - idleTime;
  const worth = Math.max(2_000, 0.3 * Math.max(busyTime, total / 20));
  return (
    gaps
      .filter((gap) => gap.to - gap.from > worth)
      .sort((a, b) => b.to - b.from - (a.to - a.from))
      .slice(0, maxBands)
      // A margin keeps the work at both sides apart from the band.
      .map((gap) => {
        const margin = Math.min((gap.to - gap.from) * 0.02, Math.max(busyTime, 1_000) * 0.05);
        return { from: gap.from + margin, to: gap.to - margin };
      })
      .sort((a, b) => a.from - b.from)
  );
}

function mergeSpans(spans: readonly Span[]): readonly Span[] {
  const merged: { from: number; to: number }[] = [];
  for (const { from, to } of [...spans].sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last !== undefined && from <= last.to) last.to = Math.max(last.to, to);
    else merged.push({ from, to });
  }
  return merged;
}
