/**
 * The options that every start has: of clients, jobs, schedules, children and detached instances. One reader, so that all
 * of them accept and reject the same values.
 */
import { laneOptionNames, readLane, type Lane, type LaneOptions } from './limit-options.ts';
import { checkPriority, invalid, invalidOption } from './option-fields.ts';
import { PerdureError } from './failures/errors.ts';
import { toMs, type Duration } from './values/duration.ts';
import { checkHeaders, type Headers } from './values/headers.ts';
import { checkTags, type Tags } from './values/tags.ts';

/** Options that every start has. */
export interface CommonStartOptions extends LaneOptions {
  /** Time before the run may start. */
  readonly delay?: Duration | undefined;
  /** When the run may start; excludes `delay`. */
  readonly runAt?: Date | number | undefined;
  /**
   * How long the run may take from when it may start, over all executions and attempts. Then it is canceled with the
   * trigger `timeout`, and cleans up as after every cancel. Default: no limit.
   */
  readonly timeout?: Duration | undefined;
  /**
   * Text by name, which every handler and child of the run reads as `ctx.headers`: at most 32, names of 128 bytes, 8 KiB
   * together. Not part of the input: a repeated start keeps the headers of the first.
   */
  readonly headers?: Headers | undefined;
  /** Tags, by which lists and bulk operations filter: at most 16, names of 64 bytes, values of 256 bytes. */
  readonly tags?: Tags | undefined;
  /** 0 to 100, higher first. Of an orchestration or a flow: the priority of the calls that set none. */
  readonly priority?: number | undefined;
}

/** The names of the options that every start has. */
export const startSettingNames = [
  'delay',
  'runAt',
  'timeout',
  'headers',
  'tags',
  'priority',
  ...laneOptionNames,
] as const;

/** Options that every start has, checked. Durations count from the time the store gets the call. */
export interface StartSettings {
  readonly delayMs?: number;
  readonly runAt?: number;
  readonly timeoutMs?: number;
  readonly headers?: Headers;
  readonly tags?: Tags;
  readonly priority?: number;
  readonly lane?: Lane;
}

/** Checks the options that every start has. */
export function readStartSettings(
  given: Readonly<Partial<Record<(typeof startSettingNames)[number], unknown>>>,
): StartSettings {
  const { delay, priority } = given;
  refuseBoth('delay', delay, 'runAt', given.runAt);
  const runAt = readTime('runAt', given.runAt);
  const timeoutMs = readTimeout(given.timeout);
  const headers = checkHeaders(given.headers);
  const tags = checkTags(given.tags);
  const lane = readLane(given);
  return {
    ...(delay !== undefined && { delayMs: toMs(delay as Duration, 'delay') }),
    ...(runAt !== undefined && { runAt: Math.ceil(runAt) }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(headers !== undefined && { headers }),
    ...(tags !== undefined && { tags }),
    ...(priority !== undefined && { priority: checkPriority(priority) }),
    ...(lane !== undefined && { lane }),
  };
}

/** Checks a timeout, if one was given. Throws `INVALID_OPTION` for 0, which leaves no time. */
function readTimeout(timeout: unknown): number | undefined {
  if (timeout === undefined) return undefined;
  const ms = toMs(timeout as Duration, 'timeout');
  if (ms > 0) return ms;
  throw invalidOption('timeout', timeout, 'more than 0');
}

/** Checks a time, if one was given. */
export function readTime(key: string, value: unknown): number | undefined {
  if (value === undefined) return undefined;
  const time = value instanceof Date ? value.getTime() : value;
  if (typeof time === 'number' && Math.abs(time) <= 8.64e15) return time;
  throw invalid(key, value, 'a valid Date, or milliseconds since the epoch');
}

/** Throws `INVALID_INPUT` if two options are given that exclude each other. */
export function refuseBoth(one: string, first: unknown, other: string, second: unknown): void {
  if (first === undefined || second === undefined) return;
  throw new PerdureError('INVALID_INPUT', `Pass either \`${one}\` or \`${other}\`, not both.`);
}

/** The settings that the start message of an instance carries to its code. */
export type CarriedSettings = Pick<StartSettings, 'headers' | 'priority'>;

/** Picks the settings that the start message of an instance carries to its code. */
export function carriedSettings({ headers, priority }: CarriedSettings): CarriedSettings {
  return {
    ...(headers !== undefined && { headers }),
    ...(priority !== undefined && { priority }),
  };
}

/** Picks the times of a start, for the store. */
export function startTimes({
  delayMs,
  runAt,
  timeoutMs,
}: StartSettings): Pick<StartSettings, 'delayMs' | 'runAt' | 'timeoutMs'> {
  return {
    ...(delayMs !== undefined && delayMs > 0 && { delayMs }),
    ...(runAt !== undefined && { runAt }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  };
}
