import { systemClock, type Clock } from '../model/clock.ts';
import { isPerdureError, type ProviderError } from '../model/failures/errors.ts';

const firstPauseMs = 5;
const longestPauseMs = 5_000;

/** How long to go on, and by which clock to pause. */
export interface RetryOptions {
  readonly signal: AbortSignal;
  /** Default: the machine's own. A store that is busy has nothing to do with the time that runs are reckoned by. */
  readonly clock?: Clock | undefined;
}

/** Makes a call again while that may help, with growing pauses, until its scope ends. */
export async function retrying<Value>(
  scope: RetryOptions,
  call: () => Promise<Value>,
): Promise<Value> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (scope.signal.aborted || !mayHelpAgain(error)) throw error;
    }
    const limitMs = Math.min(longestPauseMs, firstPauseMs * 2 ** attempt);
    // Clients that lost one server together must not come back together.
    await pause(scope, limitMs * (0.5 + Math.random() / 2));
  }
}

/** Whether the same call may succeed when it is made again; one that may have happened finds that then. */
function mayHelpAgain(error: unknown): boolean {
  if (!isPerdureError(error)) return false;
  const { retryable, outcomeUnknown } = error as Partial<ProviderError>;
  return retryable === true || outcomeUnknown === true;
}

/** Resolves after so long, or as soon as the scope ends. */
export function pause({ signal, clock = systemClock }: RetryOptions, ms: number): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      cancelAlarm();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancelAlarm = clock.setTimer(ms, end);
    signal.addEventListener('abort', end);
  });
}
