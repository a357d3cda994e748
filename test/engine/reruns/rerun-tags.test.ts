import { activity, orchestration, task } from 'perdure';
import { expect, it } from 'vitest';
import { describeEngine } from '../describe-engine.ts';

describeEngine(
  'tags of retries and forks',
  (open) => {
    it('a retry from the failure has the tags of its kept events, and one from the start those of the row', async () => {
      let isBroken = true;
      const step = activity('step', () => {
        if (isBroken) throw new Error('broken');
      });
      const tagged = orchestration('tagged', async (ctx) => {
        ctx.setTags({ stage: 'first' });
        try {
          await ctx.call(step, undefined, { retry: { maxAttempts: 1 } });
        } catch (error) {
          ctx.setTags({ stage: 'failed', late: 'yes' });
          throw error;
        }
        const free = Object.fromEntries(Array.from({ length: 14 }, (_, n) => [`t${n}`, 'x']));
        ctx.setTags(free);
        return 'done';
      });
      const { client } = await open({ orchestrations: [tagged], activities: [step] });
      const found = async (tags: Record<string, string>) =>
        (await client.list({ tags })).items.map(({ id }) => id);
      const handle = await client.start(tagged, undefined, { id: 'a', tags: { tenant: '7' } });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      const failed = { tenant: '7', stage: 'failed', late: 'yes' };
      expect((await handle.status()).tags).toEqual(failed);
      await handle.retry({ from: 'start' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      const { items } = await client.history('a', { executionId: 2 });
      expect(items[0]?.event).toMatchObject({ kind: 'executionStarted', tags: failed });
      await client.fork('a', { from: 'start', id: 'fresh' });
      expect(await found({ tenant: '7' })).toHaveLength(2);
      await client.wait('fresh');
      isBroken = false;
      // Execution 1 began without `late`. With it, 14 more tags exceed the limit of 16.
      const fork = await client.fork('a', { from: 'failure', id: 'fork', executionId: 1 });
      expect(await fork.result()).toBe('done');
      const { tags } = await fork.status();
      expect(tags).toMatchObject({ tenant: '7', stage: 'first', t13: 'x' });
      expect(Object.keys(tags ?? {})).toHaveLength(16);
      expect(await found({ tenant: '7', t0: 'x' })).toEqual(['fork']);
      await handle.retry({ from: 'failure' });
      await expect(handle.result()).rejects.toMatchObject({ failure: { code: 'INVALID_OPTION' } });
      expect((await handle.status()).tags).toMatchObject({ late: 'yes', stage: 'first' });
      expect(await found({ stage: 'first', late: 'yes' })).toEqual(['a']);
    });

    it('a retry of a task run keeps its tags', async () => {
      let isBroken = true;
      const job = task(
        'job',
        () => {
          if (isBroken) throw new Error('broken');
        },
        { retry: { maxAttempts: 1 } },
      );
      const { client } = await open({ tasks: [job] });
      const handle = await client.runTask(job, undefined, { id: 'job', tags: { tenant: '7' } });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await handle.retry({ from: 'start' });
      await handle.result();
      expect((await handle.status()).tags).toEqual({ tenant: '7' });
      expect((await client.list({ tags: { tenant: '7' } })).items).toHaveLength(1);
    });
  },
  ['all fast paths', 'a replay after every turn', 'PostgreSQL', 'over HTTP'],
);
