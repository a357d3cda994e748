/** Thrown when an item of a map or generator fails. */
export class ItemError extends Error {
  readonly index: number;
  readonly item: unknown;

  constructor(index: number, item: unknown, cause: unknown) {
    super(`Item ${index} failed.`, { cause });
    this.index = index;
    this.item = item;
  }
}

/** Runs the items of a map or generator in order, with limited concurrency. Constant work per item. */
export class ItemRuns {
  /** Resolves after `complete` was called and all items have completed. Rejects with the first `ItemError`. */
  readonly done: Promise<void>;
  readonly #concurrency: number;
  readonly #run: (item: unknown, index: number) => Promise<unknown>;
  readonly #onOutput: (index: number, output: unknown) => void;
  readonly #settle: { resolve(): void; reject(error: unknown): void };
  readonly #items: unknown[] = [];
  #started = 0;
  #inFlight = 0;
  #isComplete = false;
  #hasFailed = false;

  constructor(options: {
    readonly concurrency: number;
    readonly run: (item: unknown, index: number) => Promise<unknown>;
    readonly onOutput: (index: number, output: unknown) => void;
  }) {
    this.#concurrency = options.concurrency;
    this.#run = options.run;
    this.#onOutput = options.onOutput;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.done = promise;
    this.#settle = { resolve, reject };
  }

  /** The number of items added so far. */
  get count(): number {
    return this.#items.length;
  }

  add(items: readonly unknown[]): void {
    for (const item of items) this.#items.push(item);
    this.#fill();
  }

  /** Call after the last item was added. */
  complete(): void {
    this.#isComplete = true;
    this.#fill();
  }

  #fill(): void {
    while (
      !this.#hasFailed &&
      this.#inFlight < this.#concurrency &&
      this.#started < this.#items.length
    ) {
      this.#start(this.#started);
      this.#started += 1;
    }
    if (this.#isComplete && this.#inFlight === 0 && !this.#hasFailed) this.#settle.resolve();
  }

  #start(index: number): void {
    this.#inFlight += 1;
    const item = this.#items[index];
    this.#run(item, index).then(
      (output) => this.#completed(index, output),
      (error: unknown) => this.#failed(new ItemError(index, item, error)),
    );
  }

  #completed(index: number, output: unknown): void {
    this.#items[index] = undefined;
    this.#inFlight -= 1;
    this.#onOutput(index, output);
    this.#fill();
  }

  #failed(error: ItemError): void {
    this.#hasFailed = true;
    this.#settle.reject(error);
  }
}

/** A reader that waits for the first `until` outputs. */
interface Waiter {
  readonly until: number;
  readonly resolve: () => void;
}

/**
 * The outputs of a step's items, by index. Reduces read them in order while the step runs. Unless `keepsAll` is set, an
 * output is released once every reader has taken it.
 */
export class OutputStream {
  readonly #keepsAll: boolean;
  readonly #outputs: unknown[] = [];
  readonly #isThere: boolean[] = [];
  readonly #taken: number[] = [];
  #released = 0;
  /** The number of outputs from the start without a gap. */
  #ready = 0;
  #total: number | undefined;
  #waiters: Waiter[] = [];

  constructor(options: { readonly keepsAll: boolean; readonly readers: number }) {
    this.#keepsAll = options.keepsAll;
    this.#taken = Array.from({ length: options.readers }, () => 0);
  }

  set(index: number, output: unknown): void {
    // The outputs are passed on as an array, and JSON has no `undefined` in arrays.
    this.#outputs[index] = output === undefined ? null : output;
    this.#isThere[index] = true;
    while (this.#isThere[this.#ready] === true) this.#ready += 1;
    this.#wake();
  }

  /** Call when all `total` outputs were set. */
  end(total: number): void {
    this.#total = total;
    this.#wake();
  }

  /** Resolves with the reader's next `max` outputs, or fewer at the end; with none after the last. */
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

  /** Returns all outputs in order. Complete only with `keepsAll`. */
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
