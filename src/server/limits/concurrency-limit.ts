import { rateLimited, unavailable } from '../http/errors.ts';

export interface ConcurrencyLimitParams {
  readonly max: number;
  readonly maxPerCaller: number;
  readonly maxQueued: number;
  readonly maxQueuedPerCaller: number;
}

interface Share {
  active: number;
  readonly queue: Set<() => void>;
}

/**
 * Bounds concurrent requests. Requests above the limit wait in a FIFO queue per caller; free capacity goes to the
 * callers round-robin. A caller at its own limit does not block others. A full queue rejects the request.
 */
export class ConcurrencyLimit {
  readonly #params: ConcurrencyLimitParams;
  /** Callers with active or queued requests, the one served longest ago first. */
  readonly #shares = new Map<string, Share>();
  #active = 0;
  #queued = 0;

  constructor(params: ConcurrencyLimitParams) {
    this.#params = params;
  }

  get active(): number {
    return this.#active;
  }

  get queued(): number {
    return this.#queued;
  }

  /** Resolves with a release function once there is capacity. Rejects if the signal aborts first. */
  async acquire(caller: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const share = this.#shareOf(caller);
    if (this.#hasCapacity(share)) this.#admit(share);
    else await this.#wait(caller, share, signal);
    let isActive = true;
    return () => {
      if (!isActive) return;
      isActive = false;
      share.active -= 1;
      this.#active -= 1;
      this.#forget(caller, share);
      this.#admitNext();
    };
  }

  #shareOf(caller: string): Share {
    const share = this.#shares.get(caller) ?? { active: 0, queue: new Set() };
    this.#shares.set(caller, share);
    return share;
  }

  #hasCapacity(share: Share): boolean {
    return this.#active < this.#params.max && share.active < this.#params.maxPerCaller;
  }

  #admit(share: Share): void {
    share.active += 1;
    this.#active += 1;
  }

  /** Admits the next queued request, round-robin by caller. */
  #admitNext(): void {
    for (const [caller, share] of this.#shares) {
      const [next] = share.queue;
      if (next === undefined || !this.#hasCapacity(share)) continue;
      this.#dequeue(share, next);
      // Counted before its promise resolves, so that no other request takes the capacity first.
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
    if (share.active === 0 && share.queue.size === 0) this.#shares.delete(caller);
  }

  #wait(caller: string, share: Share, signal: AbortSignal): Promise<void> {
    const { maxQueued, maxQueuedPerCaller } = this.#params;
    if (this.#queued >= maxQueued) {
      this.#forget(caller, share);
      throw unavailable(`The queue is full: ${maxQueued} requests are waiting.`);
    }
    if (share.queue.size >= maxQueuedPerCaller) {
      throw rateLimited(
        `The queue of this token is full: ${maxQueuedPerCaller} requests are waiting.`,
      );
    }
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#dequeue(share, onAdmitted);
        this.#forget(caller, share);
        reject(signal.reason as Error);
      };
      const onAdmitted = (): void => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      signal.addEventListener('abort', onAbort, { once: true });
      share.queue.add(onAdmitted);
      this.#queued += 1;
    });
  }
}

/** Bounds concurrent streams or long polls, in total and per caller. Has no queue. */
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

  /** Returns a release function. Throws 503 or 429 if a limit is reached. */
  acquire(caller: string): () => void {
    const own = this.#byCaller.get(caller) ?? 0;
    if (this.#taken >= this.#max) {
      throw unavailable(`The server is at its limit of ${this.#max} ${this.#what}.`);
    }
    if (own >= this.#maxPerCaller) {
      throw rateLimited(`This token is at its limit of ${this.#maxPerCaller} ${this.#what}.`);
    }
    this.#byCaller.set(caller, own + 1);
    this.#taken += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.#release(caller);
      isTaken = false;
    };
  }

  #release(caller: string): void {
    const left = (this.#byCaller.get(caller) ?? 1) - 1;
    if (left > 0) this.#byCaller.set(caller, left);
    else this.#byCaller.delete(caller);
    this.#taken -= 1;
  }
}
