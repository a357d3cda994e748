import { expect, it } from 'vitest';
import type { FetchWorkItemsParams } from '../../contract/work-queue.ts';
import { LimitedDefinitions } from '../batches/limited-definitions.ts';
import { LimitedFetches } from './limited-fetches.ts';

it('a due query without unlimited items is kept only while it counts', async () => {
  let now = 0;
  const store: Pick<
    ConstructorParameters<typeof LimitedFetches>[0],
    'limited' | 'monotonic' | 'estimatedNow' | 'schema'
  > = {
    limited: new LimitedDefinitions(),
    monotonic: () => now,
    estimatedNow: 0,
    schema: 'perdure',
  };
  const fetches = new LimitedFetches(store as ConstructorParameters<typeof LimitedFetches>[0]);
  for (; now < 10_000; now += 1) {
    const params: FetchWorkItemsParams = {
      max: 1,
      lockMs: 1_000,
      waitMs: 0,
      names: [],
      tasks: [`task ${now}`],
    };
    expect(await fetches.claimDue(params, undefined)).toEqual([]);
  }
  expect(fetches.keyCount).toBeLessThanOrEqual(52);
});
