import type { Clock } from '../../model/clock.ts';

/** How a step of the machine's clock is absorbed, by all processes that have the file open. */
export interface ClockPlan {
  /** The monotonic time of the machine at which the step was noticed. */
  readonly sinceMs: number;
  /** How far the store's clock was ahead of the monotonic clock then, and how far ahead it will be. */
  readonly aheadMs: number;
  readonly targetMs: number;
}

/** What a store's clock needs of the machine and of the file. */
export interface StoreClockOptions {
  readonly clock: Clock;
  /** How far the monotonic time of the machine, the same in all processes, is ahead of `clock.monotonic()`. */
  readonly machineAheadMs?: number;
  /** How long the machine has been suspended since it started, as far as `clock.monotonic()` does not count that. */
  readonly suspendedMs?: () => number;
  /** The plan that is stored in the file. */
  readonly plan?: ClockPlan | undefined;
}

// A difference below this is no step: reading two clocks takes time, and their rates differ a little.
const toleranceMs = 100;
// Two readings of the clocks belong together if no more than this lies between them.
const readingMs = 5;
// A clock that was this wrong was wrong before: it is believed at once.
const maxAbsorbedMs = 86_400_000;
// What runs when the clock steps is not affected at all; what begins later by one part in twenty.
const holdMs = 60_000;
const slewRate = 0.05;

/**
 * The clock of a store, in whole milliseconds: the machine's wall clock without its steps.
 *
 * It runs on the monotonic clock. When the wall clock was stepped it keeps its rate for a minute, and then follows by at
 * most 5 % of the time that passes, so that no sleep, lease or delay is cut short. Time that the machine was suspended
 * has passed, and counts at once. Processes that share a file agree on the moment from which they follow, see `agree`.
 */
export class StoreClock implements Clock {
  readonly #clock: Clock;
  readonly #machineAheadMs: number;
  readonly #suspended: () => number;
  #suspendedMs: number;
  /** How far this clock is ahead of the monotonic one, where no step is being absorbed. */
  #aheadMs: number;
  #targetMs: number;
  #plan: ClockPlan | undefined;
  /** Whether the last step has a plan, and whether that is committed. */
  #isAgreed = true;
  #isShared = true;
  /** What was added at once, and is no time that has passed. */
  #jumpedMs = 0;
  #last = Number.NEGATIVE_INFINITY;
  #wasSetBack = false;

  constructor({ clock, machineAheadMs = 0, suspendedMs = () => 0, plan }: StoreClockOptions) {
    this.#clock = clock;
    this.#machineAheadMs = machineAheadMs;
    this.#suspended = suspendedMs;
    this.#suspendedMs = suspendedMs();
    this.#targetMs = this.#readTarget();
    this.#aheadMs = this.#targetMs;
    if (plan !== undefined && this.#fits(plan)) this.#plan = plan;
  }

  now(): number {
    const now = Math.floor(this.#read());
    if (now < this.#last) this.#wasSetBack = true;
    this.#last = now;
    return now;
  }

  /** Runs at the rate of `now()`, so that a lease lasts as long here as in the file. */
  monotonic(): number {
    // First: reading may add to the jumps.
    const now = this.#read();
    return now - this.#jumpedMs;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    const atMs = this.monotonic() + delayMs;
    let cancel = (): void => undefined;
    const arm = (waitMs: number): void => {
      cancel = this.#clock.setTimer(waitMs, () => {
        const leftMs = atMs - this.monotonic();
        // This clock may be the slower one.
        if (leftMs > readingMs) arm(leftMs);
        else callback();
      });
    };
    arm(delayMs);
    return () => cancel();
  }

  /** Whether messages may wait that were visible and no longer are. */
  get wasSetBack(): boolean {
    return this.#wasSetBack;
  }

  /** A transaction has committed that showed those messages again and stored the plan. */
  caughtUp(): void {
    this.#wasSetBack = false;
    if (this.#isAgreed) this.#isShared = true;
  }

  /** Whether a step was noticed that other processes may not know of. */
  get hasNews(): boolean {
    return !this.#isShared;
  }

  /** Follows the plan that is stored, if it is for the same step; otherwise returns the one to store. */
  agree(stored: ClockPlan | undefined): ClockPlan | undefined {
    this.#isAgreed = true;
    if (stored !== undefined && this.#fits(stored)) {
      const aheadMs = this.#aheadMs;
      this.#plan = stored;
      this.#follow(stored, this.#clock.monotonic());
      this.#jumpedMs += this.#aheadMs - aheadMs;
      return undefined;
    }
    const aheadMs = this.#aheadMs - this.#machineAheadMs;
    const targetMs = this.#targetMs - this.#machineAheadMs;
    this.#plan = { sinceMs: this.#machineMs(), aheadMs, targetMs };
    return this.#plan;
  }

  // The time at which the machine started by its wall clock: another start, or another step, has another.
  #fits({ sinceMs, targetMs }: ClockPlan): boolean {
    const ownMs = this.#targetMs - this.#machineAheadMs;
    return Math.abs(targetMs - ownMs) <= toleranceMs && sinceMs <= this.#machineMs();
  }

  #machineMs(): number {
    return this.#clock.monotonic() + this.#machineAheadMs;
  }

