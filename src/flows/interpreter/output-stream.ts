/** Waits for a number of outputs in a row. */
interface Waiter {
  readonly until: number;
  readonly resolve: () => void;
}

/**
 * The outputs of the items of a step, by place. Those who fold them take them in order while later ones are still to
 * come; what nobody asks for as a whole is let go once it was taken by all.
 */
export class OutputStream {
  readonly #keepsAll: boolean;
  readonly #outputs: unknown[] = [];
  readonly #isThere: boolean[] = [];
  readonly #taken: number[] = [];
  #released = 0;
  /** How many from the start are there without a gap. */
  #ready = 0;
  #total: number | undefined;
  #waiters: Waiter[] = [];

  constructor(options: { readonly keepsAll: boolean; readonly readers: number }) {
    this.#keepsAll = options.keepsAll;
    this.#taken = Array.from({ length: options.readers }, () => 0);
  }

  get length(): number {
    return this.#outputs.length;
  }

  set(index: number, output: unknown): void {
    // JSON has no `undefined` in arrays, and these are passed on as one.
    this.#outputs[index] = output === undefined ? null : output;
    this.#isThere[index] = true;
    while (this.#isThere[this.#ready] === true) this.#ready += 1;
    this.#wake();
  }

  /** No more will come than these. */
  end(total: number): void {
    this.#total = total;
    this.#wake();
  }

  /** Up to `max` outputs from a place on, as soon as that many or the last ones are there; none at the end. */
  async take(reader: number, max: number): Promise<readonly unknown[]> {
    const from = this.#taken[reader] ?? 0;
    const until = from + max;
    if (!this.#has(until)) {
      await new Promise<void>((resolve) => void this.#waiters.push({ until, resolve }));
    }
    const taken = this.#outputs.slice(from, Math.min(until, this.#ready));
    this.#taken[reader] = from + taken.length;
    this.#release();
    return taken;
  }

  /** All outputs in order, for a stream that keeps them. */
  all(): readonly unknown[] {
    return this.#outputs;
  }

  #has(until: number): boolean {
    return this.#ready >= until || this.#ready === this.#total;
  }

  #wake(): void {
    if (this.#waiters.length === 0) return;
    const woken = this.#waiters.filter(({ until }) => this.#has(until));
    if (woken.length === 0) return;
    this.#waiters = this.#waiters.filter((waiter) => !woken.includes(waiter));
    for (const { resolve } of woken) resolve();
  }

  #release(): void {
    if (this.#keepsAll) return;
    const end = Math.min(...this.#taken);
    for (; this.#released < end; this.#released += 1) this.#outputs[this.#released] = undefined;
  }
}
