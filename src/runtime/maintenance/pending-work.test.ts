import { expect, it } from 'vitest';
import { PendingWork } from './pending-work.ts';

it('resolves idle() when every promise has settled', async () => {
  const pending = new PendingWork();
  await pending.idle();
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  pending.add(first.promise);
  pending.watch(second.promise);
  let isIdle = false;
  const idle = pending.idle().then(() => (isIdle = true));
  first.resolve();
  await first.promise;
  expect([pending.size, isIdle]).toEqual([1, false]);
  second.reject(new Error('handled by its caller'));
  await idle;
  expect([pending.size, isIdle]).toEqual([0, true]);
});
