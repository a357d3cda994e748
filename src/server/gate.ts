import { unavailable } from './refusal.ts';

/** Lets so many in at once; some more wait for their turn, in order, and the others are refused. */
export class Gate {
  readonly #max: number;
  readonly #maxQueued: number;
  readonly #queue = new Set<() => void>();
  #inside = 0;

  constructor(max: number, maxQueued: number) {
    this.#max = max;
    this.#maxQueued = maxQueued;
  }

  get inside(): number {
    return this.#inside;
  }

  get queued(): number {
    return this.#queue.size;
  }

  /** Resolves, once there is room, with how to leave again; rejects when the signal aborts first. */
  async enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#inside >= this.#max) {
      if (this.#queue.size >= this.#maxQueued) throw unavailable('Too many requests wait already.');
      await this.#wait(signal);
    } else {
      this.#inside += 1;
    }
    let isInside = true;
    return () => {
      if (isInside) this.#leave();
      isInside = false;
    };
  }

  // Whoever leaves hands the place on, so nobody can slip in between.
  #leave(): void {
    const [next] = this.#queue;
    if (next === undefined) {
      this.#inside -= 1;
      return;
    }
    this.#queue.delete(next);
    next();
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#queue.delete(enter);
        reject(signal.reason as Error);
      };
      const enter = (): void => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      signal.addEventListener('abort', giveUp, { once: true });
      this.#queue.add(enter);
    });
  }
}

/** So many seats; who finds none is refused. */
export class Seats {
  readonly #max: number;
  readonly #what: string;
  #taken = 0;

  constructor(max: number, what: string) {
    this.#max = max;
    this.#what = what;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Takes a seat, and answers how to give it back. */
  take(): () => void {
    if (this.#taken >= this.#max)
      throw unavailable(`There are ${this.#max} ${this.#what} already.`);
    this.#taken += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#taken -= 1;
      isTaken = false;
    };
  }
}
