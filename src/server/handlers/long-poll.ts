import { setTimeout as delay } from 'node:timers/promises';

// Collects values that settle shortly after the first one, which saves further requests.
const gatherMs = 4;

/**
 * Waits until one of several promises settles. Returns every value settled by then, or none after `timeoutMs`.
 * Aborts the signal passed to `begin` before it returns.
 */
export async function firstSettled<Value>(
  timeoutMs: number,
  outer: AbortSignal,
  begin: (signal: AbortSignal) => readonly Promise<Value>[],
): Promise<readonly Value[]> {
  const controller = new AbortController();
  const end = (): void => controller.abort(outer.reason);
  outer.addEventListener('abort', end, { once: true });
  const settled: Value[] = [];
  const { promise: first, resolve } = Promise.withResolvers<void>();
  const { promise: failed, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(resolve, timeoutMs);
  try {
    outer.throwIfAborted();
    const watch = async (promise: Promise<Value>): Promise<void> => {
      try {
        settled.push(await promise);
      } catch (error) {
        if (!controller.signal.aborted) reject(error);
      }
      resolve();
    };
    for (const promise of begin(controller.signal)) void watch(promise);
    await Promise.race([first, failed]);
    if (settled.length > 0) await Promise.race([delay(gatherMs), failed]);
    return settled;
  } finally {
    clearTimeout(timer);
    outer.removeEventListener('abort', end);
    failed.catch(() => undefined);
    controller.abort();
  }
}

/** Maximum length of the payloads in one response, in characters. */
export const maxResponseLength = 8 * 1024 * 1024;

/**
 * Returns the leading items that fit into one response, at least one. The caller gets the others with its next
 * request.
 */
export function pageByBytes<Item>(
  items: readonly Item[],
  lengthOf: (item: Item) => number,
): readonly Item[] {
  let length = 0;
  const end = items.findIndex((item) => {
    length += lengthOf(item);
    return length > maxResponseLength;
  });
  return end === -1 ? items : items.slice(0, Math.max(1, end));
}

interface Bounds {
  /** No read starts once the earlier ones returned this many bytes. */
  readonly maxBytes: number;
  readonly concurrency: number;
}

/** Bounds the memory of the reads for one response: `maxBytes` plus `concurrency` results. */
export class BoundedReads {
  readonly #bounds: Bounds;
  readonly #queue: (() => void)[] = [];
  #active = 0;
  #bytes = 0;

  constructor(bounds: Bounds) {
    this.#bounds = bounds;
  }

  /** Runs a read once there is capacity. Returns `undefined` if the response is full. */
  async read<Value>(
    work: () => Promise<Value>,
    bytesOf: (value: Value) => number,
  ): Promise<Value | undefined> {
    if (this.#active >= this.#bounds.concurrency) {
      await new Promise<void>((resolve) => void this.#queue.push(resolve));
    } else {
      this.#active += 1;
    }
    try {
      if (this.#bytes >= this.#bounds.maxBytes) return undefined;
      const value = await work();
      this.#bytes += bytesOf(value);
      return value;
    } finally {
      // Pass the capacity to the next read.
      const next = this.#queue.shift();
      if (next === undefined) this.#active -= 1;
      else next();
    }
  }
}
