import type { Attention, AttentionFinding } from '../../client/explaining/attention.ts';
import type { LimitsInfo } from '../../client/managing/limits.ts';
import type { WorkerInfo } from '../../client/reading/workers.ts';
import type { RetentionStatus } from '../../management/retention-records.ts';
import type { SystemMetrics } from '../../providers/contract/management.ts';
import type { StoreReport } from '../../providers/shared/store-report.ts';
import type { Selectors } from './selector.ts';

/** One thing that `perdure doctor` found. */
export interface Finding {
  /** Stable, for scripts: `schema-older`. */
  readonly id: string;
  /** `note`: worth knowing, but no reason to act. Notes alone do not change the exit code. */
  readonly level: 'problem' | 'warning' | 'note';
  readonly sentence: string;
  /** What to do, with the command in backticks where there is one. */
  readonly remedy: string;
}

/** What the checks derive findings from. */
export interface Examination extends Selectors {
  readonly nodeVersion: string;
  /** Absent over a server, which does not show its store. */
  readonly report?: StoreReport;
  /** Absent if the store or the server could not be opened. */
  readonly reads?: DoctorReads;
  readonly limits: DoctorLimits;
}

/** What a client reads, local or remote. */
export interface DoctorReads {
  readonly attention: Attention;
  readonly workers: readonly WorkerInfo[];
  readonly metrics: SystemMetrics;
  readonly retention: RetentionStatus;
  /** The limits of the definitions whose oldest entry waits for more than a minute. */
  readonly limitsOfOldQueues: readonly LimitsOfQueue[];
  /** Instances that failed with `POISON` and were not retried or deleted. */
  readonly poisoned: readonly { readonly id: string; readonly name: string }[];
  readonly hasMorePoisoned: boolean;
  /** The lead of the store's clock over the clock of this process, and half of the round trip. */
  readonly skewMs: number;
  readonly skewErrorMs: number;
}

/** The limits of a definition whose queue is old. */
export interface LimitsOfQueue extends LimitsInfo {
  /** Whether a limit holds the due runs of one of its keys back, among the 100 keys with the most waiting runs. */
  readonly holdsKey: boolean;
}

/** Numbers above which a check reports. */
export interface DoctorLimits {
  readonly skewMs: number;
  /** Ended instances, or bytes, above which a store without retention is large. */
  readonly largeInstances: number;
  readonly largeBytes: number;
  /** The connections that a process needs with the default `poolSize`. */
  readonly freeConnections: number;
  readonly bloatRatio: number;
  readonly bloatBytes: number;
  readonly bloatRows: number;
}

export const defaultLimits: DoctorLimits = {
  skewMs: 2_000,
  largeInstances: 100_000,
  largeBytes: 1024 ** 3,
  freeConnections: 11,
  bloatRatio: 0.5,
  bloatBytes: 64 * 1024 ** 2,
  bloatRows: 50_000,
};

/** Derives the findings of one kind. Reads nothing itself. */
export type Check = (examination: Examination) => readonly Finding[];

/** Returns the attention finding of a kind, with at least one problem. */
export function attentionOf<Kind extends AttentionFinding['kind']>(
  { reads }: Examination,
  kind: Kind,
): Extract<AttentionFinding, { readonly kind: Kind }> | undefined {
  const found = reads?.attention.findings.find((one) => one.kind === kind);
  return found as Extract<AttentionFinding, { readonly kind: Kind }> | undefined;
}
