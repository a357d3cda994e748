import { checkName } from './names.ts';
import type { Payload } from './payload.ts';

/** The value of one key of the state of an instance. */
export interface StateValue {
  readonly key: string;
  readonly payload: Payload;
}

/** Bounds of the state of one instance. */
export interface StateLimits {
  /** Maximum number of keys. */
  readonly keys: number;
  /** Maximum size of a value as JSON, in bytes. */
  readonly valueBytes: number;
}

/** Default bounds: 256 keys of 64 KiB each. */
export const defaultStateLimits: StateLimits = { keys: 256, valueBytes: 64 * 1024 };

/** Returns a valid key: the rules of names apply. Throws `INVALID_NAME` otherwise. */
export function checkStateKey(key: unknown): string {
  return checkName(key, 'State key');
}

// Measured: a map with one entry, and each further entry.
const mapBytes = 400;
const entryBytes = 100;

/** The state of an instance at one position of its history. Not shared: each execution computes its own. */
export class StateValues {
  readonly #payloads = new Map<string, Payload>();
  #chars = 0;

  constructor(values: readonly StateValue[] = []) {
    for (const { key, payload } of values) this.apply(key, payload);
  }

  get size(): number {
    return this.#payloads.size;
  }

  /** Estimated memory use. */
  get sizeBytes(): number {
    return this.size === 0 ? 0 : mapBytes + this.size * entryBytes + this.#chars;
  }

  has(key: string): boolean {
    return this.#payloads.has(key);
  }

  get(key: string): Payload | undefined {
    return this.#payloads.get(key);
  }

  /** The keys, in the order of their first set. */
  keys(): readonly string[] {
    return [...this.#payloads.keys()];
  }

  /** Applies a recorded change: `null` deletes the key. */
  apply(key: string, payload: Payload | null): void {
    const before = this.#payloads.get(key);
    if (before !== undefined) this.#chars -= key.length + before.length;
    if (payload === null) {
      this.#payloads.delete(key);
      return;
    }
    this.#payloads.set(key, payload);
    this.#chars += key.length + payload.length;
  }

  /** All values, for the next execution. */
  values(): readonly StateValue[] {
    return [...this.#payloads].map(([key, payload]) => ({ key, payload }));
  }
}
