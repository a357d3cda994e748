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
