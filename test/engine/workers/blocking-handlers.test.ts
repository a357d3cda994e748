import { expect, it, onTestFinished } from 'vitest';
import { Perdure } from '../../../src/perdure.ts';
import { task } from '../../../src/tasks/task.ts';

it('a handler that blocks past its lease fails with EVENT_LOOP_BLOCKED on in-memory SQLite', async () => {
  const perdure = await Perdure.open(':memory:');
  onTestFinished(() => perdure.close());
  let calls = 0;
  const computes = task('computes', () => {
    calls += 1;
    for (const endsAt = performance.now() + 1_100; performance.now() < endsAt;);
  });
  await perdure.startWorker({ tasks: [computes], activityLease: '1s' });
  const run = await perdure.client.runTask(computes);
  const failure = await run.result({ timeout: '30s' }).catch((error: Error) => error.cause);
  expect(failure).toMatchObject({
    code: 'EVENT_LOOP_BLOCKED',
    message: expect.stringMatching(
      /^Task "computes" blocked the event loop for 1\.\d s, longer than its lease of 1 s/,
    ) as string,
  });
  expect(calls).toBe(1);
});
