import type { Clock } from '../model/clock.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { readFields } from '../model/option-fields.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { readActor, readFlag, readSignal } from './option-values.ts';
import { readRetentionPolicies, type RetentionPolicy } from './retention-policy.ts';
import {
  readRetention,
  writeRetention,
  type RetentionReport,
  type RetentionStatus,
} from './retention-records.ts';
import { runSweep } from './run-sweep.ts';
import { SweepLease } from './sweep-lease.ts';

/** How to sweep by hand. */
export interface RunRetentionOptions {
  /** Default: those by which workers last swept. */
  readonly policies?: readonly RetentionPolicy[] | undefined;
  /** Count what would go, and change nothing. */
  readonly dryRun?: boolean | undefined;
  /** Who asks, for the audit and the report. */
  readonly actor?: string | undefined;
  /** Stops between two transactions; the report says so. */
  readonly signal?: AbortSignal | undefined;
}

/** Looks at retention, stops it, and runs it by hand. */
export class RetentionControl {
  readonly #store: Provider;
  readonly #clock: Clock;
  readonly #assertOpen: () => void;

  constructor(store: Provider, clock: Clock, assertOpen: () => void) {
    this.#store = store;
    this.#clock = clock;
    this.#assertOpen = assertOpen;
  }

  /** Tells where retention stands: whether it is paused, what the last sweep did, and by which policies. */
  async status(): Promise<RetentionStatus> {
    this.#assertOpen();
    const [paused, lastReport, policies, fullWalkAt] = await Promise.all([
      readRetention(this.#store, 'paused'),
      readRetention(this.#store, 'lastReport'),
      readRetention(this.#store, 'policies'),
      readRetention(this.#store, 'fullWalkAt'),
    ]);
    return { paused, lastReport, policies, fullWalkAt };
  }

  /** Keeps the workers of this store from sweeping; a sweep under way ends after its transaction. Idempotent. */
  async pause(options?: { readonly actor?: string | undefined }): Promise<void> {
    this.#assertOpen();
    const { actor } = readFields(options, 'retention.pause()', ['actor'] as const);
    const by = readActor(actor);
    await writeRetention(this.#store, 'paused', { at: this.#clock.now(), actor: by });
  }

  /** Lets the workers sweep again, within a minute. Idempotent. */
  async resume(): Promise<void> {
    this.#assertOpen();
    await writeRetention(this.#store, 'paused', null);
  }

  /** Sweeps now, paused or not, and answers the report; `null` when another sweep is under way. */
  async run(options?: RunRetentionOptions): Promise<RetentionReport | null> {
    this.#assertOpen();
    const given = readFields(options, 'retention.run()', [
      'policies',
      'dryRun',
      'actor',
      'signal',
    ] as const);
    const dryRun = readFlag('dryRun', given.dryRun);
    const signal = readSignal(given.signal);
    const sweeper = readActor(given.actor) ?? `client ${randomToken()}`;
    const rules = readRetentionPolicies(given.policies ?? (await this.#knownPolicies()));
    const run = { store: this.#store, clock: this.#clock, rules, dryRun, sweeper, signal };
    // A dry run gets in nobody's way.
    if (dryRun) return runSweep({ ...run, interrupted: async () => undefined });
    const lease = new SweepLease(this.#store, this.#clock, randomToken());
    if (!(await lease.take())) return null;
    try {
      const report = await runSweep({ ...run, interrupted: () => lease.check(false) });
      if (report.outcome !== 'lostLease') await writeRetention(this.#store, 'lastReport', report);
      return report;
    } finally {
      await lease.release();
    }
  }

  async #knownPolicies(): Promise<readonly RetentionPolicy[]> {
    const policies = await readRetention(this.#store, 'policies');
    if (policies !== null) return policies;
    throw new PerdureError(
      'INVALID_OPTION',
      'No worker of this store has swept yet, so there are no policies to go by. Pass policies, or start a worker with the option retention.',
    );
  }
}
