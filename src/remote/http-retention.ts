import type { RetentionControl, RunRetentionOptions } from '../management/retention-control.ts';
import type { RetentionReport, RetentionStatus } from '../management/retention-records.ts';
import { readActor, readFlag, readSignal } from '../management/option-values.ts';
import { readRetentionPolicies } from '../management/retention-policy.ts';
import { readFields } from '../model/option-fields.ts';
import type { Request } from './operations.ts';
import type { Transport } from './transport.ts';

const again = { repeatable: true };

/** Retention of a store that is open in a server. */
export class HttpRetention implements Pick<RetentionControl, keyof RetentionControl> {
  readonly #transport: Transport;
  readonly #assertOpen: () => void;

  constructor(transport: Transport, assertOpen: () => void) {
    this.#transport = transport;
    this.#assertOpen = assertOpen;
  }

  async status(): Promise<RetentionStatus> {
    this.#assertOpen();
    return this.#transport.call('getRetention', {});
  }

  async pause(options?: { readonly actor?: string | undefined }): Promise<void> {
    this.#assertOpen();
    const { actor } = readFields(options, 'retention.pause()', ['actor'] as const);
    const body = { actor: readActor(actor) ?? undefined };
    await this.#transport.call('pauseRetention', { body }, again);
  }

  async resume(): Promise<void> {
    this.#assertOpen();
    await this.#transport.call('resumeRetention', { body: {} }, again);
  }

  async run(options?: RunRetentionOptions): Promise<RetentionReport | null> {
    this.#assertOpen();
    const given = readFields(options, 'retention.run()', [
      'policies',
      'dryRun',
      'actor',
      'signal',
    ] as const);
    if (given.policies !== undefined) readRetentionPolicies(given.policies);
    const body = {
      policies: given.policies,
      dryRun: readFlag('dryRun', given.dryRun),
      actor: readActor(given.actor) ?? undefined,
    } as Request<'runRetention'>['body'];
    const signal = readSignal(given.signal);
    const { report } = await this.#transport.call('runRetention', { body }, { ...again, signal });
    return report;
  }
}
