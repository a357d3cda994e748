import type { TerminalStatus } from '../../model/status.ts';
import type { QueueDepths } from './management.ts';

/** Durations of a minute. */
export interface SeriesDurations {
  readonly count: number;
  readonly sumMs: number;
  readonly maxMs: number;
  /** Counts by duration. `seriesBoundsMs` in `providers/rules/series.ts` has the upper bounds; the last has none. */
  readonly buckets: readonly number[];
}

/** The counts of a minute. Counts of several processes are summed. */
export interface SeriesCounts {
  /** Instances whose first turn was committed, and task runs whose first attempt started. */
  readonly starts: number;
  /** Ends that a worker committed, by status, without those in `SeriesRow.stops`. Absent: none. */
  readonly ends: Readonly<Partial<Record<TerminalStatus, number>>>;
  /** Durations of orchestration executions that ended. */
  readonly instances: SeriesDurations;
  /** Durations of the attempts of activities and tasks. */
  readonly attempts: SeriesDurations;
  /** How long activities and tasks waited for a worker: from the time when they could be claimed until their claim. */
  readonly waits: SeriesDurations;
}

/** The depth of a queue when it was sampled. */
export interface SeriesDepth {
  readonly ready: number;
  readonly delayed: number;
  readonly claimed: number;
  /** Age of the longest-waiting claimable entry, in milliseconds. `null`: there was none. */
  readonly oldestMs: number | null;
}

/** The depths of the queues, sampled once in a minute. */
export type SeriesDepths = Readonly<Record<Exclude<keyof QueueDepths, 'messages'>, SeriesDepth>>;

/** A terminal status that can be reached without a worker. */
export type StopStatus = Extract<TerminalStatus, 'canceled' | 'terminated' | 'expired'>;

/** Ends without a completed turn or attempt, by status. Absent: none. */
export type SeriesStops = Readonly<Partial<Record<StopStatus, number>>>;

/** The numbers of one minute and one name. */
export interface SeriesRow {
  /** The start of the minute, in milliseconds since the epoch. */
  readonly minute: number;
  /** The name of a definition. `''`: all definitions. `'other'`: those beyond the first 200 of the minute. */
  readonly name: string;
  readonly counts: SeriesCounts;
  /** Only for the name `''`. Absent: not sampled in this minute. */
  readonly depths?: SeriesDepths;
  /** Counted from the instances, by any process. Absent: not counted, or none. */
  readonly stops?: SeriesStops;
}

/** Instances of a definition that were canceled, terminated or expired in a minute. */
export interface StopCount {
  readonly minute: number;
  readonly name: string;
  readonly status: StopStatus;
  readonly count: number;
}

/** The rows that a process adds. */
export interface SeriesBatch {
  /** A random id of the writing process. */
  readonly writerId: string;
  /** Grows with every batch of the writer. A repeated batch has the same number. */
  readonly number: number;
  readonly rows: readonly SeriesRow[];
}

/** The series of counts by minute. */
export interface SeriesStore {
  /**
   * Adds the rows of a batch to the stored ones, in one transaction. Resolves with whether they were added.
   *
   * A provider must:
   * - add counts, sums and buckets to those of other batches, and keep the larger maximum (series/batches-add-up)
   * - add up concurrent batches of several processes exactly (shared/series-batches-add-up)
   * - ignore a batch unless its number exceeds the last one of its writer, and return `false`
   *   (series/a-repeated-batch-counts-once)
   * - keep at most 200 names per minute, and add the counts of further names to `'other'` (series/names-are-bounded)
   * - replace the depths only if the row has some (series/depths-are-the-last-ones)
   * - keep the larger of two counts of stops, because several processes count the same instances
   *   (series/the-larger-count-of-stops-stays)
   * - return names with any characters unchanged (series/names-are-only-text)
   */
  writeSeries(batch: SeriesBatch): Promise<boolean>;

  /**
   * Reads the rows of one name, oldest first.
   *
   * A provider must:
   * - return only rows of this name with `from` <= minute < `before` (series/reads-one-name-in-a-time)
   * - return at most `limit` rows (series/reads-one-name-in-a-time)
   */
  readSeries(params: {
    readonly name: string;
    readonly from: number;
    readonly before: number;
    readonly limit: number;
  }): Promise<readonly SeriesRow[]>;

  /**
   * Counts the instances that were canceled, terminated or expired in a time, by minute, name and status.
   *
   * A provider must:
   * - count instances with `from` <= time of their end < `before`, however they ended (series/counts-stops)
   * - count all versions of a definition together (series/counts-stops)
   */
  countStops(params: {
    readonly from: number;
    readonly before: number;
  }): Promise<readonly StopCount[]>;

  /**
   * Deletes old rows, and writers whose last batch is as old. Resolves with the number of deleted rows.
   *
   * A provider must:
   * - delete only rows with minute < `before` (series/a-sweep-deletes-old-rows)
   * - delete at most `limit` rows, the oldest first (series/a-sweep-is-bounded)
   */
  sweepSeries(params: { readonly before: number; readonly limit: number }): Promise<number>;
}
