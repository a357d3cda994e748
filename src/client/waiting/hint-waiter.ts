import { systemClock, type Clock } from '../../model/clock.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';

interface Watch {
  /** Whether a hint may mean a change. */
  readonly concerns: (hint: Hint) => boolean;
  readonly resolve: () => void;
}

/** Resolves waits at the next matching hint, or after `recheckMs` in case hints were lost. */
export class HintWaiter {
  readonly #provider: Provider;
  readonly #recheckMs: number;
  readonly #clock: Clock;
  readonly #watches = new Set<Watch>();
  #stopListening: (() => void) | undefined;
  #cancelRecheck: (() => void) | undefined;

  constructor(params: {
    readonly provider: Provider;
    readonly recheckMs?: number | undefined;
    /** Times the polls without a hint. Not the injected clock, which may skip a month. */
    readonly recheckClock?: Clock;
  }) {
    this.#provider = params.provider;
    this.#recheckMs = params.recheckMs ?? 1_000;
    this.#clock = params.recheckClock ?? systemClock;
  }

  /** Starts to listen; `arrived` resolves at the next hint or when the signal aborts. Call `end` to stop listening. */
  next(
    concerns: (hint: Hint) => boolean,
    signal: AbortSignal,
  ): { readonly arrived: Promise<void>; readonly end: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>();
    const watch: Watch = { concerns, resolve: () => end() };
    const end = (): void => {
      signal.removeEventListener('abort', end);
      this.#remove(watch);
      resolve();
    };
    this.#add(watch);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end);
    return { arrived: promise, end };
  }

  #add(watch: Watch): void {
    this.#watches.add(watch);
    this.#stopListening ??= this.#provider.hints((hint) => this.#resolveMatching(hint));
    this.#cancelRecheck ??= this.#setRecheck();
  }

  #remove(watch: Watch): void {
    this.#watches.delete(watch);
    if (this.#watches.size > 0) return;
    this.#cancelRecheck?.();
    this.#cancelRecheck = undefined;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  #setRecheck(): () => void {
    return this.#clock.setTimer(this.#recheckMs, () => {
      this.#cancelRecheck = undefined;
      for (const watch of this.#watches) watch.resolve();
    });
  }

  #resolveMatching(hint: Hint): void {
    for (const watch of this.#watches) {
      if (hint.kind === 'changed' || watch.concerns(hint)) watch.resolve();
    }
  }
}
