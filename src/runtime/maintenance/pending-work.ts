/**
 * Counts promises until they settle, without holding them. A set would keep settled promises: V8 links the old table of a
 * set to the next one, until the next full garbage collection.
 */
export class PendingWork {
  #count = 0;
  #waiting: (() => void)[] = [];
  readonly #settled = (): void => {
    this.#count -= 1;
    if (this.#count === 0) for (const resolve of this.#waiting.splice(0)) resolve();
  };
  readonly #failed = (error: unknown): never => {
    this.#settled();
    throw error;
  };

  get size(): number {
    return this.#count;
  }

  /** Counts a promise. A rejection is reported as unhandled. */
  add(work: Promise<unknown>): void {
    this.#count += 1;
    void work.then(this.#settled, this.#failed);
  }

  /** Counts a promise whose rejection is handled elsewhere. */
  watch(work: Promise<unknown>): void {
    this.#count += 1;
    work.then(this.#settled, this.#settled);
  }

  /** Resolves when every counted promise has settled. */
  async idle(): Promise<void> {
    if (this.#count > 0) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
