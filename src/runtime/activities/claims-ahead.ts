import type { Clock } from '../../model/clock.ts';
import type { ActivityRun } from './activity-run.ts';

/** A run that was claimed before a slot was free. */
export interface PlaceAhead {
  readonly run: ActivityRun;
  /** Resolves when the run has a slot. */
  readonly granted: Promise<void>;
  /** Whether the run has a slot. */
  hasSlot: boolean;
}

interface Waiting extends PlaceAhead {
  readonly since: number;
  readonly grant: () => void;
}

// A claim of 500 costs less per run than one of 300. With 100 slots, empty runs took 0.65 × the time with claims ahead.
const minBatch = 500;
// One claim is under way while the rest of the last one waits.
const maxAhead = minBatch * 1.5;
// Claim ahead after this many consecutive runs that held their slots for at most `fastMs`. Then 100 slots start
// `maxAhead` runs before they are handed back.
const enoughRuns = 32;
const fastMs = 25;
// A run without a slot is handed back after this time: another worker may have a free one.
const handBackMs = 250;

/**
 * Claims runs before a slot is free, while handlers end within milliseconds. The store then processes the next claim while
 * this process runs the handlers of the last one.
 *
 * A waiting run has its lease and gets cancels like a running one. It starts only with a slot, and only if it is neither
 * canceled nor lost. It is handed back when the worker stops, and after `handBackMs` without a slot.
 */
export class ClaimsAhead {
  readonly #clock: Clock;
  readonly #waiting = new Set<Waiting>();
  #fastRuns = 0;
  #cancelTimer: (() => void) | undefined;
  #onRoom: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** How many items may be claimed without a free slot. */
  get room(): number {
    const room = maxAhead - this.#waiting.size;
    return this.isFast && room >= minBatch ? room : 0;
  }

  /** Whether the last runs ended within milliseconds. */
  get isFast(): boolean {
    return this.#fastRuns >= enoughRuns;
  }

  /** Sets the listener that is called when there is room again. There is only one. */
  onRoom(listener: () => void): void {
    this.#onRoom = listener;
  }

  /** Counts a run that has held a slot for `ms`. */
  ended(ms: number): void {
    this.#fastRuns = ms <= fastMs ? this.#fastRuns + 1 : 0;
  }

  add(run: ActivityRun): PlaceAhead {
    const { promise: granted, resolve: grant } = Promise.withResolvers<void>();
    const place = { run, granted, grant, hasSlot: false, since: this.#clock.monotonic() };
    this.#waiting.add(place);
    this.#cancelTimer ??= this.#clock.setTimer(handBackMs, () => this.#handBackOld());
    return place;
  }

  /** Gives a slot to the run that has waited longest. Returns `false` if none waits. */
  grantNext(): boolean {
    const [next] = this.#waiting;
    if (next === undefined) return false;
    this.#delete(next);
    next.hasSlot = true;
    next.grant();
    return true;
  }

  /** A run has ended without a slot. */
  leave(place: PlaceAhead): void {
    this.#delete(place as Waiting);
  }

  /** Hands all waiting runs back. */
  handBack(): void {
    for (const { run } of this.#waiting) run.abandon();
  }

  #delete(place: Waiting): void {
    const hadRoom = this.room > 0;
    this.#waiting.delete(place);
    if (this.#waiting.size === 0) {
      this.#cancelTimer?.();
      this.#cancelTimer = undefined;
    }
    if (!hadRoom && this.room > 0) this.#onRoom();
  }

  #handBackOld(): void {
    this.#cancelTimer = undefined;
    const now = this.#clock.monotonic();
    const old = [...this.#waiting].filter(({ since }) => now - since >= handBackMs);
    if (old.length < this.#waiting.size) {
      this.#cancelTimer = this.#clock.setTimer(handBackMs, () => this.#handBackOld());
    }
    if (old.length > 0) this.#fastRuns = 0;
    for (const { run } of old) run.abandon();
  }
}
