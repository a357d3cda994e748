import { decodeFailure } from '../../model/failures/failure.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type {
  InstanceConditions,
  InstanceRecord,
  ListInstancesParams,
  ListInstancesResult,
} from '../contract/instances.ts';
import { platform } from '../../model/platform.ts';

/** Maximum rows that one page of a listing examines, matching or not. */
export const maxExamined = 10_000;

/** Time after which a page ends with the rows that it has examined, in milliseconds. */
const maxPageMs = 15;

/** Rows that a page examines regardless of the time. */
const minExamined = 500;

/** Whether a page ends, although it is not full and more rows follow. */
export function isPageOver(
  examined: number,
  bounds: { readonly limit: number; readonly maxRows: number; readonly begun: number },
): boolean {
  const { limit, maxRows, begun } = bounds;
  if (examined >= maxRows) return true;
  return examined >= Math.max(minExamined, 2 * limit) && platform.monotonic() - begun > maxPageMs;
}

// A smaller statement spends most of its time on overhead, not on rows.
const minSlice = 250;

/** Rows of the next slice of a page: twice the last ones, but not more than fit into the time that is left. */
export function nextSlice(
  rows: number,
  slice: {
    readonly begun: number;
    readonly sliceBegun: number;
    /** Default: 250. */
    readonly smallest?: number;
    readonly largest: number;
    readonly nowMs?: number;
  },
): number {
  const { begun, sliceBegun, smallest = minSlice, largest, nowMs = platform.monotonic() } = slice;
  const msPerRow = (nowMs - sliceBegun) / rows;
  const leftMs = maxPageMs - (nowMs - begun);
  const fitting = msPerRow > 0 ? Math.floor(leftMs / msPerRow) : largest;
  return Math.max(smallest, Math.min(rows * 2, largest, fitting));
}

/** Maximum entries of an index that a listing sorts by key because the index has another order. */
export const maxSorted = 20_000;

/** Maximum rows that a listing sorts by their end. */
export const maxSortedByEnd = 1_000;

/** How many entries of an index a listing skips to measure how dense it is. */
export const probedEntries = 500;

/** Maximum definitions that a listing reads one by one. With more, it reads all instances in order. */
const maxDefinitions = 20;

/**
 * How much later an instance can have been created than one with a greater key, in milliseconds. Concurrent
 * transactions take their keys and their times in different orders.
 */
export const creationSkewMs = 5_000;

/** How a listing finds its rows. All ways return them in descending order of their keys. */
export type Walk =
  | { readonly by: 'parent' | 'blocked' | 'leaked' | 'paused' | 'all' }
  /** `index`: its place among the tags of the filter. */
  | { readonly by: 'tag'; readonly index: number; readonly name: string; readonly value: string }
  | { readonly by: 'status'; readonly statuses: readonly InstanceStatus[] }
  /** Ended, but not completed. */
  | {
      readonly by: 'endAndDefinition';
      readonly statuses: readonly InstanceStatus[];
      readonly definitionKeys: readonly number[];
    }
  | { readonly by: 'definition'; readonly definitionKeys: readonly number[] };

const live: readonly InstanceStatus[] = ['pending', 'running', 'canceling'];

/**
 * The indexes that a listing can read in the order of keys, at least one. All other conditions are tested row by row.
 * Completed instances have no index by status. `definitionKeys` are those of the filter; absent: any.
 */
export function walksOf(
  filter: InstanceConditions,
  definitionKeys: readonly number[] | undefined,
): readonly [Walk, ...Walk[]] {
  const walks: Walk[] = [];
  if (filter.parentInstanceId !== undefined) walks.push({ by: 'parent' });
  for (const [index, [name, value]] of Object.entries(filter.tags ?? {}).entries()) {
    walks.push({ by: 'tag', index, name, value });
  }
  for (const by of ['blocked', 'leaked', 'paused'] as const) {
    if (filter[by] === true) walks.push({ by });
  }
  const statuses = statusesOf(filter);
  const isIndexed = statuses !== undefined && !statuses.includes('completed');
  const few = definitionKeys !== undefined && definitionKeys.length <= maxDefinitions;
  const haveEnded = isIndexed && statuses.every((status) => !live.includes(status));
  if (few && haveEnded) walks.push({ by: 'endAndDefinition', statuses, definitionKeys });
  else {
    if (isIndexed) walks.push({ by: 'status', statuses });
    if (few) walks.push({ by: 'definition', definitionKeys });
  }
  const [first = { by: 'all' }, ...others] = walks;
  return [first, ...others];
}

/** The keys between which a listing reads, both exclusive. */
export interface KeyRange {
  readonly aboveKey: number;
  readonly beforeKey: number;
}

