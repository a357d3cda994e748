import type { DeleteInstanceResult, PruneResult } from '../providers/contract/management.ts';

export const nothingDeleted: DeleteInstanceResult = {
  instancesDeleted: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
  queueMessagesDeleted: 0,
};

export const nothingPruned: PruneResult = {
  instancesProcessed: 0,
  executionsDeleted: 0,
  eventsDeleted: 0,
};

export function addDeleted(a: DeleteInstanceResult, b: DeleteInstanceResult): DeleteInstanceResult {
  return {
    instancesDeleted: a.instancesDeleted + b.instancesDeleted,
    executionsDeleted: a.executionsDeleted + b.executionsDeleted,
    eventsDeleted: a.eventsDeleted + b.eventsDeleted,
    queueMessagesDeleted: a.queueMessagesDeleted + b.queueMessagesDeleted,
  };
}

export function addPruned(a: PruneResult, b: PruneResult): PruneResult {
  return {
    instancesProcessed: a.instancesProcessed + b.instancesProcessed,
    executionsDeleted: a.executionsDeleted + b.executionsDeleted,
    eventsDeleted: a.eventsDeleted + b.eventsDeleted,
  };
}

/** How many rows went. */
export function rowsOf(deleted: DeleteInstanceResult): number {
  const { instancesDeleted, executionsDeleted, eventsDeleted, queueMessagesDeleted } = deleted;
  return instancesDeleted + executionsDeleted + eventsDeleted + queueMessagesDeleted;
}
