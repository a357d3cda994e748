import { expect, test } from 'vitest';
import { checkModel } from './check-model.ts';
import { modelRuns } from './model-runs.ts';

test('the store and the runtime never diverge from the model while workers come and go and the store fails', async () => {
  const { failure, runs } = await checkModel({ profile: 'crashes', runs: modelRuns });
  expect(failure).toBeUndefined();
  expect(runs).toBe(modelRuns);
}, 240_000);
