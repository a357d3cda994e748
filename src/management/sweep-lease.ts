import type { Clock } from '../model/clock.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { readRetention } from './retention-records.ts';
import type { Interruption } from './sweep.ts';

/** How long a sweeper that died keeps others from sweeping. */
export const sweepLeaseMs = 60_000;

/** The right to sweep, which one process of all has at a time. */
export class SweepLease {
  readonly #store: Provider;
  readonly #clock: Clock;
  readonly #owner: string;
  #renewAt = 0;

  constructor(store: Provider, clock: Clock, owner: string) {
    this.#store = store;
    this.#clock = clock;
    this.#owner = owner;
  }

  /** Takes or extends it; `false` while another has it. */
  async take(): Promise<boolean> {
    this.#renewAt = this.#clock.monotonic() + sweepLeaseMs / 3;
    return this.#store.takeLease({ name, owner: this.#owner, leaseMs: sweepLeaseMs });
  }

  /** Extends it when it is time; says why to stop sweeping, if there is a reason. */
  async check(heedsPause: boolean): Promise<Interruption | undefined> {
    if (this.#clock.monotonic() >= this.#renewAt && !(await this.take())) return 'lostLease';
    if (heedsPause && (await readRetention(this.#store, 'paused')) !== null) return 'paused';
    return undefined;
  }

  /** Lets the next one have it. */
  async release(): Promise<void> {
    await this.#store.releaseLease({ name, owner: this.#owner });
  }
}

const name = 'retention';
