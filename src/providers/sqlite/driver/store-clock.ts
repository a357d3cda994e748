import { readFileSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { systemClock, type Clock } from '../../../model/clock.ts';
import { randomToken } from '../../../model/values/random-id.ts';

/** How the store's clock follows the wall clock, shared by all processes that have the file open. */
export interface ClockPlan {
  /** Identifies the boot of the machine. Monotonic times are valid within one boot. */
  readonly boot: string;
  /** The monotonic time at which the plan was written, and the lead of the store's clock at that time. */
  readonly sinceMs: number;
  readonly aheadMs: number;
  /** The lead of the wall clock over the monotonic clock. Another value means that the wall clock was stepped. */
  readonly targetMs: number;
  /** How long the machine had been suspended. */
  readonly suspendedMs: number;
}

/** The machine that a store's clock runs on. */
export interface Machine {
  readonly clock: Clock;
  /** Identifies one boot of the machine. */
  readonly boot: string;
  /** The lead of the machine-wide monotonic time over `clock.monotonic()`. */
  readonly aheadMs: number;
  /** Suspended time since boot that `clock.monotonic()` does not include. */
  readonly suspendedMs: () => number;
}

// Smaller differences are not steps: reading two clocks takes time, and their rates differ slightly.
const toleranceMs = 100;
// Maximum time between two clock readings that are compared.
const readingMs = 5;
// Maximum time between two readings of the monotonic clock, whose difference all stores of a process keep.
const maxReadingMs = 0.5;
// A larger difference is applied immediately: the clock was wrong before.
const maxAbsorbedMs = 86_400_000;
// Timers that run during a step are not affected. Later ones are off by at most 5 %.
const holdMs = 60_000;
const slewRate = 0.05;

/**
 * The clock of a store, in whole milliseconds: the machine's wall clock without its steps.
 *
 * It runs on the monotonic clock. After a step of the wall clock it keeps its rate for a minute. Then it slews by at most
 * 5 % of the elapsed time, so that no sleep, lease or delay is cut short. Suspended time counts immediately. Processes
 * that share a file agree on the start of the slew, see `agree`.
 */
export class StoreClock implements Clock {
  readonly #clock: Clock;
  readonly #machine: Machine;
  #suspendedMs: number;
  /** The leads over the monotonic clock: of this clock, and of the wall clock at the last comparison. */
  #aheadMs: number;
  #targetMs: number;
  #plan: ClockPlan | undefined;
  /** Whether there is a plan since the last step, and whether it is committed. */
  #isAgreed: boolean;
  #isShared: boolean;
  /** The sum of the jumps, which are not elapsed time. */
  #jumpedMs = 0;
  #last = Number.NEGATIVE_INFINITY;
  #wasSetBack = false;

  /** `stored` is the plan in the file. */
  constructor(machine: Machine, stored: ClockPlan | undefined) {
    this.#clock = machine.clock;
    this.#machine = machine;
    const isKnown = stored?.boot === machine.boot;
    this.#isAgreed = isKnown;
    this.#isShared = isKnown;
    if (isKnown) {
      // Start from the stored plan. The first reading detects later changes.
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

  /** Runs at the rate of `now()`, so that a lease lasts equally long here and in the file. */
  monotonic(): number {
    // Read first, because the read can add to the jumps.
    const now = this.#read();
    return now - this.#jumpedMs;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    const atMs = this.monotonic() + delayMs;
    let cancel = (): void => undefined;
    const arm = (waitMs: number): void => {
      cancel = this.#clock.setTimer(waitMs, () => {
        const leftMs = atMs - this.monotonic();
        // This clock may run slower than the timer's.
        if (leftMs > readingMs) arm(leftMs);
        else callback();
      });
    };
    arm(delayMs);
    return () => cancel();
  }

  /** Whether messages may be hidden that were visible before. */
  get wasSetBack(): boolean {
    return this.#wasSetBack;
  }

  /** Call it after the commit of a transaction that showed those messages and stored the plan. */
  markShared(): void {
    this.#wasSetBack = false;
    if (this.#isAgreed) this.#isShared = true;
  }

  /** Whether the file lacks the plan that other processes need. */
  get hasUnsharedPlan(): boolean {
    return !this.#isShared;
  }

  /** Follows the stored plan if it is for the last step. Otherwise returns a plan to store. */
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
    // Keep the rate until all processes have agreed on a start.
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

  // Retries if the process was suspended between the readings, which would look like a step.
  #readTarget(): number {
    for (;;) {
      const before = this.#clock.monotonic();
      const wallMs = this.#clock.now();
      const after = this.#clock.monotonic();
      if (after - before <= readingMs) return wallMs - after;
    }
  }
}

/** Parses a stored plan. Returns `undefined` for an invalid one. */
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

/** Returns the machine of a clock. Each injected clock has a machine of its own. */
export function machineOf(clock: Clock): Machine {
  if (clock !== systemClock) {
    const boot = injected.get(clock) ?? randomToken();
    injected.set(clock, boot);
    return { clock, boot, aheadMs: 0, suspendedMs: () => 0 };
  }
  const aheadMs = (systemAheadMs ??= measureAhead(clock));
  return {
    clock,
    boot: bootId() ?? `${hostname()} ${String(process.pid)} ${randomToken()}`,
    aheadMs,
    // On Linux the monotonic clock stops while the machine is suspended, but its uptime does not.
    suspendedMs: () => uptime() * 1_000 - clock.monotonic() - aheadMs,
  };
}

// Measured once, so that the stores of one process have the same clock.
let systemAheadMs: number | undefined;

/** `hrtime` has the same origin in all processes of a machine. Retries if the process paused between the readings. */
function measureAhead(clock: Clock): number {
  for (;;) {
    const before = clock.monotonic();
    const machineMs = Number(process.hrtime.bigint()) / 1e6;
    const after = clock.monotonic();
    if (after - before <= maxReadingMs) return machineMs - after;
  }
}

/** The boot id of Linux. On other systems each process has its own. */
function bootId(): string | undefined {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return undefined;
  }
}
