interface Bucket {
  left: number;
  filledAt: number;
}

// Somebody who comes from everywhere must not fill the memory: the bucket unused for longest goes first.
const maxBuckets = 10_000;

/** Lets each key do something so often in a time, and twice as often at once. */
export class RateLimit {
  readonly #perMs: number;
  readonly #capacity: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(count: number, periodMs: number, burst = 1) {
    this.#perMs = count / periodMs;
    this.#capacity = count * burst;
  }

  /** Whether one more is within the limit; only then it counts. */
  take(key: string, nowMs = performance.now()): boolean {
    const bucket = this.#buckets.get(key) ?? { left: this.#capacity, filledAt: nowMs };
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    if (this.#buckets.size > maxBuckets) this.#forgetOldest();
    bucket.left = Math.min(this.#capacity, bucket.left + (nowMs - bucket.filledAt) * this.#perMs);
    bucket.filledAt = nowMs;
    if (bucket.left < 1) return false;
    bucket.left -= 1;
    return true;
  }

  #forgetOldest(): void {
    const [oldest] = this.#buckets.keys();
    if (oldest !== undefined) this.#buckets.delete(oldest);
  }
}
