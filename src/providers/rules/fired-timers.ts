import type { StoredMessage } from '../../model/message.ts';
import type { TurnAck } from '../contract/work-queue.ts';

/** Says whether the visible messages of an instance are those of the timers that a turn has applied, and no others. */
export function areFiredTimers(
  messages: readonly StoredMessage[],
  { executionId, timers = [] }: TurnAck,
): boolean {
  const fired = new Set(timers);
  return (
    messages.length === fired.size &&
    messages.every(
      (message) =>
        message.kind === 'timerFired' &&
        message.executionId === executionId &&
        message.operation !== null &&
        fired.has(message.operation),
    )
  );
}
