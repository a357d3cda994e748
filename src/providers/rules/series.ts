import type { TerminalStatus } from '../../model/status.ts';
import type {
  SeriesCounts,
  SeriesDepths,
  SeriesDurations,
  SeriesRow,
  SeriesStops,
  StopCount,
  StopStatus,
} from '../contract/series.ts';

/** The length of a minute, in milliseconds. */
export const minuteMs = 60_000;

/** The name of the row that counts all definitions. */
export const totalName = '';

/** The name of the row for the definitions beyond `maxSeriesNames`. */
export const otherName = 'other';

/** The number of names that a minute has rows of their own for. */
export const maxSeriesNames = 200;

/** How long rows are kept by default: 7 days. */
export const defaultKeepSeriesMs = 7 * 86_400_000;

/** The statuses that an instance can reach without a worker. They are counted from the instances. */
export const stopStatuses: readonly StopStatus[] = ['canceled', 'terminated', 'expired'];

/** The upper bounds of the buckets of durations, in milliseconds. One more bucket has no bound. */
export const seriesBoundsMs: readonly number[] = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000,
  1_800_000, 3_600_000, 21_600_000, 86_400_000,
];

/** Counts that the caller may change. */
export interface MutableDurations {
  count: number;
  sumMs: number;
  maxMs: number;
  readonly buckets: number[];
}

/** Counts that the caller may change. */
export interface MutableCounts {
  starts: number;
  readonly ends: Partial<Record<TerminalStatus, number>>;
  readonly instances: MutableDurations;
  readonly attempts: MutableDurations;
  readonly waits: MutableDurations;
}

/** Returns counts of zero. */
export function noCounts(): MutableCounts {
  return {
    starts: 0,
    ends: {},
    instances: noDurations(),
    attempts: noDurations(),
    waits: noDurations(),
  };
}

function noDurations(): MutableDurations {
  const buckets = Array.from({ length: seriesBoundsMs.length + 1 }, () => 0);
  return { count: 0, sumMs: 0, maxMs: 0, buckets };
}

/** Adds one duration, rounded to whole milliseconds. */
export function addDuration(to: MutableDurations, durationMs: number): void {
  const ms = Math.max(0, Math.round(durationMs));
  to.count += 1;
  to.sumMs += ms;
  if (ms > to.maxMs) to.maxMs = ms;
  let bucket = 0;
  while (bucket < seriesBoundsMs.length && ms > (seriesBoundsMs[bucket] ?? 0)) bucket += 1;
  to.buckets[bucket] = (to.buckets[bucket] ?? 0) + 1;
}

/** Adds counts to others. */
export function addCounts(to: MutableCounts, counts: SeriesCounts): void {
  to.starts += counts.starts;
  for (const [status, count] of Object.entries(counts.ends) as [TerminalStatus, number][]) {
    to.ends[status] = (to.ends[status] ?? 0) + count;
  }
  addDurations(to.instances, counts.instances);
  addDurations(to.attempts, counts.attempts);
  addDurations(to.waits, counts.waits);
}

function addDurations(to: MutableDurations, durations: SeriesDurations): void {
  to.count += durations.count;
  to.sumMs += durations.sumMs;
  to.maxMs = Math.max(to.maxMs, durations.maxMs);
  for (const [bucket, count] of durations.buckets.entries()) {
    to.buckets[bucket] = (to.buckets[bucket] ?? 0) + count;
  }
}

/**
 * Returns the rows to store after a batch. `stored` are all rows of its minutes. A name that would exceed the limit of
 * its minute is counted as `other`. Counts are added; of stops, the larger number stays.
 */
