/** A stretch of time in which nothing happened, shown narrow. */
interface IdleBand {
  readonly from: number;
  readonly to: number;
  /** Per cent of the track. */
  readonly x: number;
  readonly width: number;
}

/** A stretch of time that is shown to scale. */
interface Segment {
  readonly from: number;
  readonly to: number;
  /** Per cent of the track. */
  readonly x: number;
  readonly width: number;
}

/** A line of the grid: `offset` milliseconds after the start of its segment. */
interface Tick {
  readonly x: number;
  readonly offset: number;
}

/** Maps times to positions on a track, in per cent. */
export interface TimeScale {
  readonly start: number;
  readonly end: number;
  readonly idle: readonly IdleBand[];
  readonly segments: readonly Segment[];
  readonly ticks: readonly Tick[];
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

/** The least share of the track for a segment, in per cent. */
const leastSegment = 8;

/**
 * Builds a scale from `start` to `end`. With `collapse`, stretches without a span that are long beside the busy time are
 * narrowed, so that a wait of hours does not hide the seconds of work around it. Each segment between them is linear; a
 * short one gets more of the track than its share of the time. With `until`, the time after `end` has a fixed share.
 */
export function makeScale(
  start: number,
  end: number,
  busy: readonly Span[],
  { collapse, until }: { readonly collapse: boolean; readonly until?: number | undefined },
): TimeScale {
  // Clocks that are off, or damaged data, must not give positions that are no numbers.
  const first = Number.isFinite(start) ? start : 0;
  const last = Math.max(Number.isFinite(end) ? end : first, first + 1);
  const gaps = collapse ? findGaps(first, last, busy) : [];
  const future =
    until !== undefined && Number.isFinite(until) && until > last ? futureWidth : undefined;
  const between = segmentsBetween(first, last, gaps);
  const widths = shareOut(between, 100 - (future ?? 0) - gaps.length * idleWidth);
  const idle: IdleBand[] = [];
  const segments: Segment[] = [];
  let x = 0;
  for (const [index, span] of between.entries()) {
    const width = widths[index] ?? 0;
    segments.push({ ...span, x, width });
    x += width;
    const gap = gaps[index];
    if (gap === undefined) continue;
    idle.push({ ...gap, x, width: idleWidth });
    x += idleWidth;
  }
  const planned: readonly Segment[] =
    until === undefined || future === undefined
      ? []
      : [{ from: last, to: until, x, width: future }];
  const pieces = [...segments, ...idle, ...planned].sort((one, other) => one.x - other.x);
  return {
    start: first,
    end: planned[0]?.to ?? last,
    idle,
    segments,
    ticks: segments.flatMap(ticksOf),
    x(at) {
      const piece = pieces.findLast((one) => one.from <= at) ?? pieces[0];
      if (piece === undefined || !Number.isFinite(at)) return 0;
      const share = (at - piece.from) / Math.max(1, piece.to - piece.from);
      return Math.max(0, Math.min(100, piece.x + share * piece.width));
    },
    at(place) {
      const piece = pieces.findLast((one) => one.x <= place) ?? pieces[0];
      if (piece === undefined || piece.width === 0) return first;
      return piece.from + ((place - piece.x) / piece.width) * (piece.to - piece.from);
    },
  };
}

/** The stretches before, between and after the gaps. There is one more of them than gaps. */
function segmentsBetween(start: number, end: number, gaps: readonly Span[]): readonly Span[] {
  const starts = [start, ...gaps.map(({ to }) => to)];
  return starts.map((from, index) => ({ from, to: Math.max(from, gaps[index]?.from ?? end) }));
}

/** Divides the width: the fourth part of the time does not take a fourth of the track, but about a half. */
function shareOut(spans: readonly Span[], width: number): readonly number[] {
  if (spans.length === 1) return [width];
  const weights = spans.map(({ from, to }) => Math.max(1, to - from) ** 0.4);
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  const spare = width - spans.length * leastSegment;
  return weights.map((weight) => leastSegment + (weight / all) * spare);
}

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const steps: readonly number[] = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  ...[1, 2, 5, 10, 15, 30].map((count) => count * second),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
  ...[1, 2, 6, 12].map((count) => count * hour),
  ...[1, 2, 7, 30, 90, 365].map((count) => count * day),
];
/** The least distance of two grid lines, in per cent of the track. */
const tickDistance = 14;

function ticksOf({ from, to, x, width }: Segment): readonly Tick[] {
  const lasts = to - from;
  const count = Math.floor(width / tickDistance);
  const step = steps.find((one) => lasts / one <= count);
  if (count === 0 || step === undefined) return [];
  const ticks: Tick[] = [];
  for (let offset = step; offset < lasts; offset += step) {
    ticks.push({ offset, x: x + (offset / lasts) * width });
  }
  return ticks;
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
  const worth = Math.max(10_000, 0.3 * Math.max(busyTime, total / 20));
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
