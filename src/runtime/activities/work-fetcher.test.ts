import { expect, it } from 'vitest';
import { systemClock } from '../../model/clock.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { resolveOptions } from '../options.ts';
import { ClaimsAhead } from './claims-ahead.ts';
import { Slots, type WorkLimiter } from './concurrency.ts';
import { WorkFetcher } from './work-fetcher.ts';
import type { WorkHandlers } from './work-handlers.ts';

/** A fetcher without a free slot, and the fetches that it sent. A fetch waits until its signal aborts. */
function setUp(limiters: readonly Partial<WorkLimiter>[]) {
  const slots = new Slots(1);
  slots.take(1);
  const fetches: unknown[] = [];
  const provider: Partial<Provider> = {
    fetchWorkItems: ({ signal, ...fetch }) => {
      fetches.push(fetch);
      return new Promise((resolve) => signal?.addEventListener('abort', () => resolve([])));
    },
  };
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
    ahead: new ClaimsAhead(systemClock),
    handlers: handlers as WorkHandlers,
    batches: [],
    take: () => undefined,
    onStoreReplaced: () => undefined,
  });
  return { fetcher, slots, fetches };
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
