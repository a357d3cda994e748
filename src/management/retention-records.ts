import { PerdureError } from '../model/failures/errors.ts';
import type {
  AuditEntry,
  DeleteInstanceResult,
  ManagementStore,
  PruneResult,
} from '../providers/contract/management.ts';
import type { RetentionPolicy } from './retention-policy.ts';

type Records = Pick<ManagementStore, 'readRecord' | 'writeRecord'>;

/** The report of a sweep. */
export interface RetentionReport {
  readonly startedAt: number;
  readonly endedAt: number;
  /** The process or actor that ran the sweep. */
  readonly sweeper: string;
  /** Set if the counts are those of a dry run. */
  readonly dryRun: boolean;
  /** `done` for a complete sweep, otherwise why it ended early. The next sweep continues. */
  readonly outcome: 'done' | 'paused' | 'stopped' | 'lostLease' | 'failed';
  readonly deleted: DeleteInstanceResult;
  readonly pruned: PruneResult;
  /** Due roots that were skipped, because an instance of their tree has not ended. */
  readonly left: number;
  readonly errors: readonly string[];
}

/** The actor and time of a pause. */
export interface RetentionPause {
  readonly at: number;
  readonly actor: string | null;
}

/** The state of retention in a store. */
export interface RetentionStatus {
  readonly paused: RetentionPause | null;
  readonly lastReport: RetentionReport | null;
  /** The policies of the last sweep by a worker. */
  readonly policies: readonly RetentionPolicy[] | null;
  /** When the last full scan started. Other sweeps skip instances that were created too recently to be due. */
  readonly fullWalkAt: number | null;
}

const names = {
  paused: 'retention.paused',
  lastReport: 'retention.report',
  policies: 'retention.policies',
  fullWalkAt: 'retention.fullWalkAt',
} as const satisfies Record<keyof RetentionStatus, string>;

/** Reads one field of the status; `null` if it is not set. Throws `UNDECODABLE`. */
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
      `The store's record ${JSON.stringify(names[key])} cannot be decoded. The next sweep, or pausing and resuming retention, overwrites it.`,
      { cause },
    );
  }
}

/** Writes one field of the status. */
export async function writeRetention<Key extends keyof RetentionStatus>(
  store: Records,
  key: Key,
  value: RetentionStatus[Key],
  audit?: AuditEntry,
): Promise<void> {
  await store.writeRecord(names[key], value === null ? null : JSON.stringify(value), audit);
}
