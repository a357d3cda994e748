import { checkInstanceId } from '../model/names.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { TerminalStatus } from '../model/status.ts';
import { readNamePatterns } from './name-pattern.ts';
import { readCount, readMoment, readTerminalStatuses } from './option-values.ts';

/** Which instances a bulk operation concerns: all conditions must hold, and an absent one always does. */
export interface InstanceFilter {
  /** Only these; repeats count once, unknown ones as nothing. */
  readonly instanceIds?: readonly string[] | undefined;
  /** Only those that ended before this moment, however they ended. */
  readonly completedBefore?: Date | number | undefined;
  /** Only those that ended so. */
  readonly status?: TerminalStatus | readonly TerminalStatus[] | undefined;
  /** Only those of orchestrations with these names; `*` stands for any text. */
  readonly name?: string | readonly string[] | undefined;
  /** At most so many, applied last. Default 1,000. */
  readonly limit?: number | undefined;
}

/** A filter that was checked. */
export interface CheckedFilter {
  readonly instanceIds?: readonly string[];
  readonly endedBefore?: number;
  readonly statuses: readonly TerminalStatus[];
  readonly names?: readonly string[];
  readonly limit: number;
  /** What is recorded of it: the conditions, and never which ids. */
  readonly shape: object;
}

const defaultLimit = 1_000;

/** Checks a filter; bad values are `INVALID_OPTION`, bad ids `INVALID_ID`. */
export function readInstanceFilter(filter: unknown): CheckedFilter {
  const given = readFields(
    filter,
    'filter',
    ['instanceIds', 'completedBefore', 'status', 'name', 'limit'] as const,
    'INVALID_OPTION',
  );
  const { completedBefore, status, name } = given;
  const instanceIds = given.instanceIds === undefined ? undefined : readIds(given.instanceIds);
  const endedBefore =
    completedBefore === undefined ? undefined : readMoment('completedBefore', completedBefore);
  const statuses = readTerminalStatuses('status', status);
  const names = readNamePatterns('name', name);
  const limit = given.limit === undefined ? defaultLimit : readCount('limit', given.limit);
  return {
    ...(instanceIds !== undefined && { instanceIds }),
    ...(endedBefore !== undefined && { endedBefore }),
    statuses,
    ...(names !== undefined && { names }),
    limit,
    shape: {
      ...(instanceIds !== undefined && { instanceIds: instanceIds.length }),
      ...(endedBefore !== undefined && { completedBefore: endedBefore }),
      ...(status !== undefined && { status: statuses }),
      ...(names !== undefined && { name: names }),
      limit,
    },
  };
}

function readIds(ids: unknown): readonly string[] {
  if (!Array.isArray(ids)) throw invalidOption('instanceIds', ids, 'an array of instance ids');
  return [...new Set(ids.map(checkInstanceId))];
}
