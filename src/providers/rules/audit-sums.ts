import type { AuditCounts, AuditEntry } from '../contract/management.ts';

/** What one transaction changed for an operation. Record only steps that changed something. */
export interface AuditedStep {
  /** Absent: the step is not recorded. */
  readonly entry: AuditEntry | undefined;
  /** Absent counts are 0. */
  readonly counts?: Partial<AuditCounts>;
  /** Of a bulk operation that must not visit an instance twice: the key of the instance. */
  readonly progressKey?: number;
}

/** The steps of one operation within a transaction. */
export interface AuditSum extends AuditEntry, AuditCounts {
  readonly reason: string | null;
  readonly instanceId: string | null;
  /** The smallest key of the steps. */
  readonly progressKey: number | null;
}

/** The counts of a step that changed one instance. */
export const oneInstance: Partial<AuditCounts> = { instances: 1 };

/** Returns one sum per operation, in the order of their first steps. */
export function sumSteps(steps: readonly AuditedStep[]): readonly AuditSum[] {
  const sums = new Map<string, AuditSum>();
  for (const { entry, counts = {}, progressKey = null } of steps) {
    if (entry === undefined) continue;
    const sum = sums.get(entry.auditId) ?? { ...nothing, reason: null, instanceId: null, ...entry };
    sums.set(entry.auditId, {
      ...sum,
      instances: sum.instances + (counts.instances ?? 0),
      instancesDeleted: sum.instancesDeleted + (counts.instancesDeleted ?? 0),
      executionsDeleted: sum.executionsDeleted + (counts.executionsDeleted ?? 0),
      eventsDeleted: sum.eventsDeleted + (counts.eventsDeleted ?? 0),
      queueMessagesDeleted: sum.queueMessagesDeleted + (counts.queueMessagesDeleted ?? 0),
      progressKey: smaller(sum.progressKey, progressKey),
    });
  }
  return [...sums.values()];
}

/**
 * Whether a bulk operation has already visited an instance. It visits instances in descending order of their keys, so
 * all keys from the smallest visited one on are done.
 */
export function isVisited(instanceKey: number, progressKey: number | null | undefined): boolean {
  return progressKey != null && instanceKey >= progressKey;
}

const nothing = {
  instances: 0,
  instancesDeleted: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
  progressKey: null,
};

function smaller(one: number | null, other: number | null): number | null {
  if (one === null || other === null) return one ?? other;
  return Math.min(one, other);
}
