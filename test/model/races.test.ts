import fc from 'fast-check';
import { expect, test } from 'vitest';
import { checkModel, runScenario, Stores } from './helpers/check-model.ts';
import { situations } from './helpers/coverage.ts';
import { modelRuns } from './helpers/model-runs.ts';
import { scenarios } from './helpers/scenario.ts';

test('the engine matches the model in every race between store calls', async () => {
  let missing: readonly (typeof situations)[number][] = situations;
  // A check that reaches no situation cannot fail. The rarest one is not reached by every 2,500 scenarios.
  for (let round = 0; round < 4 && missing.length > 0; round += 1) {
    const { failure, coverage, runs } = await checkModel({ profile: 'races', runs: modelRuns });
    expect(failure).toBeUndefined();
    expect(runs).toBe(modelRuns);
    missing = missing.filter((situation) => coverage.counts.get(situation) === 0);
  }
  expect(missing).toEqual([]);
}, 400_000);

test('a scenario that runs twice produces the same trace', async () => {
  for (const profile of ['races', 'crashes', 'takeovers'] as const) {
    const stores = new Stores(profile);
    try {
      for (const scenario of fc.sample(scenarios(profile), { numRuns: 20, seed: 1 })) {
        const [first, second] = [
          await runScenario(scenario, stores),
          await runScenario(scenario, stores),
        ].map(({ trace }) => inOrder(trace.map(withoutNames)));
        expect(second).toEqual(first);
      }
    } finally {
      await stores.close();
    }
  }
}, 60_000);

/**
 * Divides a trace: what happened in the store keeps its order. When a client learns the result of a deletion or a prune
 * depends on the pauses between their transactions, so results are compared in any order.
 */
function inOrder(trace: readonly string[]): {
  store: readonly string[];
  results: readonly string[];
} {
  const isResult = (line: string): boolean => /^ {2}\d+: /.test(line);
  return {
    store: trace.filter((line) => !isResult(line)),
    results: trace.filter(isResult).toSorted(),
  };
}

/** Tokens, keys, ids and times differ in every run. */
function withoutNames(line: string): string {
  return line
    .replaceAll(/\bkey:[~\w-]+/g, 'key')
    .replaceAll(/\d+\.[\w-]{22}/g, 'token')
    .replaceAll(/w\d+-/g, '')
    .replaceAll(/\b1\d{12}\b/g, 'time');
}
