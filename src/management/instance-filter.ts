import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { TerminalStatus } from '../model/status.ts';
import { checkTags, type Tags } from '../model/values/tags.ts';
import { checkInstanceId, checkName } from '../model/values/names.ts';
import { readCount, readFlag, readMoment, readTerminalStatuses } from './management-options.ts';

/** Selects the instances of a bulk operation. Conditions are combined with AND. */
export interface InstanceFilter {
  /** Instance ids. Duplicates and unknown ids are ignored. */
  readonly instanceIds?: readonly string[] | undefined;
  /** Matches instances that ended before this time, with any terminal status. */
  readonly completedBefore?: Date | number | undefined;
  /** Terminal statuses. Default: all. */
  readonly status?: TerminalStatus | readonly TerminalStatus[] | undefined;
  /** Names of orchestrations or tasks, at most 100. `*` matches any text. */
  readonly name?: string | readonly string[] | undefined;
  /** The instance has all of these tags. */
  readonly tags?: Tags | undefined;
  /** Maximum instances, applied last. Default: 1,000. */
  readonly limit?: number | undefined;
}

/** A validated filter. */
export interface CheckedFilter {
  readonly instanceIds?: readonly string[];
  readonly endedBefore?: number;
  readonly statuses: readonly TerminalStatus[];
  readonly names?: readonly string[];
  readonly tags?: Tags;
  readonly limit: number;
  /** The conditions in the audit. It has the number of ids, not the ids. */
  readonly shape: object;
}

const defaultLimit = 1_000;

const conditionNames = ['instanceIds', 'completedBefore', 'status', 'name', 'tags'] as const;

/**
 * Throws `INVALID_OPTION` for a bulk operation without conditions, unless `all: true` is passed. It protects against a
 * filter that is empty by mistake. `limit` is not a condition.
 */
export function assertHasCondition(
  filter: Readonly<Partial<Record<(typeof conditionNames)[number], unknown>>> | undefined,
  all: unknown,
  others: Readonly<Record<string, unknown>> = {},
): void {
  const isConfirmed = readFlag('all', all);
  const conditions = [...conditionNames.map((name) => filter?.[name]), ...Object.values(others)];
  if (isConfirmed || conditions.some((condition) => condition !== undefined)) return;
  const names = [...conditionNames, ...Object.keys(others)];
  throw new PerdureError(
    'INVALID_OPTION',
    `The filter has no condition, so it would select all instances. Pass ${names.join(', ')}, or \`all: true\`.`,
  );
}

/** Validates a filter. Throws `INVALID_OPTION`, or `INVALID_ID` for an invalid id. */
export function readInstanceFilter(filter: unknown): CheckedFilter {
  const given = readFields(filter, 'the filter', [
    'instanceIds',
    'completedBefore',
    'status',
    'name',
    'tags',
    'limit',
  ] as const);
  const { completedBefore, status, name } = given;
  // An explicit `instanceIds: undefined` is probably a mistake, and would select all instances.
  if (Object.hasOwn(Object(filter) as object, 'instanceIds') && given.instanceIds === undefined) {
    throw invalidOption('instanceIds', undefined, 'an array of instance ids, or absent');
  }
  const instanceIds = given.instanceIds === undefined ? undefined : readIds(given.instanceIds);
  const endedBefore =
    completedBefore === undefined ? undefined : readMoment('completedBefore', completedBefore);
  const statuses = readTerminalStatuses('status', status);
  const names = readNamePatterns('name', name);
  const tags = readTags('tags', given.tags);
  const limit = given.limit === undefined ? defaultLimit : readCount('limit', given.limit);
  return {
    ...(instanceIds !== undefined && { instanceIds }),
    ...(endedBefore !== undefined && { endedBefore }),
    statuses,
    ...(names !== undefined && { names }),
    ...(tags !== undefined && { tags }),
    limit,
    shape: {
      ...(instanceIds !== undefined && { instanceIds: instanceIds.length }),
      ...(endedBefore !== undefined && { completedBefore: endedBefore }),
      ...(status !== undefined && { status: statuses }),
      ...(names !== undefined && { name: names }),
      // Values may be personal data.
      ...(tags !== undefined && { tags: Object.keys(tags) }),
      limit,
    },
  };
}

function readIds(ids: unknown): readonly string[] {
  if (!Array.isArray(ids)) throw invalidOption('instanceIds', ids, 'an array of instance ids');
  return [...new Set(ids.map(checkInstanceId))];
}

/** Checks the tags of a filter. Empty ones would select all instances. */
export function readTags(option: string, value: unknown): Tags | undefined {
  if (value === undefined) return undefined;
  const tags = checkTags(value, option);
  if (tags === undefined) throw invalidOption(option, value, 'at least one tag');
  return tags;
}

/** Whether an instance has all of some tags. */
export function hasTags(tags: Tags, wanted: Tags | undefined): boolean {
  return Object.entries(wanted ?? {}).every(
    ([name, value]) => Object.hasOwn(tags, name) && tags[name] === value,
  );
}

/** Whether a name matches. */
export type NameMatcher = (name: string) => boolean;

// Each name is compared with all patterns, and audit entries store them.
const maxPatterns = 100;

/** Validates one or several name patterns, in which `*` matches any text. `undefined` matches any name. */
export function readNamePatterns(option: string, value: unknown): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const patterns: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (patterns.length === 0 || patterns.length > maxPatterns) {
    const found = patterns.length === 0 ? 'empty' : `a list of ${patterns.length}`;
    throw invalidOption(option, found, `1 to ${maxPatterns} names, in which * matches any text`);
  }
  return patterns.map((pattern) => checkName(pattern, option));
}

/** Returns a function that matches names against the patterns. */
export function matchNames(patterns: readonly string[] | undefined): NameMatcher {
  if (patterns === undefined) return () => true;
  const literal = new Set(patterns.filter((pattern) => !pattern.includes('*')));
  const wildcards = patterns
    .filter((pattern) => pattern.includes('*'))
    .map((one) => one.split('*'));
  return (name) => literal.has(name) || wildcards.some((parts) => matchesParts(name, parts));
}

// Not a regular expression: a pattern with many stars would backtrack exponentially.
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
