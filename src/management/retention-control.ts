import type { Clock } from '../model/clock.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { readFields } from '../model/option-fields.ts';
import { randomToken } from '../model/values/random-id.ts';
import type { Provider } from '../providers/contract/provider.ts';
import { noteEntry, readFlag, readSignal } from './management-options.ts';
import { readActor, readAuditOptions, type AuditOptions } from '../model/audit-options.ts';
import { readRetentionPolicies, type RetentionPolicy } from './retention-policy.ts';
import {
  readRetention,
  writeRetention,
  type RetentionReport,
  type RetentionStatus,
} from './retention-records.ts';
import { runSweep } from './sweep.ts';
import { SweepLease } from './sweeper.ts';

/** Options of a manual sweep. */
export interface RunRetentionOptions {
  /** Default: the policies of the last sweep by a worker. */
  readonly policies?: readonly RetentionPolicy[] | undefined;
  /** Only counts the instances and executions to delete. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** The actor in the audit and the report. */
  readonly actor?: string | undefined;
  /** Stops before the next transaction. The report has the outcome `stopped`. */
  readonly signal?: AbortSignal | undefined;
}

/** Reads, pauses, resumes and runs retention. */
export class RetentionControl {
  readonly #store: Provider;
  readonly #clock: Clock;
  readonly #assertOpen: () => void;

  constructor(store: Provider, clock: Clock, assertOpen: () => void) {
    this.#store = store;
    this.#clock = clock;
    this.#assertOpen = assertOpen;
  }

  /** Returns whether retention is paused, the report of the last sweep, and its policies. */
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

  /** Pauses the sweeps of all workers of this store. A running sweep ends after its current transaction. Idempotent. */
  async pause(options?: AuditOptions): Promise<void> {
    this.#assertOpen();
    const note = readAuditOptions(options, 'retention.pause()');
    const audit = noteEntry('retentionPause', note, {});
    const paused = { at: this.#clock.now(), actor: note.actor };
    await writeRetention(this.#store, 'paused', paused, audit);
  }

  /** Resumes the sweeps of the workers, within a minute. Idempotent. */
  async resume(options?: AuditOptions): Promise<void> {
    this.#assertOpen();
    const note = readAuditOptions(options, 'retention.resume()');
    const audit = noteEntry('retentionResume', note, {});
    await writeRetention(this.#store, 'paused', null, audit);
  }

  /** Sweeps immediately, even while paused. Resolves with the report, or `null` if another sweep is running. */
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
    // A dry run needs no lease: it deletes nothing.
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
      'No worker of this store has run a sweep, so there are no stored policies. Pass `policies`, or start a worker with the `retention` option.',
    );
  }
}
