import { systemClock, type Clock } from '../../../model/clock.ts';

/**
 * An estimate of the database clock. Used to schedule polls and as the time that user code sees, never to decide what is
 * due and never for stored deadlines.
 *
 * It runs on the monotonic clock of this process, so a step of the system clock does not change it. Each database time
 * was read between sending a statement and its response, which bounds the offset of the clocks. An estimate outside the
 * bounds moves to the nearest bound, for example after a failover to a server whose clock is behind.
 */
export class StoreClock implements Clock {
  /** Offset of the database clock from the monotonic clock of this process. */
  #aheadMs = systemClock.now() - systemClock.monotonic();

  /** Corrects the estimate by a time that a statement read. It was sent at `sentAt` (monotonic) and has just returned. */
  observe(nowMs: number, sentAt: number): void {
    // The database rounds down to milliseconds.
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
