import type { Clock } from '../../model/clock.ts';
import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { Provider } from '../contract/provider.ts';
import { SweptInstances, sweepExternalPayloads } from './external-sweep.ts';

const intervalMs = 10 * 60_000;
/** A sweep can take longer than its lease. */
const renewMs = intervalMs / 4;
const leaseName = 'external-payloads';

/** Sweeps external payloads every 10 minutes, in one process at a time. A sweep whose lease was lost stops. */
export class ExternalSweeper {
  readonly #loop: PeriodicLoop;
  readonly #stopping = new AbortController();
  #hasStarted = false;

  constructor({
    provider,
    clock,
    logger,
    store,
  }: {
    readonly provider: Provider;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly store: ExternalPayloadStore;
  }) {
    const owner = randomToken();
    const seen = new SweptInstances();
    this.#loop = new PeriodicLoop({
      clock,
      round: async () => {
        let renewAt = -Infinity;
        const mayContinue = async (): Promise<boolean> => {
          if (this.#stopping.signal.aborted) return false;
          if (clock.monotonic() < renewAt) return true;
          renewAt = clock.monotonic() + renewMs;
          return provider.takeLease({ name: leaseName, owner, leaseMs: intervalMs });
        };
        const deleted = await sweepExternalPayloads(store, provider, { seen, mayContinue });
        if (deleted > 0) logger.debug({ deleted }, 'deleted external payloads');
        return intervalMs;
      },
      onError: (error) => logger.warn({ error }, 'sweeping external payloads failed, will retry'),
    });
  }

  /** Starts the sweeps. Idempotent. */
  start(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    this.#loop.start();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    if (this.#hasStarted) await this.#loop.stop();
  }
}
