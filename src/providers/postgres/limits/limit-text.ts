/**
 * SQL texts that the statements of limits share. A row of `limits` has the alias `lim`, with the columns `now`, `now_us`,
 * `key_rate_us` and `key_tau` of `limitColumns`.
 */
import { countedKeys } from '../tables/definitions.ts';
import { nowSql } from '../driver/scope.ts';

/** The columns that `laneState` and `startsLeft` need, for a SELECT from `limits AS one`. Needs the clock as first parameter. */
export const limitColumns = `one.*, ${nowSql} AS now, ${nowSql} * 1000 AS now_us,
  CASE WHEN rate_per_key THEN rate_us END AS key_rate_us, CASE WHEN rate_per_key THEN rate_tau END AS key_tau`;

/** A theoretical arrival time as `boundedTat` of the rules bounds it: not before now, and not after that of a rate without tokens. */
export function arrival(tat: string): string {
  return `greatest(now_us, least(${tat}, now_us + rate_tau + rate_us))`;
}

/** How many starts a rate allows now. `tat` is bounded by `arrival`. */
export function startsLeft(tat: string, rateUs: string, tau: string): string {
  return `CASE WHEN ${tat} > now_us + ${tau} THEN 0 ELSE (now_us + ${tau} - ${tat}) / ${rateUs} + 1 END`;
}

/** The columns of a lane that follow from its accounts: `ready` and `wake_at`. */
export function laneState(lane: {
  readonly more: string;
  readonly running: string;
  /** By `arrival`. */
  readonly tat: string;
}): { readonly ready: string; readonly wakeAt: string; readonly isIdle: string } {
  const { more, running, tat } = lane;
  const hasPlace = `(key_limit IS NULL OR ${running} < key_limit)`;
  const hasToken = `(key_rate_us IS NULL OR ${tat} <= now_us + key_tau)`;
  return {
    ready: `(${more} AND ${hasPlace} AND ${hasToken})`,
    // An idle lane wakes when its rate is full again, to be deleted.
    wakeAt: `CASE WHEN ${more} AND ${hasPlace} AND NOT ${hasToken} THEN (${tat} - key_tau + 999) / 1000
      WHEN NOT ${more} AND ${running} <= 0 THEN
        CASE WHEN key_rate_us IS NULL THEN now ELSE (${tat} + 999) / 1000 END END`,
    isIdle: `(NOT ${more} AND ${running} <= 0 AND (key_rate_us IS NULL OR ${tat} <= now_us))`,
  };
}

/** Unclaimed items in a lane, in the order of the index that has them. Suspects and delayed items are apart. */
export const inLane =
  'lane IS NOT NULL AND NOT suspect AND NOT delayed AND NOT cancel_requested AND lock_token IS NULL';

/** Suspects that are due. */
export const suspectInLane =
  'lane IS NOT NULL AND suspect AND NOT delayed AND NOT cancel_requested AND lock_token IS NULL';

/** Whether the lane of a suspect has a place and a token. */
export function laneHasRoom(schema: string, lane: string): string {
  return `(SELECT (key_limit IS NULL OR room.running < key_limit)
        AND (key_rate_us IS NULL OR ${arrival('room.tat')} <= now_us + key_tau)
      FROM ${schema}.lanes AS room WHERE room.definition_key = lim.definition_key AND room.lane = ${lane}) IS NOT FALSE`;
}

/**
 * When the next claim of a limited definition can find or change something: 0 if freed places or stragglers wait for it.
 * While no place or token is free, signals of new items wait.
 * Over a row `lim`.
 */
export function nextDueText(schema: string): string {
  const [items, lanes] = [`${schema}.worker_queue`, `${schema}.lanes`];
  const signal = (which: string) =>
    `SELECT 1 FROM ${schema}.lane_signals AS one WHERE one.definition_key = lim.definition_key AND ${which} LIMIT 1`;
  return `CASE
      WHEN (${signal('freed <> 0')}) IS NOT NULL
        OR (SELECT 1 FROM ${items} AS one WHERE one.definition_key = ANY (${countedKeys(schema, 'lim.definition_key')})
            AND lane IS NULL AND NOT cancel_requested LIMIT 1) IS NOT NULL THEN 0
      ELSE least(
        (SELECT until FROM ${schema}.places AS one WHERE one.definition_key = lim.definition_key ORDER BY until LIMIT 1),
        CASE WHEN global_limit IS NULL OR running < global_limit THEN least(
          CASE WHEN (SELECT 1 FROM ${lanes} AS one WHERE one.definition_key = lim.definition_key AND ready LIMIT 1) IS NOT NULL
              OR (${signal('freed = 0')}) IS NOT NULL
              OR (SELECT 1 FROM ${items} AS one WHERE one.limit_key = lim.definition_key AND ${suspectInLane}
                  AND ${laneHasRoom(schema, 'one.lane')} LIMIT 1) IS NOT NULL
            THEN CASE WHEN rate_us IS NULL OR rate_per_key THEN 0
              ELSE (${arrival('lim.tat')} - rate_tau + 999) / 1000 END END,
          (SELECT next_at FROM ${items} AS one WHERE one.limit_key = lim.definition_key AND lane IS NOT NULL
             AND delayed AND NOT cancel_requested ORDER BY next_at LIMIT 1),
          (SELECT wake_at FROM ${lanes} AS one WHERE one.definition_key = lim.definition_key AND wake_at IS NOT NULL
             AND more ORDER BY wake_at LIMIT 1)) END) END`;
}
