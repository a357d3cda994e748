import type { Clock } from './clock.ts';

export interface PeriodicLoopParams {
  readonly clock: Clock;
  /** Does what is due and answers how long to sleep. */
  readonly round: () => Promise<number>;
  readonly onError: (error: unknown) => void;
}

const errorPauseMs = 1_000;

/**
 * Goes round again and again, one round at a time, and sleeps in between: as long as the last round said, or until the
 * earliest time that somebody asked for. Nothing happens before the start.
 */
export class PeriodicLoop {
  readonly #params: PeriodicLoopParams;
  #cancelAlarm: (() => void) | undefined;
  #alarmAt = Infinity;
  #going: Promise<void> | undefined;
  #isWanted = false;
  #isOn = false;

  constructor(params: PeriodicLoopParams) {
    this.#params = params;
  }

  /** The first round begins at once. */
  start(): void {
    this.#isOn = true;
    this.#go();
  }

  /** Resolves once the round that is under way has ended. */
  async stop(): Promise<void> {
    this.#isOn = false;
    this.#cancelAlarm?.();
    await this.#going;
  }

  /** The next round begins within this time; one that is under way is followed by another. */
  wakeIn(delayMs: number): void {
    const { clock } = this.#params;
    const atMs = clock.monotonic() + delayMs;
    if (!this.#isOn || atMs >= this.#alarmAt) return;
    this.#cancelAlarm?.();
    this.#alarmAt = atMs;
    this.#cancelAlarm = clock.setTimer(delayMs, () => {
      this.#alarmAt = Infinity;
      if (this.#going === undefined) this.#go();
      else this.#isWanted = true;
    });
  }

  #go(): void {
    this.#isWanted = false;
    this.#going = this.#goOnce();
  }

  async #goOnce(): Promise<void> {
    const { round, onError } = this.#params;
    let waitMs = errorPauseMs;
    try {
      waitMs = await round();
    } catch (error) {
      onError(error);
    }
    this.#going = undefined;
    this.wakeIn(this.#isWanted ? 0 : waitMs);
  }
}
