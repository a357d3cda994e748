import { afterMicrotasks, enterMicrotask } from './event-loop.ts';

/** What waits until the code has come to rest. */
export interface AtRest {
  /** Whether something waits. */
  hasWaiting(): boolean;
  /** Does what can be done now; answers whether that woke the code. */
  wake(): boolean;
}

/** The time in which orchestration code may act: from an event until the microtasks it caused have run. */
export class TurnWindow {
  readonly #atRest: AtRest;
  #isOpen = false;
  #resume: () => void = () => undefined;

  constructor(atRest: AtRest) {
    this.#atRest = atRest;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  open(): void {
    this.#isOpen = true;
  }

  close(): void {
    this.#isOpen = false;
  }

  /** Waits until the code has come to rest, and nothing wakes it again, then closes. To be called from a microtask. */
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
    if (this.#atRest.hasWaiting()) void enterMicrotask().then(this.#goOn);
    else this.#resume();
  };

  readonly #goOn = (): void => {
    this.#isOpen = true;
    if (this.#atRest.wake()) {
      afterMicrotasks(this.#closeAndResume);
    } else {
      this.#isOpen = false;
      this.#resume();
    }
  };
}
