import { CircuitBreaker, type AttemptVerdict } from '../../tasks/circuit-breaker.ts';
import type { TaskDefinition } from '../../tasks/task.ts';

/** Bounds how many runs of one task a worker runs at once: by its concurrency, and by its circuit breaker. */
export class TaskGate {
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
  static of(task: TaskDefinition): TaskGate | undefined {
    const isBounded = task.concurrency !== undefined || task.circuitBreaker !== undefined;
    return isBounded ? new TaskGate(task) : undefined;
  }

  /** How many more runs may start now. */
  room(nowMs: number): number {
    return Math.min(this.#concurrency - this.#running, this.#breaker?.room(nowMs) ?? Infinity);
  }

  /** When time alone makes room; `undefined` when the end of a run does, or there is some. */
  get opensAt(): number | undefined {
    return this.#breaker?.opensAt;
  }

  /** Says that a run starts; the answer is to be told, once, how its attempt ended. */
  enter(): (verdict: AttemptVerdict, nowMs: number) => void {
    this.#running += 1;
    const leave = this.#breaker?.enter();
    return (verdict, nowMs) => {
      this.#running -= 1;
      leave?.(verdict, nowMs);
    };
  }
}
