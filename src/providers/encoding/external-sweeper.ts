import type { Clock } from '../../model/clock.ts';
import type { ExternalPayloadStore } from '../../model/encoding/external-store.ts';
import type { Logger } from '../../model/logger.ts';
import { PeriodicLoop } from '../../model/periodic-loop.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { Provider } from '../contract/provider.ts';
import { sweepExternalPayloads } from './external-sweep.ts';

const intervalMs = 10 * 60_000;
const leaseName = 'external-payloads';

/** Sweeps external payloads every 10 minutes, in one process at a time. */
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
    this.#loop = new PeriodicLoop({
      clock,
      round: async () => {
        if (!(await provider.takeLease({ name: leaseName, owner, leaseMs: intervalMs })))
          return intervalMs;
        const { signal } = this.#stopping;
        const deleted = await sweepExternalPayloads(store, provider, { signal });
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