/**
 * Estimates the entries of an index in a range of keys. `probedKey` is the key of the entry number `probedEntries`, from
 * the end of the range; `undefined`: the index has fewer.
 */
export function estimateEntries(
  probedKey: number | undefined,
  { aboveKey, beforeKey }: KeyRange,
): number {
  if (probedKey === undefined) return 0;
  return (probedEntries * (beforeKey - aboveKey)) / Math.max(beforeKey - probedKey, 1);
}

/** The times between which the matches were created: the first inclusive, the second exclusive. An end follows its creation. */
export function creationWindow({ createdFrom, createdBefore, endedBefore }: InstanceConditions): {
  readonly from: number | undefined;
  readonly before: number | undefined;
} {
  const before = Math.min(createdBefore ?? Infinity, endedBefore ?? Infinity);
  return { from: createdFrom, before: before === Infinity ? undefined : before };
}

/** The times between which the matches ended, both inclusive. No instance ends before its creation. */
export function endWindow({ createdFrom, endedFrom, endedBefore }: InstanceConditions): {
  readonly from: number;
  readonly last: number;
} {
  const from = Math.max(endedFrom ?? 0, (createdFrom ?? 0) - creationSkewMs);
  return { from: Math.ceil(from), last: Math.ceil(endedBefore ?? Number.MAX_SAFE_INTEGER) - 1 };
}

/** The statuses that can match: a failure implies `failed`, waiting work a live status. `undefined`: any. */
export function statusesOf({
  status,
  failureCode,
  failureText,
  unregistered,
}: InstanceConditions): readonly InstanceStatus[] | undefined {
  const given = status === undefined ? undefined : [...new Set(status)];
  const hasFailure = failureCode !== undefined || failureText !== undefined;
  const implied = [
    ...(hasFailure ? [['failed'] as const] : []),
    ...(unregistered === true ? [live] : []),
  ];
  return implied.reduce<readonly InstanceStatus[] | undefined>(
    (statuses, one: readonly InstanceStatus[]) =>
      statuses === undefined ? one : one.filter((status) => statuses.includes(status)),
    given,
  );
}

/** Text that the stored failure of every match contains, in lower case. `undefined` without such a condition. */
export function failureNeedles({
  failureCode,
  failureText,
}: InstanceConditions): readonly string[] {
  return [failureCode, failureText]
    .filter((text) => text !== undefined)
    .map((text) => toLower(JSON.stringify(text).slice(1, -1)));
}

/** Whether a stored failure matches. The store has only searched its text. */
function matchesFailure(
  failure: string | null,
  { failureCode, failureText }: InstanceConditions,
): boolean {
  if (failureCode === undefined && failureText === undefined) return true;
  if (failure === null) return false;
  const { code, message } = decodeFailure(failure);
  return (
    (failureCode === undefined || code === failureCode) &&
    (failureText === undefined || toLower(message).includes(toLower(failureText)))
  );
}

// Only ASCII letters, as the stores do.
function toLower(text: string): string {
  return text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

/** A candidate of a page. `failure` is read only for conditions on it. */
export interface Candidate {
  readonly instanceKey: number;
  readonly failure: string | null;
  /** Read only for a listing by end. */
  readonly endedAt: number | null;
}

/** A position in a listing: after all instances that precede it in the order. */
export interface ListPosition {
  readonly instanceKey: number;
  /** `null` in a listing by creation. */
  readonly endedAt: number | null;
}

/** The keys of a page, and where the next one starts. */
export interface KeyPage {
  readonly keys: readonly number[];
  readonly next: ListPosition | null;
}

/**
 * Cuts candidates to a page. The store reads one more than `limit`. `stoppedAt` is the last position that it examined, if
 * it stopped before the end.
 */
export function toKeyPage(
  candidates: readonly Candidate[],
  filter: InstanceConditions,
  { limit, stoppedAt }: { readonly limit: number; readonly stoppedAt: ListPosition | null },
): KeyPage {
  const shown = candidates.slice(0, limit);
  const keys = shown
    .filter(({ failure }) => matchesFailure(failure, filter))
    .map(({ instanceKey }) => instanceKey);
  return { keys, next: candidates.length > limit ? (shown.at(-1) ?? null) : stoppedAt };
}

/** Ends a page before an entry that does not fit into its bytes. */
export function toListResult(
  records: readonly InstanceRecord[],
  next: ListPosition | null,
  orderBy: ListInstancesParams['orderBy'],
): ListInstancesResult {
  const instances = records.filter(({ withheld }) => withheld !== true);
  const last = instances.at(-1);
  const isCut = instances.length < records.length && last !== undefined;
  const position = isCut ? last : next;
  return {
    instances,
    nextKey: position?.instanceKey ?? null,
    ...(orderBy === 'ended' && { nextEndedAt: position?.endedAt ?? null }),
  };
}
