import { isTerminal } from '../../model/status.ts';
import type { InspectedInstance } from '../contract/inspection.ts';

/** Whether only the history shows what an instance waits for. */
export function needsEvents({
  record,
  turn,
  pending,
}: Pick<InspectedInstance, 'record' | 'turn' | 'pending'>): boolean {
  if (record.kind === 'task' || isTerminal(record.status) || turn.isClosing) return false;
  const isDue = turn.dueAt !== null && turn.dueAt <= turn.nowMs;
  return pending.length === 0 && turn.held === null && !isDue && turn.historyLength > 0;
}
