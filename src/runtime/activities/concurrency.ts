import { setImmediate } from 'node:timers';
import { CircuitBreaker, type BreakerOutcome } from '../../tasks/circuit-breaker.ts';
import type { TaskDefinition } from '../../tasks/task.ts';

/** Counts how many activities may still be started: the bound on concurrency. */
export class Slots {
  readonly #size: number;
  #taken = 0;
  #onFree: () => void = () => undefined;

  constructor(size: number) {
    this.#size = size;
  }

  get free(): number {
    return Math.max(0, this.#size - this.#taken);
  }

  get taken(): number {
    return this.#taken;
  }

  take(count: number): void {
    this.#taken += count;
  }

  release(count: number): void {
    if (count === 0) return;
    this.#taken -= count;
    if (this.free > 0) this.#onFree();
  }

  /** Calls back whenever a release leaves a slot free; there is one listener, the dispatcher. */
  onFree(listener: () => void): void {
    this.#onFree = listener;
  }
}

/** Bounds how many runs of one task a worker runs at once: by its concurrency, and by its circuit breaker. */
export class TaskLimiter {
  readonly task: string;
  readonly #concurrency: number;
  readonly #breaker: CircuitBreaker | undefined;
  #running = 0;

  constructor({ name, concurrency = Infinity, circuitBreaker }: TaskDefinition) {
    this.task = name;
    this.#concurrency = concurrency;
    this.#breaker = circuitBreaker && new CircuitBreaker(circuitBreaker);
  }

  /** The gate of a task, if it has any bounds of its own. */
  static of(task: TaskDefinition): TaskLimiter | undefined {
    const isBounded = task.concurrency !== undefined || task.circuitBreaker !== undefined;
    return isBounded ? new TaskLimiter(task) : undefined;
  }

  /** How many more runs may start now. */
  capacity(nowMs: number): number {
    return Math.min(this.#concurrency - this.#running, this.#breaker?.capacity(nowMs) ?? Infinity);
  }

  /** When time alone makes room; `undefined` when the end of a run does, or there is some. */
  get availableAt(): number | undefined {
    return this.#breaker?.probeAt;
  }

  /** Says that a run starts; the answer is to be told, once, how its attempt ended. */
  start(): (outcome: BreakerOutcome, nowMs: number) => void {
    this.#running += 1;
    const leave = this.#breaker?.start();
    return (outcome, nowMs) => {
      this.#running -= 1;
      leave?.(outcome, nowMs);
    };
  }
}

// Long enough that a worker with cheap handlers hardly notices, short against what a person or a hint waits for.
const sliceMs = 2;

/**
 * Spreads the starts of handlers over turns of the event loop, so that a cancel can arrive between two of them. Without
 * it, a batch of 100 handlers that each compute for 5 ms would start as one block of half a second.
 */
export class StartSlices {
  readonly #waiting: (() => void)[] = [];
  /** When the current slice ends; absent before the first start after a turn of the event loop. */
  #endsAt: number | undefined;

  /** Returns `undefined` if a handler may start now, else a promise that resolves when it may. */
  admit(): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#hasTime()) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #hasTime(): boolean {
    const now = performance.now();
    if (this.#endsAt !== undefined) return now < this.#endsAt;
    this.#endsAt = now + sliceMs;
    setImmediate(() => void this.#nextSlice());
    return true;
  }

  async #nextSlice(): Promise<void> {
    this.#endsAt = undefined;
    while (this.#waiting.length > 0 && this.#hasTime()) {
      this.#waiting.shift()?.();
      // The handler runs in the microtask before this one, so the next look at the clock includes its work.
      await Promise.resolve();
    }
  }
}
