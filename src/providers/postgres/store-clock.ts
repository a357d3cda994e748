import { systemClock, type Clock } from '../../model/clock.ts';

// How long an observation counts against later ones that say less.
const observationMs = 30_000;

/**
 * The database's clock as this process knows it: only good for when to look again, never for what is due.
 *
 * An answer that took long says too little about how far the clocks are apart, never too much, so the one that says
 * most is believed; for a while, because clocks drift and are set.
 */
export class StoreClock implements Clock {
  #aheadMs = 0;
  #observedAt = Number.NEGATIVE_INFINITY;

  /** Learns from the time that a transaction has just read. */
  observe(nowMs: number): void {
    const aheadMs = nowMs - systemClock.now();
    const time = performance.now();
    if (aheadMs < this.#aheadMs && time < this.#observedAt + observationMs) return;
    this.#aheadMs = aheadMs;
    this.#observedAt = time;
  }

  now(): number {
    return systemClock.now() + this.#aheadMs;
  }

  setAlarm(atMs: number, callback: () => void): () => void {
    return systemClock.setAlarm(atMs - this.#aheadMs, callback);
  }
}
