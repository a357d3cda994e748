import { expect, test } from 'vitest';
import { checkModel } from './helpers/check-model.ts';
import { crashRuns } from './helpers/model-runs.ts';

test('the engine matches the model while workers crash, stop and join and the store fails', async () => {
  const { failure, runs } = await checkModel({ profile: 'crashes', runs: crashRuns });
  expect(failure).toBeUndefined();
  expect(runs).toBe(crashRuns);
}, 240_000);
