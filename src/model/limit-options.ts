/** The limits of a definition, and the lane that a run names: their options, checked. */
import { invalidOption, readFields, showValue } from './option-fields.ts';
import { PerdureError } from './failures/errors.ts';
import { toMs, type Duration } from './values/duration.ts';
import { findTextProblem } from './values/names.ts';

/**
 * Concurrency limits of a task or an activity. An absent limit does not apply. `{}` removes the limits over all workers that
 * a former build declared.
 */
export interface ConcurrencyOptions {
  /** Maximum concurrent runs over all workers. */
  readonly global?: number | undefined;
  /** Maximum concurrent runs in one worker, within its `activityConcurrency`. */
  readonly perWorker?: number | undefined;
  /** Maximum concurrent runs of one `key`, over all workers. Runs without a key count as one key. */
  readonly perKey?: number | undefined;
}

/** Concurrency limits of an orchestration or a flow: of the instances that have begun and not ended. */
export type InstanceConcurrencyOptions = Omit<ConcurrencyOptions, 'perWorker'>;

/** A rate limit. In any window of `per`, at most `limit + burst` runs start, over all workers. */
export interface RateOptions {
  /** Starts per `per`, spread evenly. Retries count. */
  readonly limit: number;
  /** The period, from 1 ms to 31 days. */
  readonly per: Duration;
  /** Starts that may come immediately after an idle time, in addition to one. Default: the starts of 100 ms. */
  readonly burst?: number | undefined;
  /** Whether each `key` has its own rate. Default: false, all keys share it. */
  readonly perKey?: boolean | undefined;
}

/** The limits in the options of a task or an activity. */
export interface LimitOptions {
  /** Maximum concurrent runs. A number is `perWorker`. */
  readonly concurrency?: number | ConcurrencyOptions | undefined;
  /** Maximum starts in a period of time. */
  readonly rate?: RateOptions | undefined;
}

/** The key and the weight of a run among the runs of its definition. */
export interface LaneOptions {
  /**
   * The key that `perKey` limits count, such as a tenant. Keys are served in turn, whatever their backlog. 1 to 255
   * characters.
   */
  readonly key?: string | undefined;
  /** Share of the key among the keys that wait, 1 (default) to 100. The weight of its newest run counts. */
  readonly weight?: number | undefined;
}

/** The lane of a run: its key and weight, checked. */
export interface Lane {
  readonly key: string;
  readonly weight: number;
}

/** A rate limit, checked. */
export interface ResolvedRate {
  readonly limit: number;
  readonly perMs: number;
  readonly burst: number;
  readonly perKey: boolean;
}

/** The limits of a definition, checked. */
export interface ResolvedLimits {
  readonly concurrency?: ConcurrencyOptions | undefined;
  readonly rate?: ResolvedRate | undefined;
}

/** The limits of a definition that hold over all workers. */
export interface SharedLimits {
  readonly global?: number;
  readonly perKey?: number;
  readonly rate?: ResolvedRate;
}

export const laneOptionNames = ['key', 'weight'] as const;

const maxConcurrency = 1_000_000;
const maxRate = 1_000_000;
const maxPeriodMs = 31 * 86_400_000;
/** The clock of a rate counts microseconds: one start per microsecond at most. */
const maxPerMs = 1_000;
const maxKeyLength = 255;
const maxWeight = 100;
const defaultBurstMs = 100;

/** Checks the limits of a task or an activity. Throws `INVALID_OPTION` for an invalid one. */
export function readLimits(what: string, { concurrency, rate }: LimitOptions): ResolvedLimits {
  return {
    ...(concurrency !== undefined && {
      concurrency:
        typeof concurrency === 'number'
          ? { perWorker: checkCount(`concurrency of ${what}`, concurrency) }
          : readConcurrency(what, concurrency, ['global', 'perWorker', 'perKey']),
    }),
    ...(rate !== undefined && { rate: readRate(what, rate) }),
  };
}

/** Checks the concurrency of an orchestration or a flow. Throws `INVALID_OPTION` if it is invalid. */
export function readInstanceConcurrency(
  what: string,
  concurrency: InstanceConcurrencyOptions | undefined,
): Pick<ResolvedLimits, 'concurrency'> {
  if (concurrency === undefined) return {};
  if (typeof concurrency === 'number') {
    throw invalidOption(
      `concurrency of ${what}`,
      concurrency,
      '{ global, perKey }: the limit of one worker is `orchestrationBatch`',
    );
  }
  return { concurrency: readConcurrency(what, concurrency, ['global', 'perKey']) };
}

