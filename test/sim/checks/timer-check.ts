import { decodeEvent, type StoredEvent } from '../../../src/model/event.ts';
import type { World } from '../engine/scheduler.ts';

interface Timer {
  readonly durationMs: number;
  /** The time of the world at which its turn was decided, and not later than its commit. */
  readonly since: number;
}

/** The store's clock is read in whole milliseconds. */
const roundingMs = 2;

/** Checks that no timer of an orchestration fires before its duration has passed by the world's clock. */
export class TimerCheck {
  readonly #world: World;
  readonly #now: () => number;
  readonly #timers = new Map<string, Timer>();

  /** `now`: the store's clock, which timers use. */
  constructor(world: World, now: () => number) {
    this.#world = world;
    this.#now = now;
  }

  /** Observes the events of a committed turn. `execution` has no operation number. */
  committed(execution: string, events: readonly StoredEvent[]): void {
    for (const stored of events) {
      if (!stored.kind.startsWith('timer')) continue;
      const event = decodeEvent(stored);
      if (event.kind === 'timerCreated' && event.absolute !== true) {
        // A duration counts from the time that the code saw, which can be earlier than the commit.
        const agoMs = Math.max(0, this.#now() - event.at);
        const durationMs = event.fireAt - event.at;
        const since = this.#world.now - agoMs;
        this.#timers.set(`${execution}.${event.operation}`, { durationMs, since });
      } else if (event.kind === 'timerFired') this.#fired(`${execution}.${event.operation}`);
    }
  }

  #fired(key: string): void {
    const timer = this.#timers.get(key);
    if (timer === undefined) return;
    const earlyMs = timer.since + timer.durationMs - this.#world.now;
    if (earlyMs <= roundingMs) return;
    this.#world.violate(
      `the timer ${key} of ${timer.durationMs} ms fires ${Math.round(earlyMs)} ms early`,
    );
  }
}
