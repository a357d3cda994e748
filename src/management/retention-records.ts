import { PerdureError } from '../model/failures/errors.ts';
import type {
  DeleteInstanceResult,
  ManagementStore,
  PruneResult,
} from '../providers/contract/management.ts';
import type { RetentionPolicy } from './retention-policy.ts';

type Records = Pick<ManagementStore, 'readRecord' | 'writeRecord'>;

/** What a sweep did. */
export interface RetentionReport {
  readonly startedAt: number;
  readonly endedAt: number;
  /** Which process did it. */
  readonly sweeper: string;
  /** Nothing was changed; the counts say what would have gone. */
  readonly dryRun: boolean;
  /** `done`: it looked at everything. Otherwise why it ended early; the next sweep goes on. */
  readonly outcome: 'done' | 'paused' | 'stopped' | 'lostLease' | 'failed';
  readonly deleted: DeleteInstanceResult;
  readonly pruned: PruneResult;
  /** Roots that were due and stay because something below them runs. */
  readonly left: number;
  readonly errors: readonly string[];
}

/** Who stopped the sweeps, and when. */
export interface RetentionPause {
  readonly at: number;
  readonly actor: string | null;
}

/** Where retention stands. */
export interface RetentionStatus {
  readonly paused: RetentionPause | null;
  readonly lastReport: RetentionReport | null;
  /** By which policies workers last swept. */
  readonly policies: readonly RetentionPolicy[] | null;
  /** When a sweep last looked at instances whose time of creation says that they cannot be due. */
  readonly fullWalkAt: number | null;
}

const names = {
  paused: 'retention.paused',
  lastReport: 'retention.report',
  policies: 'retention.policies',
  fullWalkAt: 'retention.fullWalkAt',
} as const satisfies Record<keyof RetentionStatus, string>;

/** Reads one part of the status; `null` when there is none, `UNDECODABLE` when the store was damaged. */
export async function readRetention<Key extends keyof RetentionStatus>(
  store: Records,
  key: Key,
): Promise<RetentionStatus[Key] | null> {
  const text = await store.readRecord(names[key]);
  if (text === null) return null;
  try {
    return JSON.parse(text) as RetentionStatus[Key];
  } catch (cause) {
    throw new PerdureError(
      'UNDECODABLE',
      `The record ${names[key]} of this store cannot be decoded. Pausing and resuming retention, or its next sweep, writes it anew.`,
      { cause },
    );
  }
}

/** Writes one part of the status. */
export async function writeRetention<Key extends keyof RetentionStatus>(
  store: Records,
  key: Key,
  value: RetentionStatus[Key],
): Promise<void> {
  await store.writeRecord(names[key], value === null ? null : JSON.stringify(value));
}
