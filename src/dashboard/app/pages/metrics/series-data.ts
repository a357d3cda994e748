import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';

type Minute = ResponseBody<'getSeries'>['items'][number];

export const windows = ['1h', '6h', '24h', '7d'] as const;
export type Window = (typeof windows)[number];

export const windowMs: Readonly<Record<Window, number>> = {
  '1h': 3_600_000,
  '6h': 6 * 3_600_000,
  '24h': 24 * 3_600_000,
  '7d': 7 * 24 * 3_600_000,
};
/** `1 h` */
export const windowWords: Readonly<Record<Window, string>> = {
  '1h': '1 h',
  '6h': '6 h',
  '24h': '24 h',
  '7d': '7 d',
};
const minuteMs = 60_000;
// The server returns at most this many minutes per request.
const pageMinutes = 1_440;

/** The minutes of a window, oldest first. Minutes in which nothing happened are absent. */
export interface Series {
  readonly from: number;
  readonly to: number;
  readonly minutes: readonly Minute[];
}

/** Reads the minutes of a window. */
export async function readSeries(
  window: Window,
  now: number,
  name: string | undefined,
  signal: AbortSignal,
): Promise<Series> {
  // The minute that is not over yet, and the one that workers still write, are left out.
  const to = Math.floor(now / minuteMs) * minuteMs - minuteMs;
  const from = to - windowMs[window];
  const starts: number[] = [];
  for (let at = from; at < to; at += pageMinutes * minuteMs) starts.push(at);
  const pages = await Promise.all(
    starts.map((at) =>
      call(
        'getSeries',
        {
          query: {
            from: at,
            to: Math.min(to, at + pageMinutes * minuteMs),
            ...(name !== undefined && { name }),
          },
        },
        signal,
      ),
    ),
  );
  return { from, to, minutes: pages.flatMap(({ items }) => items) };
}

/** Points of a chart, and totals. */
export interface Summary {
  /** The start of each point. */
  readonly times: readonly number[];
  readonly starts: readonly number[];
  readonly ends: readonly number[];
  readonly failed: readonly number[];
  readonly durationP50: readonly (number | undefined)[];
  readonly durationP95: readonly (number | undefined)[];
  readonly attemptP50: readonly (number | undefined)[];
  readonly attemptP95: readonly (number | undefined)[];
  /** From the time when a worker could claim work until the claim. */
  readonly waitP50: readonly (number | undefined)[];
  readonly waitP95: readonly (number | undefined)[];
  readonly depth: readonly (number | undefined)[];
  readonly oldestMs: readonly (number | undefined)[];
  readonly endCount: number;
  readonly failedCount: number;
  readonly endsPerSecond: number;
  readonly p95Ms: number | undefined;
  readonly waitP95Ms: number | undefined;
  /** No minute of the window is recorded. */
  readonly isEmpty: boolean;
}

const maxPoints = 240;

/** Joins minutes so that a chart has at most 240 points. */
export function summarise({ from, to, minutes }: Series): Summary {
  const count = Math.max(1, Math.min(maxPoints, Math.round((to - from) / minuteMs)));
  const step = (to - from) / count;
  const groups: Minute[][] = Array.from({ length: count }, () => []);
  for (const minute of minutes) {
    groups[Math.max(0, Math.min(count - 1, Math.floor((minute.at - from) / step)))]?.push(minute);
  }
  const minutesEach = step / minuteMs;
  const sum = (group: readonly Minute[], value: (minute: Minute) => number): number =>
    group.reduce((total, minute) => total + value(minute), 0);
  const worst = (
    group: readonly Minute[],
    value: (minute: Minute) => number | null | undefined,
  ): number | undefined => {
    const all = group.map(value).filter((one) => one != null);
    return all.length === 0 ? undefined : Math.max(...all);
  };
  const ended = ({ ends }: Minute): number =>
    Object.values(ends).reduce<number>((total, one) => total + (one ?? 0), 0);
  const endCount = sum(minutes, ended);
  return {
    times: groups.map((_, index) => from + index * step),
    starts: groups.map((group) => sum(group, ({ starts }) => starts) / minutesEach),
    ends: groups.map((group) => sum(group, ended) / minutesEach),
    failed: groups.map((group) => sum(group, ({ ends }) => ends.failed ?? 0) / minutesEach),
    durationP50: groups.map((group) => worst(group, ({ instances }) => instances.p50Ms)),
    durationP95: groups.map((group) => worst(group, ({ instances }) => instances.p95Ms)),
    attemptP50: groups.map((group) => worst(group, ({ attempts }) => attempts.p50Ms)),
    attemptP95: groups.map((group) => worst(group, ({ attempts }) => attempts.p95Ms)),
    waitP50: groups.map((group) => worst(group, ({ waits }) => waits.p50Ms)),
    waitP95: groups.map((group) => worst(group, ({ waits }) => waits.p95Ms)),
    depth: groups.map((group) =>
      worst(group, ({ depths }) =>
        depths === undefined
          ? undefined
          : depths.orchestrations.ready + depths.activities.ready + depths.tasks.ready,
      ),
    ),
    oldestMs: groups.map((group) =>
      worst(group, ({ depths }) =>
        depths === undefined
          ? undefined
          : Math.max(
              depths.orchestrations.oldestMs ?? 0,
              depths.activities.oldestMs ?? 0,
              depths.tasks.oldestMs ?? 0,
            ),
      ),
    ),
    endCount,
    failedCount: sum(minutes, ({ ends }) => ends.failed ?? 0),
    endsPerSecond: endCount / ((to - from) / 1_000),
    p95Ms: worst(minutes, ({ instances }) => instances.p95Ms),
    waitP95Ms: worst(minutes, ({ waits }) => waits.p95Ms),
    isEmpty: minutes.length === 0,
  };
}
