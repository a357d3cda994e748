import type { Clock } from '../../model/clock.ts';
import type { Logger } from '../../model/logger.ts';

/** A claim whose lease is renewed. */
export interface Lease {
  readonly lockToken: string;
  /** Called when the lease expired by the monotonic clock, or the store no longer has the claim. */
  onLost(): void;
}

interface Held<L> {
  /** Emptied by its removal: the map may keep the entry until the next full garbage collection. */
  lease: L | undefined;
  renewedAt: number;
  /** Whether the alarm sent a renewal that has no response yet. */
  isRenewing?: boolean;
  /** The pending renewal that a hint requested. */
  pending?: Promise<boolean> | undefined;
}

export interface LeasesParams<L extends Lease> {
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly logger: Logger;
  /** Renews in the store. Returns for each lease whether it is still held. */
  readonly renew: (leases: readonly L[]) => Promise<readonly boolean[]>;
}

const maxBatch = 1_000;
const maxHinted = 10_000;

/**
 * Renews claims every third of the lease, in batches of 1,000. Skips claims that were made or renewed within the last sixth
 * of the lease. A claim is therefore renewed after at most half of its lease, even while an earlier renewal has no response.
 * Retries a failed renewal until the lease expires. A lease that expired by the monotonic clock is lost, even if the store still has the claim.
 */
export class Leases<L extends Lease> {
  readonly #params: LeasesParams<L>;
  readonly #held = new Map<string, Held<L>>();
  /** Hinted tokens without a claim of this worker. Most belong to other workers. */
  readonly #hinted = new Set<string>();
  #cancelAlarm: (() => void) | undefined;
  /** When the alarm fires, by the monotonic clock. */
  #alarmAt = 0;
  #stopped = false;

  constructor(params: LeasesParams<L>) {
    this.#params = params;
  }

  get size(): number {
    return this.#held.size;
  }

