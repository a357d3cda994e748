import { expect, it } from 'vitest';
import { isolatedTask } from '../../src/tasks/task.ts';
import { describeEngine, modesWithoutTurns } from '../engine/describe-engine.ts';

const module = new URL('./isolated-handlers.ts', import.meta.url);

describeEngine(
  'isolated tasks',
  (open) => {
    it('an isolated task gets its input and context and returns its result', async () => {
      const look = isolatedTask<string>('look', { module, exportName: 'describe' });
      const { client } = await open({ tasks: [look] });
      const headers = { trace: 't' };
      const handle = await client.runTask(look, 'in', { id: 'run', headers });
      expect(await handle.result()).toEqual({
        runId: 'run',
        taskName: 'look',
        headers,
        attempt: 1,
        input: 'in',
      });
    });

    it('a handler that blocks its thread is terminated after the grace, not leaked', async () => {
      const spin = isolatedTask('spin', { module, exportName: 'spin' });
      const { client } = await open({ tasks: [spin], cancelGrace: 50 });
      const handle = await client.runTask(spin);
      await expect.poll(async () => (await handle.status()).status).toBe('running');
      await handle.cancel();
      expect(await client.wait(handle.id)).toMatchObject({ status: 'canceled' });
      expect(await handle.status()).not.toHaveProperty('leaked');
    });

    it('an isolated handler can cancel its own run', async () => {
      const quit = isolatedTask('quit', { module, exportName: 'quit' });
      const { client } = await open({ tasks: [quit] });
      const handle = await client.runTask(quit);
      await expect(handle.result()).rejects.toMatchObject({ reason: 'enough' });
    });

    it('a condition is evaluated before a thread starts', async () => {
      const nowhere = new URL('./there-is-no-such-module.ts', import.meta.url);
      const never = isolatedTask('never', { module: nowhere }, { condition: () => false });
      const { client } = await open({ tasks: [never] });
      await expect((await client.runTask(never)).result()).rejects.toMatchObject({
        code: 'TASK_SKIPPED',
      });
    });
  },
  modesWithoutTurns,
);
