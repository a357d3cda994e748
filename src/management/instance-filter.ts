import { PerdureError } from '../model/failures/errors.ts';
import { checkInstanceId } from '../model/values/names.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { TerminalStatus } from '../model/status.ts';
import { readNamePatterns } from './name-pattern.ts';
import { readCount, readFlag, readMoment, readTerminalStatuses } from './option-values.ts';

/** Which instances a bulk operation concerns: all conditions must hold, and an absent one always does. */
export interface InstanceFilter {
  /** Only these; repeats count once, unknown ones as nothing. */
  readonly instanceIds?: readonly string[] | undefined;
  /** Only those that ended before this moment, however they ended. */
  readonly completedBefore?: Date | number | undefined;
  /** Only those that ended so. */
  readonly status?: TerminalStatus | readonly TerminalStatus[] | undefined;
  /** Only those of orchestrations with these names, 100 at most; `*` stands for any text. */
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

const conditionNames = ['instanceIds', 'completedBefore', 'status', 'name'] as const;

/**
 * Refuses a bulk operation without any condition unless its caller says `all: true`: a filter that came out empty by
 * mistake would select everything. A `limit` is no condition.
 */
export function assertMeant(
  filter: Readonly<Partial<Record<(typeof conditionNames)[number], unknown>>> | undefined,
  all: unknown,
  others: Readonly<Record<string, unknown>> = {},
): void {
  const isMeant = readFlag('all', all);
  const conditions = [...conditionNames.map((name) => filter?.[name]), ...Object.values(others)];
  if (isMeant || conditions.some((condition) => condition !== undefined)) return;
  const names = [...conditionNames, ...Object.keys(others)];
  throw new PerdureError(
    'INVALID_OPTION',
    `The filter has no condition, so it would select every instance. Pass ${names.join(', ')}, or \`all: true\`.`,
  );
}

/** Checks a filter; bad values are `INVALID_OPTION`, bad ids `INVALID_ID`. */
export function readInstanceFilter(filter: unknown): CheckedFilter {
  const given = readFields(filter, 'the filter', [
    'instanceIds',
    'completedBefore',
    'status',
    'name',
    'limit',
  ] as const);
  const { completedBefore, status, name } = given;
  // No ids where some were meant would select everything.
  if (Object.hasOwn(Object(filter) as object, 'instanceIds') && given.instanceIds === undefined) {
    throw invalidOption('instanceIds', undefined, 'an array of instance ids, or left out');
  }
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
