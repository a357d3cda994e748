import { expect, it } from 'vitest';
import { systemClock } from '../../model/clock.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import { resolveOptions } from '../options.ts';
import { ClaimsAhead } from './claims-ahead.ts';
import { Slots, type WorkLimiter } from './concurrency.ts';
import { WorkFetcher } from './work-fetcher.ts';
import type { WorkHandlers } from './work-handlers.ts';

/**
 * A fetcher without a free slot, and the fetches that it sent. The first fetches return the items of `claims`, and a later one
 * waits until its signal aborts.
 */
function setUp(
  limiters: readonly Partial<WorkLimiter>[],
  claims: readonly (readonly WorkItem[])[] = [],
) {
  const slots = new Slots(1);
  slots.take(1);
  const fetches: { readonly max: number }[] = [];
  const provider: Partial<Provider> = {
    fetchWorkItems: ({ signal, ...fetch }) => {
      const claimed = claims[fetches.length];
      fetches.push(fetch);
      if (claimed !== undefined) return Promise.resolve(claimed);
      return new Promise((resolve) => signal?.addEventListener('abort', () => resolve([])));
    },
  };
  const ahead = new ClaimsAhead(systemClock);
  const handlers: Partial<WorkHandlers> = {
    activityNames: () => [],
    unboundedTasks: () => [],
    limiters: () => limiters as readonly WorkLimiter[],
  };
  const fetcher = new WorkFetcher({
    provider: provider as Provider,
    clock: systemClock,
    options: resolveOptions({}, 'build'),
    slots,
    ahead,
    handlers: handlers as WorkHandlers,
    batches: [],
    take: () => undefined,
    onStoreReplaced: () => undefined,
  });
  return { fetcher, slots, ahead, fetches };
}

it('stop() directly after start() sends no fetch while all slots are taken', async () => {
  const { fetcher, fetches } = setUp([]);
  fetcher.start();
  await fetcher.stop();
  expect(fetches).toEqual([]);
});

it('stop() while a limited worker waits for the next iteration sends no fetch', async () => {
  const { fetcher, slots, fetches } = setUp([{ task: 'limited', capacity: () => 1 }]);
  fetcher.start();
  const stopped = fetcher.stop();
  slots.release(1);
  await stopped;
  expect(fetches).toEqual([]);
});

it('a fast worker claims for its free slots and ahead in one fetch, until a claim is not full', async () => {
  const items = (count: number) => Array.from({ length: count }, () => ({ nowMs: 0 }) as WorkItem);
  const { fetcher, slots, ahead, fetches } = setUp([], [items(1), items(500)]);
  for (let count = 0; count < 32; count += 1) ahead.ended(1);
  slots.release(1);
  fetcher.start();
  await expect.poll(() => fetches.length).toBe(3);
  await fetcher.stop();
  expect(fetches.map(({ max }) => max)).toEqual([1, 501, 1]);
});
