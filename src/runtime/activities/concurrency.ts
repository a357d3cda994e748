import {
  CircuitBreaker,
  type BreakerOutcome,
  type ResolvedBreaker,
} from '../../tasks/circuit-breaker.ts';
import type { WorkSource } from './work-source.ts';
import { platform } from '../../model/platform.ts';

/** The slots of a worker: its limit on concurrent handlers. */
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

  /** Sets the listener that is called when a release leaves a slot free. There is only one. */
  onFree(listener: () => void): void {
    this.#onFree = listener;
  }
}

/** Counts the handlers of a worker that still run after their grace. */
export class LeakedHandlers {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(): void {
    this.#count += 1;
  }

  /** Call when the handler has settled after all. */
  remove(): void {
    this.#count -= 1;
  }
}

/** The limits of an activity or a task in one worker. */
export interface WorkerLimits {
  /** The task. Absent: an activity. */
  readonly task?: string;
  /** The names of activities. Absent: none. */
  readonly names?: readonly string[];
  /** Maximum concurrent runs. Absent: no limit. */
  readonly concurrency?: number | undefined;
  readonly circuitBreaker?: ResolvedBreaker | undefined;
}

/** Limits the concurrent runs of one activity or task in a worker: by its `concurrency` and its circuit breaker. */
export class WorkLimiter implements WorkSource {
  readonly task: string | undefined;
  readonly tasks: readonly string[];
  readonly names: readonly string[];
  readonly isBatch = false;
  readonly isGathering = false;
  readonly #concurrency: number;
  readonly #breaker: CircuitBreaker | undefined;
  #running = 0;

  constructor({ task, names = [], concurrency = Infinity, circuitBreaker }: WorkerLimits) {
    this.task = task;
    this.tasks = task === undefined ? [] : [task];
    this.names = names;
    this.#concurrency = concurrency;
    this.#breaker = circuitBreaker && new CircuitBreaker(circuitBreaker);
  }

  /** Returns a limiter, or `undefined` if there are no limits. */
  static of(limits: WorkerLimits): WorkLimiter | undefined {
    const isBounded = limits.concurrency !== undefined || limits.circuitBreaker !== undefined;
    return isBounded ? new WorkLimiter(limits) : undefined;
  }

  /** Returns how many more runs may start now. */
  capacity(nowMs: number): number {
    return Math.min(this.#concurrency - this.#running, this.#breaker?.capacity(nowMs) ?? Infinity);
  }

  claimable(nowMs: number, freeSlots: number): number {
    return Math.min(this.capacity(nowMs), freeSlots);
  }

  /** When the breaker allows a probe. `undefined`: capacity changes only when a run ends. */
  get availableAt(): number | undefined {
    return this.#breaker?.probeAt;
  }

  /** Counts a run as started. Call the returned function once, when its attempt has ended. */
  start(): (outcome: BreakerOutcome, nowMs: number) => void {
    this.#running += 1;
    const leave = this.#breaker?.start();
    return (outcome, nowMs) => {
      this.#running -= 1;
      leave?.(outcome, nowMs);
    };
  }
}

// Long enough to cost little with cheap handlers, short compared with the delay of a hint.
const sliceMs = 2;

/**
 * Spreads the starts of handlers over several event loop iterations. A cancel can then arrive between two starts.
 * Otherwise 100 handlers that each compute for 5 ms would start as one block of half a second.
 */
export class StartSlices {
  readonly #waiting: (() => void)[] = [];
  /** End of the current slice. `undefined` before the first start of an event loop iteration. */
  #endsAt: number | undefined;

  /** Returns `undefined` if a handler may start now, otherwise a promise that resolves when it may. */
  admit(): Promise<void> | undefined {
    if (this.#waiting.length === 0 && this.#hasTime()) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #hasTime(): boolean {
    const now = platform.monotonic();
    if (this.#endsAt !== undefined) return now < this.#endsAt;
    this.#endsAt = now + sliceMs;
    platform.setImmediate(() => void this.#nextSlice());
    return true;
  }

  async #nextSlice(): Promise<void> {
    this.#endsAt = undefined;
    while (this.#waiting.length > 0 && this.#hasTime()) {
      this.#waiting.shift()?.();
      // The handler runs in the microtask before this one, so the next clock reading includes its work.
      await Promise.resolve();
    }
  }
}
