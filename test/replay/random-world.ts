import type { HistoryEvent } from '../../src/model/event.ts';
import type { Message } from '../../src/model/message.ts';
import { DeterministicRandom } from '../../src/replay/deterministic-random.ts';

type Scheduled = Extract<
  HistoryEvent,
  {
    kind:
      | 'activityScheduled'
      | 'timerCreated'
      | 'childScheduled'
      | 'detachedStarted'
      | 'eventAwaited'
      | 'awakeableCreated';
  }
>;

/** A step, which only its outcome records. */
interface PendingStep {
  readonly kind: 'step';
  readonly name: string;
  readonly attempts: number;
}

/** Whether and when the instance is canceled. */
export interface CancelPlan {
  /** The turn that gets the cancel, 0 with the start; `undefined`: never. */
  readonly inTurn: number | undefined;
  /** Number of turns after which clean-up expires; `undefined`: never. */
  readonly expiresAfter: number | undefined;
}

/** Settles pending operations in random order and batches, with duplicate, stale and unexpected messages. */
export class RandomWorld {
  readonly #random: DeterministicRandom;
  readonly #executionId: number;
  readonly #plan: CancelPlan;
  readonly #outstanding = new Map<number, Scheduled | PendingStep>();
  /** Withdrawn operations in wait mode. */
  readonly #stopping = new Set<number>();
  readonly #answered: Message[] = [];
  #turn = 0;
  #updates = 0;
  nowMs = 1_000;

  constructor(seed: number, executionId: number, plan: CancelPlan) {
    this.#random = new DeterministicRandom(`${seed}/${executionId}`);
    this.#executionId = executionId;
    this.#plan = plan;
  }

  /** Tracks the operations that a turn recorded. */
  observe(
    events: readonly HistoryEvent[],
    steps: ReadonlyMap<number, { readonly name: string }>,
  ): void {
    for (const [operation, { name }] of steps) {
      if (!this.#outstanding.has(operation))
        this.#outstanding.set(operation, { kind: 'step', name, attempts: 0 });
    }
    for (const event of events) {
      switch (event.kind) {
        case 'activityScheduled':
        case 'timerCreated':
        case 'childScheduled':
        case 'detachedStarted':
        case 'eventAwaited':
        case 'awakeableCreated':
          this.#outstanding.set(event.operation, event);
          break;
        case 'operationWithdrawn':
          this.#withdraw(event.target);
          break;
        default:
          break;
      }
    }
  }

  /** Whether no operation is pending. */
  get isIdle(): boolean {
    return this.#outstanding.size === 0;
  }

  /** The messages that arrive with the start. */
  firstMessages(): readonly Message[] {
    const { inTurn } = this.#plan;
    return inTurn === 0 ? [{ kind: 'cancel', reason: 'the first', actor: 'world' }] : [];
  }

  /** The messages of the next turn: some outcomes, duplicates, stale messages and unexpected events. */
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
    // Bounded: handlers issue operations too, and a program may wait until none runs.
    if (this.#updates < 4 && this.#random.next() < 0.6) this.#insert(messages, this.#update());
    this.#addRequests(messages);
    return messages;
  }

  /** An update: most have a handler, and all have a key of their own. */
  #update(): Message {
    this.#updates += 1;
    const key = `${this.#executionId}-${this.#updates}`;
    const name = ['u0', 'u0', 'u0', 'u1', 'unknown'][this.#pick(5)] ?? 'u0';
    return { kind: 'update', key, name, payload: JSON.stringify(this.#pick(10)) };
  }

  /** Inserts the cancel, repeated cancels and the end of clean-up at random places of a batch. */
  #addRequests(messages: Message[]): void {
    this.#turn += 1;
    const { inTurn, expiresAfter } = this.#plan;
    if (inTurn === undefined || this.#turn < inTurn) return;
    if (this.#turn === inTurn) {
      this.#insert(messages, { kind: 'cancel', reason: 'the first', actor: 'world' });
      this.#stopSome(messages);
    } else if (this.#random.next() < 0.2) {
      this.#insert(messages, { kind: 'cancel', reason: `again ${this.#turn}`, actor: null });
    }
    if (expiresAfter !== undefined && this.#turn >= inTurn + expiresAfter) {
      this.#insert(messages, { kind: 'cleanupExpired', reason: 'the first' });
    }
  }

  /** A store cancels unclaimed activities without a turn. */
  #stopSome(messages: Message[]): void {
    for (const [operation, event] of this.#outstanding) {
      const isStopped =
        event.kind === 'activityScheduled' &&
        event.shielded !== true &&
        event.cancellation !== 'abandon' &&
        this.#random.next() < 0.3;
      if (!isStopped) continue;
      this.#outstanding.delete(operation);
      this.#insert(messages, this.#canceled(operation, 'the first'));
    }
  }

  #insert(messages: Message[], message: Message): void {
    messages.splice(this.#pick(messages.length + 1), 0, message);
  }

  #withdraw(target: number): void {
    const event = this.#outstanding.get(target);
    const type = event !== undefined && 'cancellation' in event ? event.cancellation : undefined;
    if (type === 'wait') this.#stopping.add(target);
    // Sometimes the outcome is already queued. Abandoned work continues.
    else if (type !== 'abandon' && this.#random.next() < 0.8) this.#outstanding.delete(target);
  }

  #answer(operation: number): Message {
    const event = this.#outstanding.get(operation);
    this.#outstanding.delete(operation);
    const executionId = this.#executionId;
    const fails = this.#random.next() < 0.25;
    const stops = this.#stopping.has(operation) && this.#random.next() < 0.6;
    const payload = JSON.stringify(`${operation}:${this.#pick(100)}`);
    const failure = { name: 'Error', message: `failed ${operation}` };
    switch (event?.kind) {
      case 'activityScheduled':
        if (stops) return this.#canceled(operation, 'told to');
        return fails
          ? { kind: 'activityFailed', executionId, operation, failure }
          : { kind: 'activityCompleted', executionId, operation, payload };
      case 'childScheduled':
        if (stops) return { kind: 'childCanceled', executionId, operation, reason: 'told to' };
        return fails
          ? { kind: 'childFailed', executionId, operation, failure }
          : { kind: 'childCompleted', executionId, operation, payload };
      case 'detachedStarted':
        return fails
          ? { kind: 'detachedFailed', executionId, operation, failure }
          : { kind: 'detachedConfirmed', executionId, operation };
      case 'step': {
        const { name, attempts } = event;
        const answer = { executionId, operation, name };
        if (fails && attempts < 2 && this.#random.next() < 0.4) {
          const next = { kind: 'step', name, attempts: attempts + 1 } as const;
          this.#outstanding.set(operation, next);
          const retryAt = this.nowMs + 5;
          return { kind: 'stepRetried', ...answer, attempts: attempts + 1, failure, retryAt };
        }
        return fails
          ? { kind: 'stepFailed', ...answer, failure }
          : { kind: 'stepCompleted', ...answer, payload };
      }
      case 'eventAwaited':
        return this.#event(event.name);
      case 'awakeableCreated':
        return fails
          ? { kind: 'awakeableRejected', executionId, operation, failure }
          : { kind: 'awakeableResolved', executionId, operation, payload };
      default:
        return { kind: 'timerFired', executionId, operation };
    }
  }

  #canceled(operation: number, reason: string): Message {
    const executionId = this.#executionId;
    return { kind: 'activityCanceled', executionId, operation, trigger: 'cancel', reason };
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
