import type { HistoryEvent } from '../../src/model/event.ts';
import type { Message } from '../../src/model/message.ts';
import { DeterministicRandom } from '../../src/replay/deterministic-random.ts';

/** Answers outstanding operations in random order and batches, and makes the mistakes that a real world makes. */
export class RandomWorld {
  readonly #random: DeterministicRandom;
  readonly #executionId: number;
  readonly #outstanding = new Map<number, HistoryEvent>();
  readonly #answered: Message[] = [];
  nowMs = 1_000;

  constructor(seed: number, executionId: number) {
    this.#random = new DeterministicRandom(`${seed}/${executionId}`);
    this.#executionId = executionId;
  }

  /** Takes note of what a turn recorded. */
  observe(events: readonly HistoryEvent[]): void {
    for (const event of events) {
      switch (event.kind) {
        case 'activityScheduled':
        case 'timerCreated':
        case 'childScheduled':
        case 'eventAwaited':
          this.#outstanding.set(event.operation, event);
          break;
        case 'operationWithdrawn':
          // Now and then the answer is already under way.
          if (this.#random.next() < 0.8) this.#outstanding.delete(event.target);
          break;
        default:
          break;
      }
    }
  }

  /** The messages of the next turn: some answers, duplicates, stale ones and events nobody asked for. */
  nextMessages(): readonly Message[] {
    // The clock of another machine may be behind.
    this.nowMs += Math.floor(this.#random.next() * 40) - 5;
    const operations = [...this.#outstanding.keys()];
    const count = 1 + Math.floor(this.#random.next() * Math.min(4, operations.length));
    const messages: Message[] = [];
    for (let i = 0; i < count && operations.length > 0; i++) {
      const [operation] = operations.splice(this.#pick(operations.length), 1);
      if (operation !== undefined) messages.push(this.#answer(operation));
    }
    this.#answered.push(...messages);
    if (this.#random.next() < 0.2)
      messages.push(this.#answered[this.#pick(this.#answered.length)] ?? { kind: 'wake' });
    if (this.#random.next() < 0.1) messages.unshift(this.#stale());
    if (this.#random.next() < 0.1)
      messages.unshift(this.#event(['a', 'b', 'c'][this.#pick(3)] ?? 'a'));
    return messages;
  }

  #answer(operation: number): Message {
    const event = this.#outstanding.get(operation);
    this.#outstanding.delete(operation);
    const executionId = this.#executionId;
    const fails = this.#random.next() < 0.25;
    const payload = JSON.stringify(`${operation}:${this.#pick(100)}`);
    const failure = { name: 'Error', message: `failed ${operation}` };
    switch (event?.kind) {
      case 'activityScheduled':
        return fails
          ? { kind: 'activityFailed', executionId, operation, failure }
          : { kind: 'activityCompleted', executionId, operation, payload };
      case 'childScheduled':
        return fails
          ? { kind: 'childFailed', executionId, operation, failure }
          : { kind: 'childCompleted', executionId, operation, payload };
      case 'eventAwaited':
        return this.#event(event.name);
      default:
        return { kind: 'timerFired', executionId, operation };
    }
  }

  #event(name: string): Message {
    return { kind: 'eventRaised', name, payload: JSON.stringify(this.#pick(1_000)) };
  }

  #stale(): Message {
    return {
      kind: 'activityCompleted',
      executionId: this.#executionId - 1,
      operation: 1 + this.#pick(5),
      payload: '"stale"',
    };
  }

  #pick(count: number): number {
    return Math.floor(this.#random.next() * count);
  }
}