function readConcurrency(
  what: string,
  concurrency: ConcurrencyOptions,
  names: readonly (keyof ConcurrencyOptions)[],
): ConcurrencyOptions {
  const given = readFields(concurrency, `concurrency of ${what}`, names);
  const limits = names.flatMap((name) =>
    given[name] === undefined
      ? []
      : [[name, checkCount(`concurrency.${name} of ${what}`, given[name])] as const],
  );
  return Object.freeze(Object.fromEntries(limits));
}

/** Returns a valid number of places. Throws `INVALID_OPTION` otherwise. `or` names the way to have no limit. */
export function checkCount(what: string, value: unknown, or = 'or omit it'): number {
  if (isInteger(value, 1, maxConcurrency)) return value;
  throw invalidOption(what, value, `an integer from 1 to ${maxConcurrency}, ${or}`);
}

/** Checks a rate. Throws `INVALID_OPTION` for an invalid one. */
export function readRate(what: string, rate: unknown): ResolvedRate {
  const where = `rate of ${what}`;
  if (rate === null || typeof rate !== 'object') {
    throw invalidOption(where, rate, "an object such as { limit: 100, per: '1m' }");
  }
  const given = readFields(rate, where, ['limit', 'per', 'burst', 'perKey'] as const);
  const { limit, per, burst, perKey = false } = given;
  if (!isInteger(limit, 1, maxRate)) {
    throw invalidOption(`rate.limit of ${what}`, limit, `an integer from 1 to ${maxRate}`);
  }
  if (per === undefined) {
    throw invalidOption(`rate.per of ${what}`, per, "a duration such as '1m'");
  }
  const perMs = toMs(per as Duration, `rate.per of ${what}`);
  if (perMs < 1 || perMs > maxPeriodMs) {
    throw invalidOption(`rate.per of ${what}`, per, 'a duration from 1 ms to 31 days');
  }
  if (limit > perMs * maxPerMs) {
    throw invalidOption(
      `rate.limit of ${what}`,
      limit,
      `at most ${perMs * maxPerMs} per ${perMs} ms, or a longer period`,
    );
  }
  if (burst !== undefined && !isInteger(burst, 0, maxRate)) {
    throw invalidOption(`rate.burst of ${what}`, burst, `an integer from 0 to ${maxRate}`);
  }
  if (typeof perKey !== 'boolean') {
    throw invalidOption(`rate.perKey of ${what}`, perKey, 'true or false');
  }
  const resolved = { limit, perMs, burst: burst ?? defaultBurst(limit, perMs), perKey };
  return Object.freeze(resolved);
}

function defaultBurst(limit: number, perMs: number): number {
  return Math.floor((limit * defaultBurstMs) / perMs);
}

/** Picks the limits that hold over all workers; `undefined` if the definition has none. */
export function toSharedLimits({ concurrency, rate }: ResolvedLimits): SharedLimits | undefined {
  const { global, perKey } = concurrency ?? {};
  if (global === undefined && perKey === undefined && rate === undefined) return undefined;
  return {
    ...(global !== undefined && { global }),
    ...(perKey !== undefined && { perKey }),
    ...(rate !== undefined && { rate }),
  };
}

/** Checks the key and weight of a run; `undefined` if it has no key. */
export function readLane({
  key,
  weight,
}: Readonly<Partial<Record<keyof LaneOptions, unknown>>>): Lane | undefined {
  if (weight !== undefined && !isInteger(weight, 1, maxWeight)) {
    throw invalidOption('weight', weight, `an integer from 1 to ${maxWeight}`);
  }
  if (key !== undefined) return { key: checkLaneKey(key), weight: weight ?? 1 };
  if (weight === undefined) return undefined;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`weight\` ${showValue(weight)} without \`key\`: it is the share of a key. Pass a \`key\`, or omit \`weight\`.`,
  );
}

/** Whether a stored value is a lane. */
export function isLane(value: unknown): value is Lane {
  const { key, weight } = (value ?? {}) as Partial<Lane>;
  return typeof key === 'string' && typeof weight === 'number';
}

/** Returns a valid key of a lane. Throws `INVALID_OPTION` otherwise. */
export function checkLaneKey(key: unknown): string {
  const problem =
    typeof key === 'string' && key.length > maxKeyLength
      ? `is longer than ${maxKeyLength} characters`
      : findTextProblem(key);
  if (problem === undefined) return key as string;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid \`key\`: it ${problem}. Use 1 to ${maxKeyLength} characters of text without control characters or quotes.`,
  );
}

function isInteger(value: unknown, min: number, max: number): value is number {
  return Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max;
}
