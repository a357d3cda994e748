/** How much may be read for one answer. */
interface Bounds {
  /** No read begins once those before it brought this many bytes. */
  readonly maxBytes: number;
  /** Reads that are under way at once. */
  readonly atOnce: number;
}

/** Bounds what many reads for one answer bring into memory: `maxBytes`, and what the last `atOnce` of them add. */
export class BoundedReads {
  readonly #bounds: Bounds;
  readonly #queue: (() => void)[] = [];
  #underWay = 0;
  #bytes = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  /** Reads when there is room; `undefined` where the answer is full. */
  async read<Value>(
    work: () => Promise<Value>,
    bytesOf: (value: Value) => number,
  ): Promise<Value | undefined> {
    if (this.#underWay >= this.#bounds.atOnce) {
      await new Promise<void>((resolve) => void this.#queue.push(resolve));
    } else {
      this.#underWay += 1;
    }
    try {
      if (this.#bytes >= this.#bounds.maxBytes) return undefined;
      const value = await work();
      this.#bytes += bytesOf(value);
      return value;
    } finally {
      // The place passes to the next in line.
      const next = this.#queue.shift();
      if (next === undefined) this.#underWay -= 1;
      else next();
    }
  }
}
