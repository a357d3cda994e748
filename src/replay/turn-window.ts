import { afterMicrotasks } from './event-loop.ts';

/** The time in which orchestration code may act: from an event until the microtasks it caused have run. */
export class TurnWindow {
  #isOpen = false;
  #resume: () => void = () => undefined;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  open(): void {
    this.#isOpen = true;
  }

  close(): void {
    this.#isOpen = false;
  }

  /** Waits until the code has come to rest, then closes. To be called from a microtask. */
  drain(): Promise<void> {
    return new Promise(this.#queueClose);
  }

  readonly #queueClose = (resolve: () => void): void => {
    this.#resume = resolve;
    afterMicrotasks(this.#closeAndResume);
  };

  // Closes in the tick itself: what other ticks of the same round do is already outside.
  readonly #closeAndResume = (): void => {
    this.#isOpen = false;
    this.#resume();
  };
}
