import { systemClock, type Clock } from '../../../model/clock.ts';

/**
 * The database's clock as this process knows it: for when to look again and for the time that code sees, never for what
 * is due and never for a deadline that is stored.
 *
 * It runs on this process's monotonic clock, so a step of the machine's clock does not move it. Every time that a
 * statement read lies between sending it and its answer, which bounds how far the clocks are apart. An estimate outside
 * the bounds is wrong, and moves to the nearest one: also when a failover leads to a server whose clock is behind.
 */
export class StoreClock implements Clock {
  /** How far the database's clock is ahead of our monotonic clock. */
  #aheadMs = systemClock.now() - systemClock.monotonic();

  /** Learns from the time that a statement has read which was sent at a monotonic time and has just been answered. */
  observe(nowMs: number, sentAt: number): void {
    // The database reads whole milliseconds, rounded down.
    const most = nowMs + 1 - sentAt;
    const least = nowMs - systemClock.monotonic();
    this.#aheadMs = Math.min(Math.max(this.#aheadMs, least), most);
  }

  now(): number {
    return systemClock.monotonic() + this.#aheadMs;
  }

  monotonic(): number {
    return systemClock.monotonic();
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    return systemClock.setTimer(delayMs, callback);
  }
}
