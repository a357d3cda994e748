/** One item failed. */
export class ItemError extends Error {
  readonly index: number;
  readonly item: unknown;

  constructor(index: number, item: unknown, cause: unknown) {
    super(`Item ${index} failed.`, { cause });
    this.index = index;
    this.item = item;
  }
}

/** Runs the items of a map or generator, a bounded number at a time, in order; the work per item does not grow with their number. */
export class ItemRuns {
  /** Resolves when no more items come and all have completed; rejects with the first failure. */
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

  /** How many items there are so far. */
  get count(): number {
    return this.#items.length;
  }

  add(items: readonly unknown[]): void {
    for (const item of items) this.#items.push(item);
    this.#fill();
  }

  /** No more items will come. */
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
