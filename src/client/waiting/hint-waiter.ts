import { systemClock, type Clock } from '../../model/clock.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';

interface Watch {
  /** Whether a hint concerns it. */
  readonly concerns: (hint: Hint) => boolean;
  readonly resolve: () => void;
}

/** Tells when it is time to look again: something may have happened, or long enough has passed that hints may be lost. */
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
    /** Decides when to look without a hint: not the injected clock, which may skip a month. */
    readonly recheckClock?: Clock;
  }) {
    this.#provider = params.provider;
    this.#recheckMs = params.recheckMs ?? 1_000;
    this.#clock = params.recheckClock ?? systemClock;
  }

  /** Begins to listen at once; resolves at the next news, or when the signal aborts. Call `end` if you do not wait. */
  next(
    concerns: (hint: Hint) => boolean,
    signal: AbortSignal,
  ): { readonly come: Promise<void>; readonly end: () => void } {
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
    return { come: promise, end };
  }

  #add(watch: Watch): void {
    this.#watches.add(watch);
    this.#stopListening ??= this.#provider.hints((hint) => this.#tell(hint));
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

  #tell(hint: Hint): void {
    for (const watch of this.#watches) {
      if (hint.kind === 'changed' || watch.concerns(hint)) watch.resolve();
    }
  }
}
