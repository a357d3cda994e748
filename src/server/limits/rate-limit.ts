interface Bucket {
  tokens: number;
  refilledAt: number;
}

// Bounds the memory under requests from many addresses: the bucket unused for longest is dropped.
const maxBuckets = 10_000;

/** Token bucket per key: `count` requests per `periodMs`, with a burst of `burst` times `count`. */
export class RateLimit {
  readonly #perMs: number;
  readonly #capacity: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(count: number, periodMs: number, burst = 1) {
    this.#perMs = count / periodMs;
    this.#capacity = count * burst;
  }

  /** Takes a token. Returns false, and takes nothing, if the bucket is empty. */
  take(key: string, nowMs = performance.now()): boolean {
    const bucket = this.#buckets.get(key) ?? { tokens: this.#capacity, refilledAt: nowMs };
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    if (this.#buckets.size > maxBuckets) this.#dropOldest();
    const refill = (nowMs - bucket.refilledAt) * this.#perMs;
    bucket.tokens = Math.min(this.#capacity, bucket.tokens + refill);
    bucket.refilledAt = nowMs;
    if (bucket.tokens < 1) return false;
    bucket.tokens -= 1;
    return true;
  }

  /** Milliseconds from the last `take` of a key until its bucket has a token. */
  refillMs(key: string): number {
    const { tokens } = this.#buckets.get(key) ?? { tokens: this.#capacity };
    return Math.max(0, 1 - tokens) / this.#perMs;
  }

  #dropOldest(): void {
    const [oldest] = this.#buckets.keys();
    if (oldest !== undefined) this.#buckets.delete(oldest);
  }
}
