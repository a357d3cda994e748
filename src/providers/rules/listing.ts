import { decodeFailure } from '../../model/failures/failure.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type {
  InstanceConditions,
  InstanceRecord,
  ListInstancesResult,
} from '../contract/instances.ts';

/** Maximum rows that one page of a listing examines, matching or not. */
export const maxExamined = 10_000;

/** Maximum definitions that a listing reads one by one. With more, it reads all instances in order. */
const maxDefinitions = 20;

/** How a listing finds its rows. All ways return them in descending order of their keys. */
export type Walk =
  | { readonly by: 'parent' | 'blocked' | 'leaked' | 'paused' | 'all' }
  /** The first tag. The other ones are conditions. */
  | { readonly by: 'tag'; readonly name: string; readonly value: string }
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
 * Chooses the index that a listing reads. All other conditions are tested row by row, for at most `maxExamined` rows.
 * Completed instances have no index by status. `definitionKeys` are those of the filter; absent: any.
 */
export function chooseWalk(
  filter: InstanceConditions,
  definitionKeys: readonly number[] | undefined,
): Walk {
  if (filter.parentInstanceId !== undefined) return { by: 'parent' };
  const [tag] = Object.entries(filter.tags ?? {});
  if (tag !== undefined) return { by: 'tag', name: tag[0], value: tag[1] };
  if (filter.blocked === true) return { by: 'blocked' };
  if (filter.leaked === true) return { by: 'leaked' };
  if (filter.paused === true) return { by: 'paused' };
  const statuses = statusesOf(filter);
  const isIndexed = statuses !== undefined && !statuses.includes('completed');
  const few = definitionKeys !== undefined && definitionKeys.length <= maxDefinitions;
  if (isIndexed) {
    const haveEnded = statuses.every((status) => !live.includes(status));
    return few && haveEnded
      ? { by: 'endAndDefinition', statuses, definitionKeys }
      : { by: 'status', statuses };
  }
  return few ? { by: 'definition', definitionKeys } : { by: 'all' };
}

/** The statuses that can match: a failure implies `failed`. `undefined`: any. */
export function statusesOf({
  status,
  failureCode,
  failureText,
}: InstanceConditions): readonly InstanceStatus[] | undefined {
  const statuses = status === undefined ? undefined : [...new Set(status)];
  if (failureCode === undefined && failureText === undefined) return statuses;
  return statuses === undefined || statuses.includes('failed') ? ['failed'] : [];
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
}

/** The keys of a page, and where the next one starts. */
export interface KeyPage {
  readonly keys: readonly number[];
  readonly nextKey: number | null;
}

/**
 * Cuts candidates to a page. The store reads one more than `limit`. `stoppedAt` is the last key that it examined, if it
 * stopped before the end.
 */
export function toKeyPage(
  candidates: readonly Candidate[],
  filter: InstanceConditions,
  { limit, stoppedAt }: { readonly limit: number; readonly stoppedAt: number | null },
): KeyPage {
  const shown = candidates.slice(0, limit);
  const keys = shown
    .filter(({ failure }) => matchesFailure(failure, filter))
    .map(({ instanceKey }) => instanceKey);
  const nextKey = candidates.length > limit ? (shown.at(-1)?.instanceKey ?? null) : stoppedAt;
  return { keys, nextKey };
}

/** Ends a page before an entry that does not fit into its bytes. */
export function toListResult(
  records: readonly InstanceRecord[],
  nextKey: number | null,
): ListInstancesResult {
  const instances = records.filter(({ withheld }) => withheld !== true);
  const last = instances.at(-1);
  const isCut = instances.length < records.length && last !== undefined;
  return { instances, nextKey: isCut ? last.instanceKey : nextKey };
}
