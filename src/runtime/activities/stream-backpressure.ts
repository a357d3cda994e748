import type { Clock } from '../../model/clock.ts';
import type { Hint } from '../../providers/contract/provider.ts';

/** Lets handlers wait until the reader of their stream has read on. */
export class StreamRoom {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the stream of a run may have room, after a time at the latest, or when the signal aborts. */
  wait(instanceId: string, ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(instanceId) ?? new Set();
      const wake = (): void => {
        waiting.delete(wake);
        if (waiting.size === 0) this.#waiting.delete(instanceId);
        cancelAlarm();
        signal.removeEventListener('abort', wake);
        resolve();
      };
      const cancelAlarm = this.#clock.setTimer(ms, wake);
      signal.addEventListener('abort', wake, { once: true });
      waiting.add(wake);
      this.#waiting.set(instanceId, waiting);
    });
  }

  onHint(hint: Hint): void {
    if (this.#waiting.size === 0) return;
    if (hint.kind === 'emitted') for (const id of hint.instanceIds) this.#wake(id);
    if (hint.kind === 'changed') for (const id of this.#waiting.keys()) this.#wake(id);
  }

  #wake(instanceId: string): void {
    for (const wake of this.#waiting.get(instanceId) ?? []) wake();
  }
}
