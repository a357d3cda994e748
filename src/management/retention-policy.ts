import { PerdureError } from '../model/failures/errors.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import type { TerminalStatus } from '../model/status.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import type { Tags } from '../model/values/tags.ts';
import { hasTags, matchNames, readNamePatterns, readTags } from './instance-filter.ts';
import { readCount, readFlag, readTerminalStatuses } from './management-options.ts';

/** How long trees are kept after their root has ended. */
export interface InstanceRetention {
  /** Terminal statuses of the root. Default: all. */
  readonly statuses?: TerminalStatus | readonly TerminalStatus[];
  /** Names of orchestrations or tasks, at most 100. `*` matches any text. Default: all. */
  readonly names?: string | readonly string[];
  /** The root has all of these tags. Default: any. */
  readonly tags?: Tags;
  /** How long to keep a tree after its root has ended, or `'forever'`. */
  readonly keepFor: Duration;
}

/** How many executions are kept of instances that continue as new, running or ended. */
export interface ExecutionRetention {
  /** Names of orchestrations or tasks, at most 100. `*` matches any text. Default: all. */
  readonly names?: string | readonly string[];
  /** Number of latest executions to keep, including the current one. */
  readonly keepExecutions: number;
  /** Also keeps executions that ended within this time. Default: 0. */
  readonly keepExecutionsFor?: Duration;
}

/**
 * A retention policy for instances or for executions. Of each kind, the first policy that matches applies, so specific
 * policies must precede general ones. Instances and executions without a matching policy are kept forever.
 */
export type RetentionPolicy = InstanceRetention | ExecutionRetention;

/** A validated policy for instances. */
export interface InstanceRule {
  readonly statuses: readonly TerminalStatus[];
  readonly names: readonly string[] | undefined;
  readonly matchesName: (name: string) => boolean;
  readonly tags: Tags | undefined;
  /** `Infinity` means forever. */
  readonly keepForMs: number;
}

/** A validated policy for executions. */
interface ExecutionRule {
  readonly names: readonly string[] | undefined;
  readonly matchesName: (name: string) => boolean;
  readonly keepLast: number;
  readonly keepForMs: number;
}

/** Validated policies by kind, in the order of their precedence. */
export interface RetentionRules {
  readonly instances: readonly InstanceRule[];
  readonly executions: readonly ExecutionRule[];
}

const instanceKeys = ['statuses', 'names', 'tags', 'keepFor'] as const;
const executionKeys = ['names', 'keepExecutions', 'keepExecutionsFor'] as const;

/** Validates policies. Throws `INVALID_OPTION`, also for a policy that can never apply. */
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
    throw invalidOption(what, 'a policy without `keepFor` and `keepExecutions`', 'one with either');
  }
  return {
    statuses: readTerminalStatuses(`${what}.statuses`, given.statuses),
    names,
    matchesName: matchNames(names),
    tags: readTags(`${what}.tags`, given.tags),
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
    covers(earlier.names, later.names) &&
    hasTags(later.tags ?? {}, earlier.tags)
  );
}

// Matching a pattern as if it were a name is enough: 'ab*' matches 'a*', so 'a*' covers 'ab*'.
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
    `${what} can never apply, because an earlier policy covers it. Put specific policies before general ones, or remove one.`,
  );
}

/**
 * Retention options of a worker: policies, `keepSeries`, or both. Pass the same ones to all workers of a store; one of
 * them runs each sweep.
 */
export type RetentionOptions = SweepOptions | { readonly keepSeries: Duration };

/** Retention options with policies. */
export interface SweepOptions {
  /** The policies. The first one that matches applies. */
  readonly policies: readonly RetentionPolicy[];
  /** Interval between sweeps. Default: 1 hour. */
  readonly interval?: Duration;
  /** Only reports the instances and executions to delete. Default: false. */
  readonly dryRun?: boolean;
  /** How long the minutes of `client.series()` are kept. Default: 7 days; at least 1 hour. */
  readonly keepSeries?: Duration;
}

/** Validated sweep options with defaults. */
export interface ResolvedRetention {
  readonly rules: RetentionRules;
  /** The policies as passed, for later manual sweeps. */
  readonly policies: readonly RetentionPolicy[];
  readonly intervalMs: number;
  readonly dryRun: boolean;
}

const minIntervalMs = 1_000;
const minKeepSeriesMs = 3_600_000;

const retentionKeys = ['policies', 'interval', 'dryRun', 'keepSeries'] as const;

/** Validates how long the minute series is kept, in milliseconds. `undefined`: the default. */
export function readKeepSeries(options: unknown): number | undefined {
  const { keepSeries } = readFields(options, 'retention', retentionKeys);
  if (keepSeries === undefined) return undefined;
  const ms = toMs(keepSeries as Duration, 'retention.keepSeries');
  if (ms < minKeepSeriesMs) throw invalidOption('retention.keepSeries', keepSeries, 'at least 1 h');
  return ms;
}

/**
 * Validates retention options and adds the defaults. Throws `INVALID_OPTION`. Returns `undefined` for options that only
 * have `keepSeries`.
 */
export function resolveRetention(options: unknown): ResolvedRetention | undefined {
  const given = readFields(options, 'retention', retentionKeys);
  const { policies: wanted, interval: every, dryRun, keepSeries } = given;
  if (keepSeries !== undefined && [wanted, every, dryRun].every((one) => one === undefined))
    return undefined;
  const interval = (given.interval ?? '1h') as Duration;
  const intervalMs = toMs(interval, 'retention.interval');
  if (intervalMs < minIntervalMs) {
    throw invalidOption('retention.interval', interval, 'at least 1 s');
  }
  const rules = readRetentionPolicies(given.policies);
  // A copy, because the caller may change the array later.
  const policies = structuredClone(given.policies) as readonly RetentionPolicy[];
  return { rules, policies, intervalMs, dryRun: readFlag('retention.dryRun', given.dryRun) };
}
