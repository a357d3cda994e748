import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';

/** One claim that is kept alive while its work goes on. */
export interface Lease {
  readonly lockToken: string;
  /** The lease is over by our monotonic clock, or the store says so: the work must stop and its result is worth nothing. */
  onLost(): void;
}

interface Held<L> {
  readonly lease: L;
  renewedAt: number;
  /** The renewal that a hint asked for, while it is under way. */
  asked?: Promise<boolean> | undefined;
}

export interface LeasesParams<L extends Lease> {
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly logger: Logger;
  /** Renews at the store; answers per lease whether it is still held. */
  readonly renew: (leases: readonly L[]) => Promise<readonly boolean[]>;
}

const maxBatch = 1_000;
const maxHinted = 10_000;

/**
 * Keeps claims alive: one batched renewal for everything in flight, at a third of the lease. A transient error is
 * tried again until the lease's own deadline; past it the holder is told that it has lost, whatever the store thinks.
 */
export class Leases<L extends Lease> {
  readonly #params: LeasesParams<L>;
  readonly #held = new Map<string, Held<L>>();
  /** Tokens that a hint named before they were ours; most never will be. */
  readonly #hinted = new Set<string>();
  #cancelAlarm: (() => void) | undefined;
  #renewing = false;
  #stopped = false;

  constructor(params: LeasesParams<L>) {
    this.#params = params;
  }

  get size(): number {
    return this.#held.size;
  }

  /** Begins to renew. `claimedAt` is our monotonic clock before the claim was sent, so that we never believe in a lease too long. */
  add(lease: L, claimedAt: number): void {
    this.#held.set(lease.lockToken, { lease, renewedAt: claimedAt });
    if (this.#hinted.delete(lease.lockToken)) void this.renewNow([lease.lockToken]);
    if (this.#cancelAlarm === undefined && !this.#renewing) this.#arm(this.#params.leaseMs / 3);
  }

  /** Stops renewing: the claim was settled or handed back. */
  remove(lockToken: string): void {
    this.#held.delete(lockToken);
  }

  /** Whether the lease is still ours by our monotonic clock. */
  isHeld(lockToken: string): boolean {
    const held = this.#held.get(lockToken);
    return (
      held !== undefined && this.#params.clock.monotonic() < held.renewedAt + this.#params.leaseMs
    );
  }

  /** The lease of a claim, as long as it is kept. */
  find(lockToken: string): L | undefined {
    return this.#held.get(lockToken)?.lease;
  }

  /** The renewal that a hint asked for, while its answer is outstanding: until then nothing of the claim should start. */
  pendingRenewal(lockToken: string): Promise<boolean> | undefined {
    return this.#held.get(lockToken)?.asked;
  }

  /** Renews some leases at once: a hint said that there is something to learn. */
  async renewNow(lockTokens: readonly string[]): Promise<void> {
    const due: Held<L>[] = [];
    for (const token of lockTokens) {
      const held = this.#held.get(token);
      if (held !== undefined) due.push(held);
      else this.#rememberHint(token);
    }
    if (due.length === 0) return;
    const asked = this.#renew(due);
    for (const held of due) held.asked = asked;
    await asked;
    for (const held of due) if (held.asked === asked) held.asked = undefined;
  }

  // A hint may overtake the claim that it is about: both may come out of one transaction.
  #rememberHint(token: string): void {
    if (this.#hinted.size >= maxHinted) this.#hinted.clear();
    this.#hinted.add(token);
  }

  stop(): void {
    this.#stopped = true;
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
    this.#held.clear();
  }

  #arm(delayMs: number): void {
    const { clock } = this.#params;
    this.#cancelAlarm = clock.setTimer(delayMs, () => {
      this.#cancelAlarm = undefined;
      void this.#renewAll();
    });
  }

  async #renewAll(): Promise<void> {
    if (this.#stopped || this.#held.size === 0) return;
    const { clock, leaseMs } = this.#params;
    this.#renewing = true;
    // What was claimed a moment ago can wait for the next round.
    const before = clock.monotonic() - leaseMs / 6;
    const due = [...this.#held.values()].filter((held) => held.renewedAt <= before);
    const allRenewed = await this.#renew(due);
    this.#renewing = false;
    if (!this.#stopped && this.#held.size > 0) this.#arm(allRenewed ? leaseMs / 3 : leaseMs / 20);
  }

  async #renew(due: readonly Held<L>[]): Promise<boolean> {
    let allRenewed = true;
    for (let start = 0; start < due.length; start += maxBatch) {
      const renewed = await this.#renewBatch(due.slice(start, start + maxBatch));
      allRenewed &&= renewed;
    }
    return allRenewed;
  }

  async #renewBatch(batch: readonly Held<L>[]): Promise<boolean> {
    const { clock, logger, renew } = this.#params;
    const sentAt = clock.monotonic();
    // The store may take longer to answer than the leases last: their own deadlines do not wait for it.
    const cancelDeadline = clock.setTimer(this.#firstDeadline(batch) - sentAt, () =>
      this.#dropExpired(batch),
    );
    try {
      const results = await renew(batch.map((held) => held.lease));
      batch.forEach((held, index) => {
        if (results[index] === true) held.renewedAt = sentAt;
        else this.#lose(held);
      });
      return true;
    } catch (error) {
      logger.warn({ error, leases: batch.length }, 'renewing leases failed; trying again');
      this.#dropExpired(batch);
      return false;
    } finally {
      cancelDeadline();
    }
  }

  #firstDeadline(batch: readonly Held<L>[]): number {
    return Math.min(...batch.map(({ renewedAt }) => renewedAt)) + this.#params.leaseMs;
  }

  /** Gives up every lease that is over by our monotonic clock. */
  #dropExpired(batch: readonly Held<L>[]): void {
    const { clock, leaseMs } = this.#params;
    for (const held of batch) if (clock.monotonic() >= held.renewedAt + leaseMs) this.#lose(held);
  }

  #lose(held: Held<L>): void {
    // It may have been settled while the renewal was under way: then nothing is lost.
    if (!this.#held.delete(held.lease.lockToken)) return;
    held.lease.onLost();
  }
}

/**
 * The monotonic time from which a lease counts, for a claim that the store made at `nowMs` by its clock.
 *
 * A fetch may wait long before it claims, so the store's clock tells how old the claim is. Our view of that clock may be
 * wrong by any amount, but a claim is never older than the call that asked for it (`askedAt`).
 */
export function claimedSince(clock: Clock, nowMs: number, askedAt: number): number {
  const monotonicMs = clock.monotonic();
  const ageMs = Math.max(0, clock.now() - nowMs);
  return Math.max(monotonicMs - ageMs, askedAt);
}
