import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Perdure } from '../../../src/perdure.ts';
import { openSqlite } from '../../../src/providers/sqlite/provider.ts';
import { FakeClock } from '../../../src/testing/fake-clock.ts';
import { HandlerFloor } from './handler-floor.ts';
import { scenario, type Scenario } from './job-scenario.ts';
import { JobWorld, type Surroundings } from './job-world.ts';

// Opening a store takes longer than a scenario; one that ended well leaves nothing behind.
const scenariosPerStore = 100;

interface OpenStore extends Surroundings {
  close(): Promise<void>;
}

async function openMemory(): Promise<OpenStore> {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const floor = new HandlerFloor();
  const perdure = await Perdure.open(provider, { clock, pollInterval: 20 });
  await perdure.startWorker({ ...floor.definitions, shutdownGrace: 0 });
  return {
    provider,
    clock,
    operator: perdure.client,
    floor,
    expireLeases: () => clock.advance('10s'),
    close: () => perdure.close(),
  };
}

/** Lives scenarios one after the other, with a fresh store now and then. */
class Lives {
  count = 0;
  #store: OpenStore | undefined;
  readonly #open: () => Promise<OpenStore>;

  constructor(open: () => Promise<OpenStore>) {
    this.#open = open;
  }

  async live(one: Scenario): Promise<readonly string[]> {
    if (this.count % scenariosPerStore === 0) await this.close();
    this.#store ??= await this.#open();
    this.#store.floor.forget();
    const world = new JobWorld(this.#store, `s${this.count++}`);
    try {
      await world.live(one);
    } catch (error) {
      await this.close();
      throw error;
    }
    if (world.violations.length > 0) await this.close();
    return world.violations;
  }

  async close(): Promise<void> {
    await this.#store?.close();
    this.#store = undefined;
  }
}

describe('jobs and sessions under random timing, broken lines and shutdowns', () => {
  const runs = Number(process.env['JOB_MODEL_RUNS'] ?? 2_000);

  it(`of ${runs} lives each job has one reply, nobody is stopped for another, nothing is left`, async () => {
    const lives = new Lives(openMemory);
    try {
      const property = fc.asyncProperty(scenario, async (one) => {
        expect(await lives.live(one)).toEqual([]);
      });
      await fc.assert(property, { numRuns: runs });
    } finally {
      await lives.close();
    }
  }, 600_000);
});
