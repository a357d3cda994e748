import { setTimeout as delay } from 'node:timers/promises';
import type { Outage } from '../oracles/operation-records.ts';
import type { StoreFaults } from './loop-store.ts';
import type { StoredState } from '../oracles/stored-state.ts';

export interface FaultInjectorParams {
  readonly faults: StoreFaults | undefined;
  readonly state: StoredState;
  readonly restarts: number;
  readonly cuts: number;
  /** Average time between two faults. */
  readonly everyMs: number;
}

/** Restarts the server and cuts its connections under load. */
export class FaultInjector {
  readonly outages: Outage[] = [];
  /** Statements whose response was lost to a cut. */
  cutAnswers = 0;
  /** Times from the return of the server to the next event. */
  readonly recoveriesMs: number[] = [];
  readonly #params: FaultInjectorParams;

  constructor(params: FaultInjectorParams) {
    this.#params = params;
  }

  async run(): Promise<void> {
    const { faults, restarts, cuts, everyMs } = this.#params;
    if (faults === undefined) return;
    for (const fault of spread(restarts, cuts)) {
      await delay(everyMs * (0.5 + Math.random()));
      if (fault === 'cut') await untilWaiting(faults);
      const from = Date.now();
      if (fault === 'restart') await faults.restart();
      else this.cutAnswers += faults.cut();
      // Clients need a moment to detect a lost connection.
      this.outages.push({ from, to: Date.now() + 100 });
      if (fault === 'restart') await this.#recover();
    }
  }

  async #recover(): Promise<void> {
    const { state } = this.#params;
    const back = performance.now();
    const before = await state.eventCount();
    while ((await state.eventCount()) === before && performance.now() < back + 20_000) {
      await delay(10);
    }
    this.recoveriesMs.push(performance.now() - back);
  }
}

/** Waits up to a second. Most cuts must hit a statement, also on a machine that sends few. */
async function untilWaiting(faults: StoreFaults): Promise<void> {
  const until = performance.now() + 1_000;
  while (!faults.isWaiting() && performance.now() < until) await delay(1);
}

/** Orders the faults so that the rarer ones are spread evenly. */
function spread(restarts: number, cuts: number): readonly ('restart' | 'cut')[] {
  const at = (index: number, count: number): number => (index + 0.5) / count;
  return [
    ...Array.from({ length: restarts }, (_, i) => ({
      fault: 'restart' as const,
      at: at(i, restarts),
    })),
    ...Array.from({ length: cuts }, (_, i) => ({ fault: 'cut' as const, at: at(i, cuts) })),
  ]
    .toSorted((a, b) => a.at - b.at)
    .map(({ fault }) => fault);
}
