import { setTimeout as delay } from 'node:timers/promises';

// What ends together is answered together: a few milliseconds save a request for each.
const gatherMs = 4;

/**
 * Waits for the first of many and gathers those that come with it; none when the time is up. The others are told by
 * the signal that nobody waits for them any more.
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

/** The most text of payloads in one answer. */
export const maxResponseLength = 8 * 1024 * 1024;

/**
 * Those of the things found that fit into one answer, at least one. For requests that can be made again: what is not
 * answered is found by the next one.
 */
export function pageByBytes<Found>(
  found: readonly Found[],
  lengthOf: (one: Found) => number,
): readonly Found[] {
  let length = 0;
  const last = found.findIndex((one) => {
    length += lengthOf(one);
    return length > maxResponseLength;
  });
  return last === -1 ? found : found.slice(0, Math.max(1, last));
}

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
