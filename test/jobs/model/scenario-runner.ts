import { LocalClient } from '../../../src/client/local-client.ts';
import { type Clock, systemClock } from '../../../src/model/clock.ts';
import { Perdure } from '../../../src/perdure.ts';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { ControlledHandlers } from './controlled-handlers.ts';
import type { Scenario } from './job-scenario.ts';
import { ScenarioRun, type ScenarioContext } from './scenario-run.ts';

// Opening a store takes longer than a scenario, and a scenario that passes leaves no rows.
const scenariosPerStore = 100;

/** An open store with a worker. */
export interface OpenStore extends ScenarioContext {
  close(): Promise<void>;
}

/** Opens an in-memory store with a fake clock. */
export async function openMemory(): Promise<OpenStore> {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  return openStore(provider, clock, () => clock.advance('40s'));
}

/** Opens a store with a real clock, on which leases cannot be expired. */
export function openWithRealTime(provider: Provider): Promise<OpenStore> {
  const clock = provider.clock ?? systemClock;
  return openStore(provider, clock, () => Promise.reject(new Error('Nobody dies here.')));
}

async function openStore(
  provider: Provider,
  clock: Clock,
  expireLeases: () => Promise<void>,
): Promise<OpenStore> {
  const handlers = new ControlledHandlers();
  const perdure = await Perdure.open(provider, { clock });
  const operator = new LocalClient({ provider, clock, recheckMs: 3 });
  await perdure.startWorker({ ...handlers.definitions, shutdownGrace: 0 });
  return {
    provider,
    clock,
    operator,
    handlers,
    expireLeases,
    async close() {
      await operator.close();
      await perdure.close();
    },
  };
}

/** Runs scenarios one after the other, on a new store every 100 scenarios. */
export class ScenarioRunner {
  readonly #open: () => Promise<OpenStore>;
  #store: OpenStore | undefined;
  #count = 0;

  constructor(open: () => Promise<OpenStore>) {
    this.#open = open;
  }

  /** Returns the violations of one scenario. */
  async run(one: Scenario): Promise<readonly string[]> {
    if (this.#count % scenariosPerStore === 0) await this.close();
    this.#store ??= await this.#open();
    this.#store.handlers.reset();
    const scenarioRun = new ScenarioRun(this.#store, `s${this.#count++}`);
    try {
      await scenarioRun.run(one);
    } catch (error) {
      await this.close();
      throw error;
    }
    if (scenarioRun.violations.length > 0) await this.close();
    return scenarioRun.violations;
  }

  async close(): Promise<void> {
    await this.#store?.close();
    this.#store = undefined;
  }
}
