import { expect, test } from 'vitest';
import { checkModel } from './helpers/check-model.ts';
import { takeoverSituations } from './helpers/coverage.ts';
import { takeoverRuns } from './helpers/model-runs.ts';

test('the engine matches the model while workers take over the claims of crashed ones', async () => {
  const { failure, coverage, runs } = await checkModel({
    profile: 'takeovers',
    runs: takeoverRuns,
  });
  expect(failure).toBeUndefined();
  expect(runs).toBe(takeoverRuns);
  // A check that reaches no situation cannot fail.
  const missing = takeoverSituations.filter((situation) => coverage.counts.get(situation) === 0);
  expect(missing).toEqual([]);
}, 240_000);
