import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { TerminalStatus } from '../model/status.ts';
import { checkInstanceId, checkName } from '../model/values/names.ts';
import { readCount, readFlag, readMoment, readTerminalStatuses } from './management-options.ts';

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
  const given = readFields(
    filter,
    'filter',
    ['instanceIds', 'completedBefore', 'status', 'name', 'limit'] as const,
    'INVALID_OPTION',
  );
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

/** Says whether a name is meant. */
export type NameMatcher = (name: string) => boolean;

// Every name is compared with each of them, and audit records keep them all.
const maxPatterns = 100;

/** Reads one or several patterns of names, in which `*` stands for any text; absent: any name. */
export function readNamePatterns(option: string, value: unknown): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const patterns: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (patterns.length === 0 || patterns.length > maxPatterns) {
    const found = patterns.length === 0 ? 'empty' : `a list of ${patterns.length}`;
    throw invalidOption(option, found, `1 to ${maxPatterns} names, in which * stands for any text`);
  }
  return patterns.map((pattern) => checkName(pattern, option));
}

/** Makes patterns a question. */
export function matchNames(patterns: readonly string[] | undefined): NameMatcher {
  if (patterns === undefined) return () => true;
  const literal = new Set(patterns.filter((pattern) => !pattern.includes('*')));
  const wild = patterns.filter((pattern) => pattern.includes('*')).map((one) => one.split('*'));
  return (name) => literal.has(name) || wild.some((parts) => matchesParts(name, parts));
}

// Not a regular expression: a pattern of many stars would make one backtrack for ever.
function matchesParts(name: string, parts: readonly string[]): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (!name.startsWith(first) || !name.endsWith(last)) return false;
  let from = first.length;
  const end = name.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, from);
    if (found === -1) return false;
    from = found + part.length;
  }
  return from <= end;
}
