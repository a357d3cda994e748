import { expect, it } from 'vitest';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from '../engine/describe-engine.ts';

describeEngine('tasks', (open) => {
  const double = task('double', async (_ctx, n: number) => n * 2);

  it('a task is run by a worker and its result is read by whoever waits', async () => {
    const { client } = await open({ tasks: [double] });
    const handle = await client.runTask(double, 21, { id: 'answer' });
    expect(handle).toMatchObject({ id: 'answer', created: true });
    expect(await handle.result()).toBe(42);
    expect(await handle.status()).toMatchObject({
      id: 'answer',
      kind: 'task',
      name: 'double',
      status: 'completed',
      output: 42,
      task: { priority: 0, failures: 0, headers: {} },
    });
  });
});