export function mergeSeries(
  stored: readonly SeriesRow[],
  added: readonly SeriesRow[],
): readonly SeriesRow[] {
  const minutes = new Map<number, Map<string, SeriesRow>>();
  for (const row of stored) minuteOf(minutes, row.minute).set(row.name, row);
  const storedStops = new Map(stored.map((row) => [keyOf(row), row.stops]));
  // Several names of the batch may be counted as `other`.
  const addedStops = new Map<string, SeriesStops>();
  const changed = new Set<SeriesRow>();
  for (const row of added) {
    const rows = minuteOf(minutes, row.minute);
    const name = rows.has(row.name) || hasRoom(rows, row.name) ? row.name : otherName;
    const before = rows.get(name);
    const counts = noCounts();
    if (before !== undefined) {
      changed.delete(before);
      addCounts(counts, before.counts);
    }
    addCounts(counts, row.counts);
    const depths = row.depths ?? before?.depths;
    const key = keyOf({ minute: row.minute, name });
    const inBatch = combineStops(addedStops.get(key), row.stops, (a, b) => a + b);
    if (inBatch !== undefined) addedStops.set(key, inBatch);
    const stops = combineStops(storedStops.get(key), inBatch, Math.max);
    const after = {
      minute: row.minute,
      name,
      counts,
      ...(depths !== undefined && { depths }),
      ...(stops !== undefined && { stops }),
    };
    rows.set(name, after);
    changed.add(after);
  }
  return [...changed];
}

function keyOf({ minute, name }: Pick<SeriesRow, 'minute' | 'name'>): string {
  return `${minute} ${name}`;
}

function combineStops(
  a: SeriesStops | undefined,
  b: SeriesStops | undefined,
  combine: (a: number, b: number) => number,
): SeriesStops | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const stops: Partial<Record<StopStatus, number>> = {};
  for (const status of stopStatuses) {
    const count = combine(a[status] ?? 0, b[status] ?? 0);
    if (count > 0) stops[status] = count;
  }
  return stops;
}

/** Adds up the counts with the same minute, name and status. */
export function sumStops(counts: readonly StopCount[]): readonly StopCount[] {
  const sums = new Map<string, StopCount>();
  for (const one of counts) {
    const key = `${one.status} ${keyOf(one)}`;
    sums.set(key, { ...one, count: one.count + (sums.get(key)?.count ?? 0) });
  }
  return [...sums.values()];
}

/** Returns the rows of counted stops, with a total per minute, oldest first. */
export function toStopRows(counts: readonly StopCount[]): readonly SeriesRow[] {
  const rows = new Map<
    string,
    { minute: number; name: string; stops: Partial<Record<StopStatus, number>> }
  >();
  for (const { minute, status, count, name: own } of counts) {
    for (const name of [own, totalName]) {
      const key = keyOf({ minute, name });
      const row = rows.get(key) ?? { minute, name, stops: {} };
      row.stops[status] = (row.stops[status] ?? 0) + count;
      rows.set(key, row);
    }
  }
  return [...rows.values()]
    .toSorted((a, b) => a.minute - b.minute)
    .map((row) => ({ ...row, counts: noCounts() }));
}

function minuteOf(
  minutes: Map<number, Map<string, SeriesRow>>,
  minute: number,
): Map<string, SeriesRow> {
  let rows = minutes.get(minute);
  if (rows === undefined) minutes.set(minute, (rows = new Map<string, SeriesRow>()));
  return rows;
}

/** Whether a new name gets a row of its own. The rows of the total and of `other` do not count. */
function hasRoom(rows: ReadonlyMap<string, SeriesRow>, name: string): boolean {
  if (name === totalName || name === otherName) return true;
  const unnamed = (rows.has(totalName) ? 1 : 0) + (rows.has(otherName) ? 1 : 0);
  return rows.size - unnamed < maxSeriesNames;
}

/** Encodes the numbers of a row for the column `data`. */
export function encodeSeries({ counts, depths, stops }: SeriesRow): string {
  return JSON.stringify({ counts, depths, stops });
}

/** Decodes a stored row. */
export function decodeSeries(row: {
  readonly minute: number;
  readonly name: string;
  readonly data: string;
}): SeriesRow {
  const data = JSON.parse(row.data) as {
    readonly counts: SeriesCounts;
    readonly depths?: SeriesDepths;
    readonly stops?: SeriesStops;
  };
  const { minute, name } = row;
  return { minute, name, ...data };
}

/**
 * Returns an upper bound of a percentile: the bound of its bucket, at most the maximum. `undefined` without durations.
 * `share` is 0.5 for the median.
 */
export function percentileMs(durations: SeriesDurations, share: number): number | undefined {
  const { count, maxMs, buckets } = durations;
  if (count === 0) return undefined;
  let left = Math.ceil(count * share);
  for (const [bucket, inBucket] of buckets.entries()) {
    left -= inBucket;
    if (left <= 0) return Math.min(seriesBoundsMs[bucket] ?? maxMs, maxMs);
  }
  return maxMs;
}
