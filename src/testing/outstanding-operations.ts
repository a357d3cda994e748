import type { HistoryEvent } from '../model/event.ts';

/** What an execution waits for, in words, from its history. */
export function outstandingOperations(history: readonly HistoryEvent[]): readonly string[] {
  const outstanding = new Map<number, string>();
  const events = new EventWaits();
  /** Withdrawing these is not enough: they are waited for until they have stopped. */
  const mustStop = new Set<number>();
  for (const event of history) {
    if ('cancellation' in event && event.cancellation === 'wait') mustStop.add(event.operation);
    switch (event.kind) {
      case 'executionStarted':
        for (const { name } of event.carried ?? []) events.arrive(name);
        break;
      case 'activityScheduled':
        outstanding.set(event.operation, `activity '${event.name}'`);
        break;
      case 'timerCreated':
        outstanding.set(event.operation, `a timer for ${new Date(event.fireAt).toISOString()}`);
        break;
      case 'childScheduled':
        outstanding.set(event.operation, `child '${event.childId}'`);
        break;
      case 'detachedStarted':
        outstanding.set(event.operation, `the start of '${event.childId}'`);
        break;
      case 'eventAwaited':
        if (events.wait(event.name, event.operation)) {
          outstanding.set(event.operation, `event '${event.name}'`);
        }
        break;
      case 'eventReceived':
        outstanding.delete(events.arrive(event.name) ?? 0);
        break;
      case 'operationWithdrawn': {
        const what = outstanding.get(event.target);
        events.withdraw(event.target);
        if (!mustStop.has(event.target)) outstanding.delete(event.target);
        else if (what !== undefined) outstanding.set(event.target, `${what} to stop`);
        break;
      }
      case 'activityCompleted':
      case 'activityFailed':
      case 'activityCanceled':
      case 'timerFired':
      case 'childCompleted':
      case 'childFailed':
      case 'childCanceled':
      case 'detachedConfirmed':
      case 'detachedFailed':
        outstanding.delete(event.operation);
        break;
      default:
        break;
    }
  }
  return [...outstanding.values()];
}

/** Which waits for external events are still without one. */
class EventWaits {
  readonly #waits = new Map<number, string>();
  readonly #buffered = new Map<string, number>();

  /** Answers whether the wait has to wait: there may be an event already. */
  wait(name: string, operation: number): boolean {
    const buffered = this.#buffered.get(name) ?? 0;
    if (buffered > 0) this.#buffered.set(name, buffered - 1);
    else this.#waits.set(operation, name);
    return buffered === 0;
  }

  withdraw(operation: number): void {
    this.#waits.delete(operation);
  }

  /** The operation that takes an event; `undefined` if it is kept for later. */
  arrive(name: string): number | undefined {
    for (const [operation, awaited] of this.#waits) {
      if (awaited !== name) continue;
      this.#waits.delete(operation);
      return operation;
    }
    this.#buffered.set(name, (this.#buffered.get(name) ?? 0) + 1);
    return undefined;
  }
}
