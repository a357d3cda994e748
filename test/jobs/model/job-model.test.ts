import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Provider } from '../../../src/providers/contract/provider.ts';
import { engineStores } from '../../engine/engine-store.ts';
import { ScenarioRunner, openMemory, openWithRealTime, type OpenStore } from './scenario-runner.ts';
import { scenario, scenarioWithoutDeath, type Scenario } from './job-scenario.ts';

// `npm run test:modes` runs more.
const isLong = process.env['MODE'] === 'all-modes';
const [sqliteRuns, postgresRuns] = isLong ? [2_000, 100] : [500, 40];

/** Runs `numRuns` random scenarios; throws with the smallest that fails. */
async function check(
  open: () => Promise<OpenStore>,
  scenarios: fc.Arbitrary<Scenario>,
  numRuns: number,
): Promise<void> {
  const runner = new ScenarioRunner(open);
  onTestFinished(() => runner.close());
  const property = fc.asyncProperty(scenarios, async (one) => {
    expect(await runner.run(one)).toEqual([]);
  });
  await fc.assert(property, { numRuns });
}

/** Opens a store with one guard removed for the client under test. */
async function openBroken(override: (provider: Provider) => Partial<Provider>): Promise<OpenStore> {
  const store = await openMemory();
  const overridden = override(store.provider);
  const provider = new Proxy(store.provider, {
    get(target, key) {
      const value: unknown = Reflect.get(overridden, key) ?? Reflect.get(target, key);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  return { ...store, provider, timeoutMs: 1_000 };
}

describe('jobs and sessions under random timing, broken connections and shutdowns', () => {
  it(`in ${sqliteRuns} scenarios on SQLite each job gets one reply and nothing is left`, async () => {
    await check(openMemory, scenario, sqliteRuns);
  }, 600_000);

  describe('on PostgreSQL', () => {
    const newStore = engineStores('PostgreSQL');

    it(`in ${postgresRuns} scenarios on PostgreSQL each job gets one reply and nothing is left`, async () => {
      const open = async (): Promise<OpenStore> =>
        openWithRealTime(await (await newStore()).open());
      await check(open, scenarioWithoutDeath, postgresRuns);
    }, 600_000);
  });

  it.each<{ fault: string; override: (provider: Provider) => Partial<Provider> }>([
    {
      fault: 'close() cancels any run with the id',
      override: (provider) => ({
        abandonJobs: (jobs) =>
          provider.requestCancel(
            jobs.map(({ instanceId, reason, actor, cleanupMs }) => ({
              instanceId,
              reason,
              actor,
              cleanupMs,
            })),
          ),
      }),
    },
    {
      fault: 'close() is lost',
      override: () => ({
        abandonJobs: async (jobs) =>
          jobs.map(() => ({ found: true, changed: true, status: 'canceling' as const })),
      }),
    },
    {
      fault: 'a closed session leaves its jobs running',
      override: (provider) => ({
        shutdownSession: (request) =>
          provider.shutdownSession({ ...request, mode: 'graceful', end: 'shutdown' }),
      }),
    },
    {
      fault: 'a run gets the reply of another run',
      override: (provider) => {
        let last: string | null = null;
        return {
          async getInstances(ids) {
            const records = await provider.getInstances(ids);
            return records.map((record) => {
              if (record?.status !== 'completed') return record;
              const output = last ?? record.output;
              last = record.output;
              return { ...record, output };
            });
          },
        };
      },
    },
  ])(
    'the model check fails when $fault',
    async ({ override }) => {
      const runner = new ScenarioRunner(() => openBroken(override));
      onTestFinished(() => runner.close());
      const property = fc.asyncProperty(scenario, async (one) => {
        expect(await runner.run(one)).toEqual([]);
      });
      const { failed } = await fc.check(property, { numRuns: 1_000, endOnFailure: true });
      expect(failed).toBe(true);
    },
    120_000,
  );
});
