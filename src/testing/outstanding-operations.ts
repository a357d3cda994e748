import type { HistoryEvent } from '../model/event.ts';

/** What an execution waits for, in words, from its history. */
export function outstandingOperations(history: readonly HistoryEvent[]): readonly string[] {
  const outstanding = new Map<number, string>();
  const awaited = new Map<string, number[]>();
  for (const event of history) {
    switch (event.kind) {
      case 'activityScheduled':
        outstanding.set(event.operation, `activity '${event.name}'`);
        break;
      case 'timerCreated':
        outstanding.set(event.operation, `a timer for ${new Date(event.fireAt).toISOString()}`);
        break;
      case 'childScheduled':
        outstanding.set(event.operation, `child '${event.childId}'`);
        break;
      case 'eventAwaited':
        outstanding.set(event.operation, `event '${event.name}'`);
        awaited.set(event.name, [...(awaited.get(event.name) ?? []), event.operation]);
        break;
      case 'eventReceived':
        outstanding.delete(awaited.get(event.name)?.shift() ?? 0);
        break;
      case 'operationWithdrawn':
        outstanding.delete(event.target);
        break;
      case 'activityCompleted':
      case 'activityFailed':
      case 'timerFired':
      case 'childCompleted':
      case 'childFailed':
        outstanding.delete(event.operation);
        break;
      default:
        break;
    }
  }
  return [...outstanding.values()];
}
