const isNode =
  (globalThis as { process?: { versions?: { node?: unknown } } }).process?.versions?.node !==
  undefined;

/** How long the server may let a poll wait. Browsers share few connections, so there polls take turns more often. */
export const pollMs = isNode ? 25_000 : 5_000;

/** Browsers open six connections to a server; two are left for everything that must get through. */
const browserSlots = 4;

/** Bounds how many polls are under way at once, first come, first served. */
export class PollSlots {
  readonly #waiting: (() => void)[] = [];
  #free: number;

  constructor(count = isNode ? Number.POSITIVE_INFINITY : browserSlots) {
    this.#free = count;
  }

  /** Does something when there is a slot for it. */
  async hold<Value>(work: () => Promise<Value>): Promise<Value> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free += 1;
      else next();
    }
  }
}
