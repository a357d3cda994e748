import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { TerminalStatus } from '../model/status.ts';
import { matchNames, readNamePatterns } from './name-pattern.ts';
import { readCount, readTerminalStatuses } from './option-values.ts';

/** How long roots are kept after their end, with all that is below them. */
export interface InstanceRetention {
  /** Only roots that ended so. Default: however they ended. */
  readonly statuses?: TerminalStatus | readonly TerminalStatus[];
  /** Only orchestrations with these names, 100 at most; `*` stands for any text. Default: all. */
  readonly names?: string | readonly string[];
  /** How long after its end a root is kept, or `'forever'`. */
  readonly keepFor: Duration;
}

/** How many finished executions are kept of instances that continue as new, also while they run. */
export interface ExecutionRetention {
  /** Only orchestrations with these names, 100 at most; `*` stands for any text. Default: all. */
  readonly names?: string | readonly string[];
  /** The last so many are kept, the current one among them. */
  readonly keepExecutions: number;
  /** And those, too, that ended no longer ago than this. Default: none for their age. */
  readonly keepExecutionsFor?: Duration;
}

/**
 * What is kept, and for how long. Of the policies of one kind the first that matches decides, so the particular come
 * before the general; what no policy matches is kept for ever.
 */
export type RetentionPolicy = InstanceRetention | ExecutionRetention;

/** A policy for instances that was checked. */
export interface InstanceRule {
  readonly statuses: readonly TerminalStatus[];
  readonly names: readonly string[] | undefined;
  readonly matchesName: (name: string) => boolean;
  /** `Infinity`: for ever. */
  readonly keepForMs: number;
}

/** A policy for executions that was checked. */
interface ExecutionRule {
  readonly names: readonly string[] | undefined;
  readonly matchesName: (name: string) => boolean;
  readonly keepLast: number;
  readonly keepForMs: number;
}

/** Policies that were checked, by kind, in the order in which they decide. */
export interface RetentionRules {
  readonly instances: readonly InstanceRule[];
  readonly executions: readonly ExecutionRule[];
}

const instanceKeys = ['statuses', 'names', 'keepFor'] as const;
const executionKeys = ['names', 'keepExecutions', 'keepExecutionsFor'] as const;

/** Checks policies; bad values, and policies that could never decide, are `INVALID_OPTION`. */
export function readRetentionPolicies(policies: unknown): RetentionRules {
  if (!Array.isArray(policies) || policies.length === 0) {
    throw invalidOption('policies', policies, 'an array of at least one retention policy');
  }
  const instances: InstanceRule[] = [];
  const executions: ExecutionRule[] = [];
  for (const [index, policy] of (policies as readonly unknown[]).entries()) {
    const what = `policies[${index}]`;
    if (isForExecutions(policy)) {
      const rule = readExecutionRule(policy, what);
      if (executions.some((earlier) => covers(earlier.names, rule.names))) throw shadowed(what);
      executions.push(rule);
    } else {
      const rule = readInstanceRule(policy, what);
      if (instances.some((earlier) => coversInstances(earlier, rule))) throw shadowed(what);
      instances.push(rule);
    }
  }
  return { instances, executions };
}

function isForExecutions(policy: unknown): boolean {
  return typeof policy === 'object' && policy !== null && 'keepExecutions' in policy;
}

function readInstanceRule(policy: unknown, what: string): InstanceRule {
  const given = readFields(policy, what, instanceKeys);
  const names = readNamePatterns(`${what}.names`, given.names);
  if (given.keepFor === undefined) {
    throw invalidOption(what, 'without keepFor and keepExecutions', 'one of the two');
  }
  return {
    statuses: readTerminalStatuses(`${what}.statuses`, given.statuses),
    names,
    matchesName: matchNames(names),
    keepForMs:
      given.keepFor === 'forever'
        ? Number.POSITIVE_INFINITY
        : toMs(given.keepFor as Duration, `${what}.keepFor`),
  };
}

function readExecutionRule(policy: unknown, what: string): ExecutionRule {
  const given = readFields(policy, what, executionKeys);
  const names = readNamePatterns(`${what}.names`, given.names);
  const { keepExecutionsFor = 0 } = given;
  return {
    names,
    matchesName: matchNames(names),
    keepLast: readCount(`${what}.keepExecutions`, given.keepExecutions),
    keepForMs: toMs(keepExecutionsFor as Duration, `${what}.keepExecutionsFor`),
  };
}

function coversInstances(earlier: InstanceRule, later: InstanceRule): boolean {
  return (
    later.statuses.every((status) => earlier.statuses.includes(status)) &&
    covers(earlier.names, later.names)
  );
}

// A pattern is also covered as a text: what 'a*' matches begins with what 'a*' itself begins with.
function covers(
  earlier: readonly string[] | undefined,
  later: readonly string[] | undefined,
): boolean {
  if (earlier === undefined) return true;
  const matches = matchNames(earlier);
  return later?.every(matches) ?? earlier.includes('*');
}

function shadowed(what: string): PerdureError {
  return new PerdureError(
    'INVALID_OPTION',
    `${what} could never decide, because an earlier policy matches all that it matches. Put the particular before the general, or take one of them out.`,
  );
}
