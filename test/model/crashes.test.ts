import { expect, test } from 'vitest';
import { checkModel } from './helpers/check-model.ts';
import { crashSituations } from './helpers/coverage.ts';
import { modelRuns } from './helpers/model-runs.ts';

test('the engine matches the model while workers crash, are taken over, stop and join, and the store fails', async () => {
  const { failure, coverage, runs } = await checkModel({ profile: 'crashes', runs: modelRuns });
  expect(failure).toBeUndefined();
  expect(runs).toBe(modelRuns);
  // A check that reaches no situation cannot fail.
  expect(crashSituations.filter((situation) => coverage.counts.get(situation) === 0)).toEqual([]);
}, 240_000);
