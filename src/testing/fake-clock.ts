import type { Clock } from '../model/clock.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';

/** Options of a fake clock. */
export interface FakeClockOptions {
  /** The first `now()`, in milliseconds since the epoch. Default: 2030-01-01T00:00:00Z. */
  readonly startAt?: number;
  /** Waits for woken code between two alarms. Default: a few turns of the event loop. */
  readonly settle?: () => Promise<void>;
}

interface Alarm {
  /** Due time on the monotonic clock. */
  readonly atMs: number;
  readonly callback: () => void;
}

const defaultStartAt = Date.UTC(2030, 0, 1);

// A turn of an orchestration on SQLite (fetch, run, ack) takes about six turns of the event loop.
const settleRounds = 20;

// Saved before the globals are patched.
const { setImmediate: realSetImmediate } = globalThis;

async function settleEventLoop(): Promise<void> {
  for (let round = 0; round < settleRounds; round++) {
    await new Promise<void>((resolve) => void realSetImmediate(resolve));
  }
}

/** A clock that advances only on request, so that a sleep of 30 days takes milliseconds in a test. */
export class FakeClock implements Clock {
  readonly #settle: () => Promise<void>;
  readonly #alarms = new Set<Alarm>();
  #monotonic = 0;
  /** The difference between the wall clock and the monotonic clock. */
  #aheadMs: number;
  #lastMove: Promise<void> = Promise.resolve();

  constructor(options: FakeClockOptions = {}) {
    this.#aheadMs = options.startAt ?? defaultStartAt;
    this.#settle = options.settle ?? settleEventLoop;
  }

  now(): number {
    return this.#monotonic + this.#aheadMs;
  }

  monotonic(): number {
    return this.#monotonic;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    // Rounds up to whole milliseconds, as the system clock does. A third of a lease may be a fraction.
    const alarm: Alarm = { atMs: Math.ceil(this.#monotonic + delayMs), callback };
    this.#alarms.add(alarm);
    // An alarm that is already due must not wait for the next advance, which may never happen.
    if (alarm.atMs <= this.#monotonic) realSetImmediate(() => this.#fire(alarm));
    return () => void this.#alarms.delete(alarm);
  }

  /** The due time of the next alarm on the wall clock; `undefined` if no alarm is set. */
  get nextAlarmAt(): number | undefined {
    const next = this.#next();
    return next && next.atMs + this.#aheadMs;
  }

  /** The number of alarms that are set. */
  get alarmCount(): number {
    return this.#alarms.size;
  }

  /** Advances the clock by a duration. Fires each alarm at its due time, and waits for woken code in between. */
  advance(duration: Duration): Promise<void> {
    const ms = toMs(duration);
    return this.#move(() => this.now() + ms);
  }

  /** Advances the clock to a time, like `advance`. Rejects for a time in the past. */
  advanceTo(atMs: number): Promise<void> {
    return this.#move(() => atMs);
  }

  /** Sets the wall clock back. The monotonic clock and its alarms do not change. */
  setBack(duration: Duration): Promise<void> {
    return this.#step(-toMs(duration));
  }

  /** Sets the wall clock forward. The monotonic clock and its alarms do not change. */
  setForward(duration: Duration): Promise<void> {
    return this.#step(toMs(duration));
  }

  #step(ms: number): Promise<void> {
    this.#lastMove = this.#lastMove.then(() => void (this.#aheadMs += ms));
    return this.#lastMove;
  }

  // Moves run one after the other: concurrent moves could fire alarms out of order.
  #move(target: () => number): Promise<void> {
    const move = this.#lastMove.then(() => this.#moveTo(target()));
    this.#lastMove = move.catch(() => undefined);
    return move;
  }

  async #moveTo(wallMs: number): Promise<void> {
    if (!(wallMs >= this.now())) {
      throw new PerdureError(
        'INVALID_DURATION',
        `Cannot advance the clock to ${wallMs}: it is ${this.now()}. Use setBack(), or create a new FakeClock.`,
      );
    }
    const targetMs = wallMs - this.#aheadMs;
    // Code that was just started may still set an alarm.
    await this.#settle();
    for (let alarm = this.#next(); alarm && alarm.atMs <= targetMs; alarm = this.#next()) {
      this.#monotonic = Math.max(this.#monotonic, alarm.atMs);
      this.#fire(alarm);
      await this.#settle();
    }
    this.#monotonic = targetMs;
  }

  #next(): Alarm | undefined {
    let next: Alarm | undefined;
    for (const alarm of this.#alarms) if (!next || alarm.atMs < next.atMs) next = alarm;
    return next;
  }

  #fire(alarm: Alarm): void {
    if (this.#alarms.delete(alarm)) alarm.callback();
  }
}
