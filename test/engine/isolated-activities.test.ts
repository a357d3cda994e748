import { expect, it } from 'vitest';
import { isolatedActivity } from '../../src/orchestration/isolated-activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

const module = new URL('./isolated-handlers.ts', import.meta.url);

describeEngine('isolated activities', (open) => {
  it('run in a thread with their input and context, and return their result', async () => {
    const add = isolatedActivity<{ a: number; b: number }>('add', { module, exportName: 'add' });
    const run = orchestration('run', async (ctx) => ctx.call(add, { a: 2, b: 3 }));
    const { client } = await open({ orchestrations: [run], activities: [add] });
    const handle = await client.start(run, undefined, { id: 'i' });
    expect(await handle.result()).toEqual({ sum: 5, attempt: 1, instanceId: 'i' });
  });

  it('a handler that never looks up is really stopped after the grace', async () => {
    const spin = isolatedActivity('spin', { module, exportName: 'spin' });
    const run = orchestration('run', async (ctx) => ctx.call(spin));
    const { client } = await open({
      orchestrations: [run],
      activities: [spin],
      activityConcurrency: 1,
      cancelGrace: 50,
    });
    const handle = await client.start(run, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    expect(await handle.status()).not.toHaveProperty('leaked');
    await expect.poll(() => process.getActiveResourcesInfo().includes('MessagePort')).toBe(false);
  });

  it('a handler that heeds its signal stops by itself', async () => {
    const listen = isolatedActivity('listen', { module, exportName: 'listen' });
    const run = orchestration('run', async (ctx) => ctx.call(listen));
    const { client } = await open({ orchestrations: [run], activities: [listen] });
    const handle = await client.start(run, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
  });

  it.each([
    ['fail', 'too far'],
    ['exit', 'ended with code 3'],
    ['missing', 'has no function'],
  ])('a handler that does not work (%s) fails its call', async (exportName, message) => {
    const broken = isolatedActivity('broken', { module, exportName });
    const run = orchestration('run', async (ctx) => ctx.call(broken));
    const { client } = await open({ orchestrations: [run], activities: [broken] });
    const handle = await client.start(run, undefined);
    await expect(handle.result()).rejects.toThrow(message);
  });
});
