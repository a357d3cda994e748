import { expect, test } from 'vitest';
import { checkModel } from './helpers/check-model.ts';
import { modelRuns } from './helpers/model-runs.ts';

test('the engine matches the model while workers crash, stop and join and the store fails', async () => {
  const { failure, runs } = await checkModel({ profile: 'crashes', runs: modelRuns });
  expect(failure).toBeUndefined();
  expect(runs).toBe(modelRuns);
}, 240_000);
