import { rateLimited, unavailable } from '../http/errors.ts';

/** How many may be inside, and how many may wait, in all and for one caller. */
export interface ConcurrencyLimitParams {
  readonly max: number;
  readonly maxPerCaller: number;
  readonly maxQueued: number;
  readonly maxQueuedPerCaller: number;
}

/** What one caller has in a gate. */
interface Share {
  inside: number;
  readonly queue: Set<() => void>;
}

/**
 * Admits a bounded number of requests at once. Others wait: each caller in its own queue, in order, and the callers take
 * turns. A caller that has its share waits while others pass. What finds no place in a queue is refused.
 */
export class ConcurrencyLimit {
  readonly #params: ConcurrencyLimitParams;
  /** Callers that have something inside or queued; the one served longest ago comes first. */
  readonly #shares = new Map<string, Share>();
  #inside = 0;
  #queued = 0;

  constructor(params: ConcurrencyLimitParams) {
    this.#params = params;
  }

  get active(): number {
    return this.#inside;
  }

  get queued(): number {
    return this.#queued;
  }

  /** Resolves, once there is room, with how to leave again; rejects when the signal aborts first. */
  async acquire(caller: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const share = this.#shareOf(caller);
    if (this.#hasRoom(share)) this.#admit(share);
    else await this.#wait(caller, share, signal);
    let isInside = true;
    return () => {
      if (!isInside) return;
      isInside = false;
      share.inside -= 1;
      this.#inside -= 1;
      this.#forget(caller, share);
      this.#admitNext();
    };
  }

  #shareOf(caller: string): Share {
    const share = this.#shares.get(caller) ?? { inside: 0, queue: new Set() };
    this.#shares.set(caller, share);
    return share;
  }

  #hasRoom(share: Share): boolean {
    return this.#inside < this.#params.max && share.inside < this.#params.maxPerCaller;
  }

  #admit(share: Share): void {
    share.inside += 1;
    this.#inside += 1;
  }

  /** Gives free places to those who wait, one caller after the other. */
  #admitNext(): void {
    for (const [caller, share] of this.#shares) {
      const [next] = share.queue;
      if (next === undefined || !this.#hasRoom(share)) continue;
      this.#dequeue(share, next);
      // Admitted here and not when it wakes up, so that no other request slips in between.
      this.#admit(share);
      this.#shares.delete(caller);
      this.#shares.set(caller, share);
      next();
      return;
    }
  }

  #dequeue(share: Share, entry: () => void): void {
    if (share.queue.delete(entry)) this.#queued -= 1;
  }

  #forget(caller: string, share: Share): void {
    if (share.inside === 0 && share.queue.size === 0) this.#shares.delete(caller);
  }

  #wait(caller: string, share: Share, signal: AbortSignal): Promise<void> {
    const { maxQueued, maxQueuedPerCaller } = this.#params;
    if (this.#queued >= maxQueued) {
      this.#forget(caller, share);
      throw unavailable(`${maxQueued} requests wait already.`);
    }
    if (share.queue.size >= maxQueuedPerCaller) {
      throw rateLimited(`${maxQueuedPerCaller} requests of this token wait already.`);
    }
    return new Promise((resolve, reject) => {
      const giveUp = (): void => {
        this.#dequeue(share, enter);
        this.#forget(caller, share);
        reject(signal.reason as Error);
      };
      const enter = (): void => {
        signal.removeEventListener('abort', giveUp);
        resolve();
      };
      signal.addEventListener('abort', giveUp, { once: true });
      share.queue.add(enter);
      this.#queued += 1;
    });
  }
}

/** A number of seats, in all and for one caller; a request that finds none is refused. */
export class CapacityLimit {
  readonly #max: number;
  readonly #maxPerCaller: number;
  readonly #what: string;
  readonly #byCaller = new Map<string, number>();
  #taken = 0;

  constructor(max: number, maxPerCaller: number, what: string) {
    this.#max = max;
    this.#maxPerCaller = maxPerCaller;
    this.#what = what;
  }

  get taken(): number {
    return this.#taken;
  }

  /** Takes a seat, and returns how to give it back. */
  acquire(caller: string): () => void {
    const own = this.#byCaller.get(caller) ?? 0;
    if (this.#taken >= this.#max) {
      throw unavailable(`There are ${this.#max} ${this.#what} already.`);
    }
    if (own >= this.#maxPerCaller) {
      throw rateLimited(`This token has ${own} ${this.#what} already.`);
    }
    this.#byCaller.set(caller, own + 1);
    this.#taken += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#giveBack(caller);
      isTaken = false;
    };
  }

  #giveBack(caller: string): void {
    const left = (this.#byCaller.get(caller) ?? 1) - 1;
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
    this.#taken -= 1;
  }
}
