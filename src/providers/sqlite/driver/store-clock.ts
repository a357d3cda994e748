import { readFileSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { systemClock, type Clock } from '../../../model/clock.ts';
import { randomToken } from '../../../model/values/random-id.ts';

/** How far the store's clock is ahead of the monotonic clock of the machine, for all processes that have the file open. */
export interface ClockPlan {
  /** The start of the machine that the monotonic times belong to. */
  readonly boot: string;
  /** The monotonic time at which this was written, and what it was then ahead. */
  readonly sinceMs: number;
  readonly aheadMs: number;
  /** How far the wall clock was ahead: where that differs, it was stepped, and the store's clock follows. */
  readonly targetMs: number;
  /** How long the machine had been suspended. */
  readonly suspendedMs: number;
}

/** The machine that a store's clock runs on. */
export interface Machine {
  readonly clock: Clock;
  /** Tells one start of the machine from another. */
  readonly boot: string;
  /** How far the monotonic time of the machine, the same in all processes, is ahead of `clock.monotonic()`. */
  readonly aheadMs: number;
  /** How long it has been suspended since it started, as far as `clock.monotonic()` does not count that. */
  readonly suspendedMs: () => number;
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
  readonly #machine: Machine;
  #suspendedMs: number;
  /** How far this clock, and the wall clock when it was last compared, are ahead of the monotonic one. */
  #aheadMs: number;
  #targetMs: number;
  #plan: ClockPlan | undefined;
  /** Whether there is a plan since the last step, and whether that is committed. */
  #isAgreed: boolean;
  #isShared: boolean;
  /** What was added at once, and is no time that has passed. */
  #jumpedMs = 0;
  #last = Number.NEGATIVE_INFINITY;
  #wasSetBack = false;

  /** `stored` is what the file says. */
  constructor(machine: Machine, stored: ClockPlan | undefined) {
    this.#clock = machine.clock;
    this.#machine = machine;
    const isKnown = stored?.boot === machine.boot;
    this.#isAgreed = isKnown;
    this.#isShared = isKnown;
    if (isKnown) {
      // As if this process had been there: what has changed since is noticed by the first reading.
      this.#suspendedMs = stored.suspendedMs;
      this.#targetMs = stored.targetMs + machine.aheadMs;
      this.#aheadMs = stored.aheadMs + machine.aheadMs;
      this.#plan = stored;
    } else {
      this.#suspendedMs = machine.suspendedMs();
      this.#targetMs = this.#readTarget();
      this.#aheadMs = this.#targetMs;
    }
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
  markShared(): void {
    this.#wasSetBack = false;
    if (this.#isAgreed) this.#isShared = true;
  }

  /** Whether the file does not say yet what other processes need to agree with this one. */
  get hasUnsharedPlan(): boolean {
    return !this.#isShared;
  }

  /** Follows the plan that is stored, if it is for the last step; otherwise returns the one to store. */
  agree(stored: ClockPlan | undefined): ClockPlan | undefined {
    this.#isAgreed = true;
    const { boot, aheadMs: machineMs } = this.#machine;
    const targetMs = this.#targetMs - machineMs;
    if (stored?.boot === boot && Math.abs(stored.targetMs - targetMs) <= toleranceMs) {
      const aheadMs = this.#aheadMs;
      this.#plan = stored;
      this.#follow(stored, this.#clock.monotonic());
      this.#jumpedMs += this.#aheadMs - aheadMs;
      return undefined;
    }
    const sinceMs = this.#clock.monotonic() + machineMs;
    const aheadMs = this.#aheadMs - machineMs;
    this.#plan = { boot, sinceMs, aheadMs, targetMs, suspendedMs: this.#suspendedMs };
    return this.#plan;
  }

  #read(): number {
    const monotonicMs = this.#clock.monotonic();
    if (this.#plan !== undefined) this.#follow(this.#plan, monotonicMs);
    const targetMs = this.#clock.now() - monotonicMs;
    if (Math.abs(targetMs - this.#targetMs) > toleranceMs) this.#noticeStep();
    return monotonicMs + this.#aheadMs;
  }

  #noticeStep(): void {
    const targetMs = this.#readTarget();
    if (Math.abs(targetMs - this.#targetMs) <= toleranceMs) return;
    this.#targetMs = targetMs;
    const suspendedMs = this.#machine.suspendedMs();
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
    const passedMs = monotonicMs + this.#machine.aheadMs - sinceMs - holdMs;
    const mostMs = Math.max(0, passedMs) * slewRate;
    const wantedMs = targetMs - aheadMs;
    const movedMs = Math.min(Math.max(wantedMs, -mostMs), mostMs);
    this.#aheadMs = aheadMs + movedMs + this.#machine.aheadMs;
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

/** Reads a stored plan; one that is of no use is none. */
export function parsePlan(stored: string | null): ClockPlan | undefined {
  if (stored === null) return undefined;
  try {
    const plan = JSON.parse(stored) as Partial<ClockPlan>;
    const times = [plan.sinceMs, plan.aheadMs, plan.targetMs, plan.suspendedMs];
    return times.every(Number.isFinite) ? (plan as ClockPlan) : undefined;
  } catch {
    return undefined;
  }
}

const injected = new WeakMap<Clock, string>();

/** The machine of a clock; an injected clock is a machine of its own. */
export function machineOf(clock: Clock): Machine {
  if (clock !== systemClock) {
    const boot = injected.get(clock) ?? randomToken();
    injected.set(clock, boot);
    return { clock, boot, aheadMs: 0, suspendedMs: () => 0 };
  }
  // `hrtime` counts from the same moment in all processes of a machine.
  const aheadMs = Number(process.hrtime.bigint()) / 1e6 - clock.monotonic();
  return {
    clock,
    boot: bootId() ?? `${hostname()} ${String(process.pid)} ${randomToken()}`,
    aheadMs,
    // On Linux the monotonic clock stands still while the machine is suspended, and its uptime does not.
    suspendedMs: () => uptime() * 1_000 - clock.monotonic() - aheadMs,
  };
}

/** What Linux calls this start of the machine; elsewhere a process only agrees with itself. */
function bootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return undefined;
  }
}
