import type { Clock } from '../model/clock.ts';
import { toMs, type Duration } from '../model/values/duration.ts';
import { PerdureError } from '../model/failures/errors.ts';

/** Where a fake clock starts, and how it lets code proceed. */
export interface FakeClockOptions {
  /** The first `now()`, in milliseconds since the epoch. Default: 2030-01-01T00:00:00Z. */
  readonly startAt?: number;
  /** Lets woken code proceed between two alarms. Default: a few turns of the event loop. */
  readonly settle?: () => Promise<void>;
}

interface Alarm {
  /** By the monotonic clock. */
  readonly atMs: number;
  readonly callback: () => void;
}

const defaultStartAt = Date.UTC(2030, 0, 1);

// One turn of an orchestration on SQLite takes about six turns of the event loop: fetch, run, ack, and what they wake.
const settleRounds = 20;

// Taken before anything can patch the globals.
const { setImmediate: realSetImmediate } = globalThis;

async function settleEventLoop(): Promise<void> {
  for (let round = 0; round < settleRounds; round++) {
    await new Promise<void>((resolve) => void realSetImmediate(resolve));
  }
}

/** A clock that stands still until it is told to move, so that a sleep of 30 days is tested in milliseconds. */
export class FakeClock implements Clock {
  readonly #settle: () => Promise<void>;
  readonly #alarms = new Set<Alarm>();
  #monotonic = 0;
  /** How far the wall clock is ahead of the monotonic one. */
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
    // Whole milliseconds, as on a machine's clock: a third of a lease is none.
    const alarm: Alarm = { atMs: Math.ceil(this.#monotonic + delayMs), callback };
    this.#alarms.add(alarm);
    // An alarm that is due already must not wait for the clock to move, which it may never do.
    if (alarm.atMs <= this.#monotonic) realSetImmediate(() => this.#fire(alarm));
    return () => void this.#alarms.delete(alarm);
  }

  /** When the next alarm is due by the wall clock as it is set now, or `undefined` when none is set. */
  get nextAlarmAt(): number | undefined {
    const next = this.#next();
    return next && next.atMs + this.#aheadMs;
  }

  /** How many alarms are set. */
  get alarmCount(): number {
    return this.#alarms.size;
  }

  /** Moves the clock on, firing each alarm at its own time and letting woken code proceed in between. */
  advance(duration: Duration): Promise<void> {
    const ms = toMs(duration);
    return this.#move(() => this.now() + ms);
  }

  /** Moves the clock on to a moment, as `advance` does; a moment in the past is refused. */
  advanceTo(atMs: number): Promise<void> {
    return this.#move(() => atMs);
  }

  /** Sets the wall clock back, as a machine's is corrected; the monotonic clock and its alarms go on as they were. */
  setBack(duration: Duration): Promise<void> {
    return this.#step(-toMs(duration));
  }

  /** Sets the wall clock forward without time passing; the monotonic clock and its alarms go on as they were. */
  setForward(duration: Duration): Promise<void> {
    return this.#step(toMs(duration));
  }

  #step(ms: number): Promise<void> {
    this.#lastMove = this.#lastMove.then(() => void (this.#aheadMs += ms));
    return this.#lastMove;
  }

  // Moves follow one another: two at once would tear the order of the alarms.
  #move(target: () => number): Promise<void> {
    const move = this.#lastMove.then(() => this.#moveTo(target()));
    this.#lastMove = move.catch(() => undefined);
    return move;
  }

  async #moveTo(wallMs: number): Promise<void> {
    if (!(wallMs >= this.now())) {
      throw new PerdureError(
        'INVALID_DURATION',
        `The clock stands at ${this.now()} and cannot go back to ${wallMs}. Use \`setBack\`, or start a new FakeClock.`,
      );
    }
    const targetMs = wallMs - this.#aheadMs;
    // What was just begun may still set an alarm.
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