  #read(): number {
    const monotonicMs = this.#clock.monotonic();
    const targetMs = this.#clock.now() - monotonicMs;
    if (Math.abs(targetMs - this.#targetMs) > toleranceMs) this.#noticeStep();
    if (this.#plan !== undefined) this.#follow(this.#plan, monotonicMs);
    return monotonicMs + this.#aheadMs;
  }

  #noticeStep(): void {
    const targetMs = this.#readTarget();
    if (Math.abs(targetMs - this.#targetMs) <= toleranceMs) return;
    this.#targetMs = targetMs;
    const suspendedMs = this.#suspended();
    const missingMs = targetMs - this.#aheadMs;
    const sleptMs = Math.min(suspendedMs - this.#suspendedMs, missingMs);
    this.#suspendedMs = suspendedMs;
    if (sleptMs > toleranceMs) this.#jump(sleptMs);
    const leftMs = targetMs - this.#aheadMs;
    if (Math.abs(leftMs) > maxAbsorbedMs) this.#jump(leftMs);
    // Until all processes have agreed when to begin, this clock keeps its rate.
    this.#plan = undefined;
    this.#isAgreed = Math.abs(targetMs - this.#aheadMs) <= toleranceMs;
    this.#isShared = this.#isAgreed;
  }

  #jump(ms: number): void {
    this.#aheadMs += ms;
    this.#jumpedMs += ms;
  }

  #follow({ sinceMs, aheadMs, targetMs }: ClockPlan, monotonicMs: number): void {
    const passedMs = monotonicMs + this.#machineAheadMs - sinceMs - holdMs;
    const mostMs = Math.max(0, passedMs) * slewRate;
    const wantedMs = targetMs - aheadMs;
    const movedMs = Math.min(Math.max(wantedMs, -mostMs), mostMs);
    this.#aheadMs = aheadMs + movedMs + this.#machineAheadMs;
    if (movedMs === wantedMs) this.#plan = undefined;
  }

  // A process that was held up between the two readings would see a step where there is none.
  #readTarget(): number {
    for (;;) {
      const before = this.#clock.monotonic();
      const wallMs = this.#clock.now();
      const after = this.#clock.monotonic();
      if (after - before <= readingMs) return wallMs - after;
    }
  }
}

/** Reads a stored plan; one that cannot be read is none. */
export function parsePlan(stored: string | null): ClockPlan | undefined {
  if (stored === null) return undefined;
  const plan = JSON.parse(stored) as Partial<ClockPlan>;
  const times = [plan.sinceMs, plan.aheadMs, plan.targetMs];
  return times.every((time) => typeof time === 'number') ? (plan as ClockPlan) : undefined;
}
