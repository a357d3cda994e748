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
