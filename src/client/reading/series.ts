import { invalid, readFields } from '../../model/option-fields.ts';
import type { TerminalStatus } from '../../model/status.ts';
import type {
  SeriesDepths,
  SeriesDurations,
  SeriesStore,
} from '../../providers/contract/series.ts';
import { minuteMs, percentileMs, seriesBoundsMs, totalName } from '../../providers/rules/series.ts';
import { maxNameBytes } from '../../model/values/names.ts';
import { byteLength } from '../../model/values/payload.ts';
import { ago, type ListTime } from './instance-list.ts';
import { readTime } from '../../model/start-settings.ts';

/** Selects minutes of the series. */
export interface SeriesQuery {
  /** From the minute of this time. Default: an hour before `to`. */
  readonly from?: ListTime | undefined;
  /** Before this time, at most 1,440 minutes after `from`. Default: the end of the current minute. */
  readonly to?: ListTime | undefined;
  /**
   * Only this orchestration, activity or task. `'other'`: the definitions beyond the first 200 of a minute. Default: all
   * definitions.
   */
  readonly name?: string | undefined;
}

/** Durations of a minute, in milliseconds. */
export interface SeriesDurationInfo {
  readonly count: number;
  readonly sumMs: number;
  readonly maxMs: number;
  /** An upper bound of the median: the bound of its bucket, at most `maxMs`. Absent without durations. */
  readonly p50Ms?: number;
  /** An upper bound of the 95th percentile. Absent without durations. */
  readonly p95Ms?: number;
  /** Counts by duration, without empty buckets. `upToMs` is inclusive; the longest durations have none. */
  readonly buckets: readonly { readonly upToMs?: number; readonly count: number }[];
}

/** The counts of one minute. */
export interface SeriesMinute {
  /** The start of the minute by the store's clock, in milliseconds since the epoch. */
  readonly at: number;
  /** Instances whose first turn was committed, and task runs whose first attempt started. */
  readonly starts: number;
  /**
   * Ends by status. Absent: none. A worker adds cancels, terminations and expiries up to two minutes later, unless the
   * instance was deleted or retried meanwhile.
   */
  readonly ends: Readonly<Partial<Record<TerminalStatus, number>>>;
  /** Durations of orchestration executions that ended, from their first turn to their last. */
  readonly instances: SeriesDurationInfo;
  /** Durations of the attempts of activities and tasks. */
  readonly attempts: SeriesDurationInfo;
  /**
   * Schedule-to-start latency of activities and tasks: from the time when a worker could claim them until the claim. The
   * delay of a retry is not included.
   */
  readonly waits: SeriesDurationInfo;
  /** The queues, sampled once in this minute. Absent: not sampled, or with a `name`. */
  readonly depths?: SeriesDepths;
}

/** The arguments of `series`, checked. */
export interface SeriesCall {
  readonly from: number;
  readonly to: number;
  readonly name?: string;
}

const maxMinutes = 1_440;
const defaultMs = 3_600_000;

/** Checks the arguments of `series`. `nowMs` is the time from which durations count back. */
export function readSeriesQuery(query: unknown, nowMs: number): SeriesCall {
  const { from, to, name } = readFields(query, 'series()', ['from', 'to', 'name'] as const);
  // Without `to`, the current minute is included, also at its first millisecond.
  const before =
    to === undefined
      ? Math.floor(nowMs / minuteMs) * minuteMs + minuteMs
      : Math.ceil(timeOf('to', to, nowMs) / minuteMs) * minuteMs;
  const start = Math.floor(timeOf('from', from ?? before - defaultMs, nowMs) / minuteMs) * minuteMs;
  if (start > before) throw invalid('from', from, 'a time before `to`');
  if (before - start > maxMinutes * minuteMs) {
    throw invalid('from', from, `at most ${maxMinutes} minutes before \`to\``);
  }
  return { from: start, to: before, ...(name !== undefined && { name: nameOf(name) }) };
}

function timeOf(key: string, value: unknown, nowMs: number): number {
  return typeof value === 'string' ? ago(key, value, nowMs) : (readTime(key, value) ?? nowMs);
}

function nameOf(name: unknown): string {
  if (typeof name === 'string' && name !== '' && byteLength(name) <= maxNameBytes) return name;
  throw invalid('name', name, `text of 1 to ${maxNameBytes} bytes`);
}

/** Reads the minutes that have counts, oldest first. */
export async function readSeries(
  store: Pick<SeriesStore, 'readSeries'>,
  { from, to, name = totalName }: SeriesCall,
): Promise<readonly SeriesMinute[]> {
  const rows = await store.readSeries({ name, from, before: to, limit: maxMinutes });
  return rows.map(({ minute, counts, depths, stops }) => ({
    at: minute,
    starts: counts.starts,
    ends: { ...counts.ends, ...stops },
    instances: toInfo(counts.instances),
    attempts: toInfo(counts.attempts),
    waits: toInfo(counts.waits),
    ...(depths !== undefined && { depths }),
  }));
}

function toInfo(durations: SeriesDurations): SeriesDurationInfo {
  const { count, sumMs, maxMs, buckets } = durations;
  const p50Ms = percentileMs(durations, 0.5);
  const p95Ms = percentileMs(durations, 0.95);
  return {
    count,
    sumMs,
    maxMs,
    ...(p50Ms !== undefined && { p50Ms }),
    ...(p95Ms !== undefined && { p95Ms }),
    buckets: buckets.flatMap((inBucket, bucket) => {
      const upToMs = seriesBoundsMs[bucket];
      if (inBucket === 0) return [];
      return [{ ...(upToMs !== undefined && { upToMs }), count: inBucket }];
    }),
  };
}