  /**
   * Starts renewing. `claimedAt` is the monotonic time before the claim was sent, so that the lease is never
   * overestimated.
   */
  add(lease: L, claimedAt: number): void {
    this.#held.set(lease.lockToken, { lease, renewedAt: claimedAt });
    if (this.#hinted.delete(lease.lockToken)) void this.renewNow([lease.lockToken]);
    // The response of a claim can be late. Then the claim does not wait for the next renewal of the others.
    const { clock, leaseMs } = this.#params;
    if (this.#cancelAlarm !== undefined && this.#alarmAt <= claimedAt + leaseMs / 2) return;
    this.#arm(Math.max(0, claimedAt + leaseMs / 3 - clock.monotonic()));
  }

  /** Stops renewing a claim that was settled or released. */
  remove(lockToken: string): void {
    const held = this.#held.get(lockToken);
    if (held === undefined) return;
    this.#held.delete(lockToken);
    held.lease = undefined;
  }

  /** Whether the lease is still valid by the monotonic clock. */
  isHeld(lockToken: string): boolean {
    const held = this.#held.get(lockToken);
    return (
      held !== undefined && this.#params.clock.monotonic() < held.renewedAt + this.#params.leaseMs
    );
  }

  /** Returns the lease of a claim, or `undefined` if it is not renewed here. */
  find(lockToken: string): L | undefined {
    return this.#held.get(lockToken)?.lease;
  }

  /** The pending renewal that a hint requested. The handler should not start before it resolves. */
  pendingRenewal(lockToken: string): Promise<boolean> | undefined {
    return this.#held.get(lockToken)?.pending;
  }

  /** Renews some leases immediately, after a hint about them. */
  async renewNow(lockTokens: readonly string[]): Promise<void> {
    const due: Held<L>[] = [];
    for (const token of lockTokens) {
      const held = this.#held.get(token);
      if (held !== undefined) due.push(held);
      else this.#rememberHint(token);
    }
    if (due.length === 0) return;
    const pending = this.#renew(due);
    for (const held of due) held.pending = pending;
    await pending;
    for (const held of due) if (held.pending === pending) held.pending = undefined;
  }

  // A hint may arrive before its claim: both can come from one transaction.
  #rememberHint(token: string): void {
    if (this.#hinted.size >= maxHinted) this.#hinted.clear();
    this.#hinted.add(token);
  }

  stop(): void {
    this.#stopped = true;
    this.#disarm();
    this.#held.clear();
  }

  /** Replaces the alarm. */
  #arm(delayMs: number): void {
    const { clock } = this.#params;
    this.#disarm();
    this.#alarmAt = clock.monotonic() + delayMs;
    this.#cancelAlarm = clock.setTimer(delayMs, () => {
      this.#cancelAlarm = undefined;
      void this.#renewAll();
    });
  }

  #disarm(): void {
    this.#cancelAlarm?.();
    this.#cancelAlarm = undefined;
  }

  async #renewAll(): Promise<void> {
    if (this.#stopped || this.#held.size === 0) return;
    const { clock, leaseMs } = this.#params;
    // Before the renewal: a slow response must not delay the renewal of claims that are made meanwhile.
    this.#arm(leaseMs / 3);
    // Recent claims wait for the next renewal.
    const before = clock.monotonic() - leaseMs / 6;
    const due: Held<L>[] = [];
    for (const held of this.#held.values()) {
      if (held.renewedAt > before || held.isRenewing === true) continue;
      held.isRenewing = true;
      due.push(held);
    }
    const allRenewed = await this.#renew(due);
    for (const held of due) held.isRenewing = false;
    if (this.#stopped) return;
    if (this.#held.size === 0) this.#disarm();
    else if (!allRenewed) this.#arm(leaseMs / 20);
  }

  async #renew(due: readonly Held<L>[]): Promise<boolean> {
    let allRenewed = true;
    for (let start = 0; start < due.length; start += maxBatch) {
      const renewed = await this.#renewBatch(due.slice(start, start + maxBatch));
      allRenewed &&= renewed;
    }
    return allRenewed;
  }

  async #renewBatch(due: readonly Held<L>[]): Promise<boolean> {
    const { clock, logger, renew } = this.#params;
    const leases: L[] = [];
    // Some may have been removed while earlier batches were renewed.
    const batch = due.filter(({ lease }) => lease !== undefined && leases.push(lease) > 0);
    if (batch.length === 0) return true;
    const sentAt = clock.monotonic();
    const cancelDeadline = this.#dropWhenExpired(batch);
    try {
      const results = await renew(leases);
      batch.forEach((held, index) => {
        if (results[index] === true) held.renewedAt = sentAt;
        else this.#lose(held);
      });
      return true;
    } catch (error) {
      logger.warn({ error, leases: batch.length }, 'renewing leases failed, will retry');
      this.#dropExpired(batch);
      return false;
    } finally {
      cancelDeadline();
    }
  }

  /** Drops each lease when it expires: the store may respond later. Returns a function that stops this. */
  #dropWhenExpired(batch: readonly Held<L>[]): () => void {
    const { clock, leaseMs } = this.#params;
    let cancel: (() => void) | undefined;
    const wait = (): void => {
      let first = Infinity;
      for (const held of batch) if (this.#isCurrent(held)) first = Math.min(first, held.renewedAt);
      if (first === Infinity) return;
      cancel = clock.setTimer(first + leaseMs - clock.monotonic(), () => {
        this.#dropExpired(batch);
        wait();
      });
    };
    wait();
    return () => cancel?.();
  }

  /** Drops the leases that expired by the monotonic clock. */
  #dropExpired(batch: readonly Held<L>[]): void {
    const { clock, leaseMs } = this.#params;
    for (const held of batch) if (clock.monotonic() >= held.renewedAt + leaseMs) this.#lose(held);
  }

  #lose(held: Held<L>): void {
    // The claim may have been settled during the renewal. Then it is not lost.
    const { lease } = held;
    if (lease === undefined || !this.#isCurrent(held)) return;
    this.remove(lease.lockToken);
    lease.onLost();
  }

  /** Whether a claim was neither removed nor replaced. */
  #isCurrent(held: Held<L>): boolean {
    const { lease } = held;
    return lease !== undefined && this.#held.get(lease.lockToken) === held;
  }
}

/**
 * Returns the monotonic time at which the lease of a claim started. `nowMs` is the store's time of the claim.
 *
 * A fetch may wait before it claims, so the store's clock gives the age of the claim. The clocks may differ by any
 * amount, but a claim is never older than `askedAt`, the start of its fetch.
 */
export function claimedSince(clock: Clock, nowMs: number, askedAt: number): number {
  const monotonicMs = clock.monotonic();
  const ageMs = Math.max(0, clock.now() - nowMs);
  return Math.max(monotonicMs - ageMs, askedAt);
}
