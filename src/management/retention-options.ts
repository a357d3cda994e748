import { toMs, type Duration } from '../model/values/duration.ts';
import { invalidOption, readFields } from '../model/option-fields.ts';
import { readFlag } from './option-values.ts';
import {
  readRetentionPolicies,
  type RetentionPolicy,
  type RetentionRules,
} from './retention-policy.ts';

/** What the workers of a store delete by themselves. All of them should be told the same; one of them does it. */
export interface RetentionOptions {
  /** What is kept, and for how long; the first that matches decides. */
  readonly policies: readonly RetentionPolicy[];
  /** How often to look. Default 1 hour. */
  readonly interval?: Duration;
  /** Only report what would go. Default false. */
  readonly dryRun?: boolean;
}

/** Retention options with every field decided. */
export interface ResolvedRetention {
  readonly rules: RetentionRules;
  /** As they were given, for whoever asks for a sweep later. */
  readonly policies: readonly RetentionPolicy[];
  readonly intervalMs: number;
  readonly dryRun: boolean;
}

const minIntervalMs = 1_000;

/** Fills in the defaults and refuses what makes no sense with `INVALID_OPTION`. */
export function resolveRetention(options: unknown): ResolvedRetention {
  const given = readFields(options, 'retention', ['policies', 'interval', 'dryRun'] as const);
  const interval = (given.interval ?? '1h') as Duration;
  const intervalMs = toMs(interval, 'retention.interval');
  if (intervalMs < minIntervalMs) {
    throw invalidOption('retention.interval', interval, '1 s or more');
  }
  const rules = readRetentionPolicies(given.policies);
  // A copy: the caller may change the array while sweeps go on.
  const policies = structuredClone(given.policies) as readonly RetentionPolicy[];
  return { rules, policies, intervalMs, dryRun: readFlag('retention.dryRun', given.dryRun) };
}
