import { creationSkewMs } from '../rules/listing.ts';

/** The result of `creationKeySql`. */
export interface CreationKeyRow {
  /** The first key from which on the instance at or below it was created at the time or later. */
  readonly key: number;
  /** The earliest creation among samples from that key on. `null`: no sample. */
  readonly earliestAfter: number | null;
  /** The latest creation among samples before that key. `null`: no sample. */
  readonly latestBefore: number | null;
}

const samples = 32;

/**
 * A query that finds where a time of creation is in the order of keys, by a binary search of the primary key. It reads
 * about 110 rows. `time` and `top` are placeholders: the time, and the key below which to search.
 */
export function creationKeySql(
  table: string,
  { time, top }: { time: string; top: string },
): string {
  const createdAt = (key: string) =>
    `(SELECT created_at FROM ${table} AS one WHERE one.instance_key <= ${key} ORDER BY one.instance_key DESC LIMIT 1)`;
  const isLater = `${createdAt('(low + high) / 2')} >= ${time}`;
  const newest = `coalesce((SELECT max(instance_key) FROM ${table}), 0) + 1`;
  return `WITH RECURSIVE search (low, high, top) AS (
      SELECT CAST(0 AS bigint), top, top FROM (
        SELECT CASE WHEN ${newest} < ${top} THEN ${newest} ELSE ${top} END AS top) AS limits
      UNION ALL
      SELECT CASE WHEN ${isLater} THEN low ELSE (low + high) / 2 END,
        CASE WHEN ${isLater} THEN (low + high) / 2 ELSE high END, top
      FROM search WHERE high - low > 1),
    found AS (SELECT max(low) AS low, min(high) AS high, max(top) AS top FROM search),
    steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps WHERE n < ${samples})
    SELECT max(high) AS "key", min(later) AS "earliestAfter", max(earlier) AS "latestBefore"
    FROM (SELECT high, ${createdAt(`high + (top - high) * n / ${samples}`)} AS later,
            ${createdAt(`low * n / ${samples}`)} AS earlier
          FROM found CROSS JOIN steps) AS sampled`;
}

/** The time to search for the end of a window. */
export function endSearchTime(before: number): number {
  return before + creationSkewMs;
}

/** The time to search for the start of a window. */
export function startSearchTime(from: number): number {
  return from - creationSkewMs;
}

/** The key before which all instances of a window are. `undefined`: after a step of the clock, keys are not in order. */
export function endKeyOf(
  { key, earliestAfter }: CreationKeyRow,
  before: number,
): number | undefined {
  return earliestAfter === null || earliestAfter >= before ? key : undefined;
}

/** The key after which all instances of a window are. `undefined`: after a step of the clock, keys are not in order. */
export function startKeyOf(
  { key, latestBefore }: CreationKeyRow,
  from: number,
): number | undefined {
  return latestBefore === null || latestBefore < from ? key - 1 : undefined;
}
