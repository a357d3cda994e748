/** A counting semaphore: at most `max` holders, first come, first served. */
export class FairSlots {
  #free: number;
  readonly #max: number;
  readonly #waiting: (() => void)[] = [];
  readonly #idle: (() => void)[] = [];

  constructor(max: number) {
    this.#max = max;
    this.#free = max;
  }

  /** Resolves with a function that gives the slot back. Rejects with the reason of the signal. */
  async take(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#wait(signal);
    let isHeld = true;
    return () => {
      if (isHeld) this.#release();
      isHeld = false;
    };
  }

  /** Resolves when no slot is taken. */
  idle(): Promise<void> {
    if (this.#free === this.#max) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const admit = (): void => {
        signal?.removeEventListener('abort', leave);
        resolve();
      };
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(admit), 1);
        reject(signal?.reason as Error);
      };
      signal?.addEventListener('abort', leave, { once: true });
      this.#waiting.push(admit);
    });
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next !== undefined) {
      next();
      return;
    }
    this.#free += 1;
    if (this.#free === this.#max) for (const idle of this.#idle.splice(0)) idle();
  }
}
