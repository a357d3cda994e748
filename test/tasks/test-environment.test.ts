import { expect, it } from 'vitest';
import { task } from '../../src/index.ts';
import { createTestEnvironment } from '../../src/testing/test-environment.ts';

const remind = task(
  'remind',
  (ctx, n: number) => {
    if (ctx.attempt < 3) throw new Error('not yet');
    return n;
  },
  { retry: { maxAttempts: 3, backoff: 'fixed', initialDelay: '1d', maxDelay: '1d', jitter: 0 } },
);

it('a test environment skips start delays, retry delays and schedule ticks', async () => {
  await using env = await createTestEnvironment({ tasks: [remind] });
  const begun = env.clock.now();
  const handle = await env.client.runTask(remind, 7, { delay: '30d' });
  expect(await env.result(handle)).toBe(7);
  expect(env.clock.now() - begun).toBeGreaterThanOrEqual(32 * 86_400_000);
  await env.client.schedules.put('daily', { cron: '@daily', task: remind, input: 1 });
  await env.advance('10d');
  const { items } = await env.client.list({ idPrefix: 'daily@', status: 'completed' });
  expect(items.length).toBeGreaterThanOrEqual(7);
});

it('result() of a run that no worker can run rejects with TIMEOUT', async () => {
  await using env = await createTestEnvironment({ tasks: [remind] });
  const handle = await env.client.runTask('nobody has it');
  await expect(env.result(handle)).rejects.toMatchObject({ code: 'TIMEOUT' });
});

it('a task run has an empty history', async () => {
  await using env = await createTestEnvironment({ tasks: [remind] });
  const { id } = await env.client.runTask(remind, 1);
  expect((await env.client.history(id)).items).toEqual([]);
  expect((await env.client.exportHistory(id)).events).toEqual([]);
});
