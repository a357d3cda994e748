import type { LiveInstance } from './live-instance.ts';

interface Entry {
  readonly handle: LiveInstance['handle'];
  readonly operation: number;
  readonly fireAt: number;
}

// Below this many, what is outdated is not worth looking for.
const fewEntries = 1_024;

/**
 * The timers of live instances, the first due first, in a binary heap. Those that fired, were withdrawn or lost their
 * instance are left in place until they are due, or until they may be as many as the others. So are those of an
 * instance that is asked to stop, whose turns need a claim. None keeps its instance alive.
 */
export class WarmTimers {
  readonly #onFirst: (fireAt: number) => void;
  #heap: Entry[] = [];
  #sweepAt = fewEntries;

  /** `onFirst` is told of a timer that is due before all others. */
  constructor(onFirst: (fireAt: number) => void) {
    this.#onFirst = onFirst;
  }

  /** Adds a timer that a committed turn has set. */
  add(live: LiveInstance, operation: number, fireAt: number): void {
    if (this.#heap.length >= this.#sweepAt) this.#sweep();
    this.#heap.push({ handle: live.handle, operation, fireAt });
    this.#rise(this.#heap.length - 1);
    if (this.#heap[0]?.handle === live.handle && this.#heap[0].operation === operation)
      this.#onFirst(fireAt);
  }

  /** How many are kept, outdated ones included. */
  get size(): number {
    return this.#heap.length;
  }

  /** When the next timer is due; never, if there is none. */
  get nextAt(): number {
    this.#dropOutdated();
    return this.#heap[0]?.fireAt ?? Infinity;
  }

  /** Takes out up to so many instances that have a timer due; each may come more than once. */
  takeDue(nowMs: number, max: number): readonly LiveInstance[] {
    const due: LiveInstance[] = [];
    while (due.length < max && this.nextAt <= nowMs) {
      const first = this.#pop();
      if (first?.handle.live !== undefined) due.push(first.handle.live);
    }
    return due;
  }

  #dropOutdated(): void {
    for (let first = this.#heap[0]; first !== undefined; first = this.#heap[0]) {
      if (isPending(first)) return;
      this.#pop();
    }
  }

  #sweep(): void {
    // What is sorted is a heap.
    this.#heap = this.#heap.filter(isPending).sort((a, b) => a.fireAt - b.fireAt);
    this.#sweepAt = Math.max(2 * this.#heap.length, fewEntries);
  }

  #pop(): Entry | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (last !== undefined && heap.length > 0) {
      heap[0] = last;
      this.#sink();
    }
    return first;
  }

  #rise(from: number): void {
    const heap = this.#heap;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (this.#fireAt(above) <= this.#fireAt(at)) return;
      [heap[at], heap[above]] = [heap[above] as Entry, heap[at] as Entry];
      at = above;
    }
  }

  #sink(): void {
    const heap = this.#heap;
    for (let at = 0; ;) {
      const left = 2 * at + 1;
      const below = this.#fireAt(left + 1) < this.#fireAt(left) ? left + 1 : left;
      if (this.#fireAt(at) <= this.#fireAt(below)) return;
      [heap[at], heap[below]] = [heap[below] as Entry, heap[at] as Entry];
      at = below;
    }
  }

  #fireAt(index: number): number {
    return this.#heap[index]?.fireAt ?? Infinity;
  }
}

function isPending({ handle: { live }, operation, fireAt }: Entry): boolean {
  return live !== undefined && !live.execution.isCanceling && live.timers.get(operation) === fireAt;
}
