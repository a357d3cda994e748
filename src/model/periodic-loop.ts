import type { Clock } from './clock.ts';

export interface PeriodicLoopParams {
  readonly clock: Clock;
  /** Does the work that is due. Resolves with the delay until the next round, in milliseconds. */
  readonly round: () => Promise<number>;
  readonly onError: (error: unknown) => void;
}

const errorPauseMs = 1_000;

/**
 * Runs `round` in a loop, never concurrently. Between rounds it sleeps for the delay that the last round returned, or until
 * the earliest `wakeIn`. A round that rejects is retried after 1 s.
 */
export class PeriodicLoop {
  readonly #params: PeriodicLoopParams;
  #cancelAlarm: (() => void) | undefined;
  #alarmAt = Infinity;
  #running: Promise<void> | undefined;
  #isRequested = false;
  #isStarted = false;

  constructor(params: PeriodicLoopParams) {
    this.#params = params;
  }

  /** Starts the first round immediately. */
  start(): void {
    this.#isStarted = true;
    this.#run();
  }

  /** Stops the loop. Resolves once the current round has ended. */
  async stop(): Promise<void> {
    this.#isStarted = false;
    this.#cancelAlarm?.();
    await this.#running;
  }

  /** Starts the next round within `delayMs`. A round that is running then is followed by another. */
  wakeIn(delayMs: number): void {
    const { clock } = this.#params;
    const atMs = clock.monotonic() + delayMs;
    if (!this.#isStarted || atMs >= this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#alarmAt = atMs;
    this.#cancelAlarm = clock.setTimer(delayMs, () => {
      this.#alarmAt = Infinity;
      if (this.#running === undefined) this.#run();
      else this.#isRequested = true;
    });
  }

  #run(): void {
    this.#isRequested = false;
    this.#running = this.#runRound();
  }

  async #runRound(): Promise<void> {
    const { round, onError } = this.#params;
    let waitMs = errorPauseMs;
    try {
      waitMs = await round();
    } catch (error) {
      onError(error);
    }
    this.#running = undefined;
    this.wakeIn(this.#isRequested ? 0 : waitMs);
  }
}
