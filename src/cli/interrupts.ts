import { interrupted } from './cli-error.ts';

/** Rejects with an interruption as soon as the signal aborts. */
export async function orInterrupted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const done = new AbortController();
  try {
    return await Promise.race([
      work,
      new Promise<never>((_, reject) => {
        const stop = (): void => reject(interrupted());
        if (signal.aborted) stop();
        signal.addEventListener('abort', stop, { signal: done.signal });
      }),
    ]);
  } finally {
    done.abort();
  }
}
