/** Tags of flows, jobs, scheduled runs and children, and the operations that select by tag. */
import { expect, it } from 'vitest';
import { activity, orchestration, task } from 'perdure';
import { flow } from 'perdure/flows';
import { describeEngine } from './describe-engine.ts';

const double = task('double', async (_ctx, value: number) => value * 2);
const tagging = orchestration('tagging', async (ctx, stage: string) => {
  ctx.setTags({ stage });
  return stage;
});
const eternal = orchestration('eternal', async (ctx, rounds: number): Promise<unknown> => {
  if (rounds > 0) return ctx.continueAsNew(rounds - 1);
  return ctx.waitFor('go');
});

describeEngine(
  'selection by tags',
  (open) => {
    it('a flow run has the tags of its start, and its list entry shows them', async () => {
      const order = flow('order')
        .step('pack', () => 'packed')
        .output();
      const { client } = await open({ flows: [order] });
      const run = await client.runFlow(order, undefined, { tags: { tenant: '7' } });
      await run.result();
      expect((await run.status()).tags).toEqual({ tenant: '7' });
      const { items } = await client.list({ tags: { tenant: '7' } });
      expect(items).toMatchObject([{ id: run.id, tags: { tenant: '7' } }]);
      expect((await client.list({ tags: { tenant: '8' } })).items).toEqual([]);
    });

    it('jobs have the tags of their submission, and ctx.setTags() adds to them', async () => {
      const { client } = await open({ tasks: [double], orchestrations: [tagging] });
      const options = { tags: { tenant: '7' } };
      expect(await client.submit(double, 4, options).result()).toBe(8);
      expect(await client.submit(tagging, 'done', options).result()).toBe('done');
      const { items } = await client.list({ tags: { tenant: '7' } });
      // The newest first.
      expect(items.map(({ name, tags }) => [name, tags])).toEqual([
        ['tagging', { tenant: '7', stage: 'done' }],
        ['double', { tenant: '7' }],
      ]);
    });

    it('runs of a schedule have its tags, and so do triggered and backfilled ones', async () => {
      const { client } = await open({ tasks: [double], orchestrations: [tagging] });
      const cron = '0 0 1 1 *';
      await client.schedules.put('task', {
        cron,
        task: double,
        input: 2,
        options: { tags: { of: 'task' } },
      });
      await client.schedules.put('flow', {
        cron,
        orchestration: tagging,
        input: 'done',
        options: { tags: { of: 'orchestration' } },
      });
      for (const name of ['task', 'flow']) {
        const { id } = await client.schedules.trigger(name);
        await client.wait(id);
      }
      const year = 366 * 86_400_000;
      const window = { from: Date.now() - year, to: Date.now() };
      expect(await client.schedules.backfill('task', window)).toMatchObject({ started: 1 });
      const count = async (tags: Record<string, string>) => (await client.count({ tags })).count;
      expect(await count({ of: 'task' })).toBe(2);
      expect(await count({ of: 'orchestration', stage: 'done' })).toBe(1);
    });

    it('children have only their own tags, set at their start and by ctx.setTags()', async () => {
      const outer = orchestration('outer', async (ctx) => {
        await ctx.child(tagging, 'a', { id: 'plain' });
        await ctx.child(tagging, 'b', { id: 'tagged', tags: { tenant: '7' } });
      });
      const { client } = await open({ orchestrations: [outer, tagging] });
      const options = { id: 'o', tags: { tenant: '9' } };
      await (await client.start(outer, undefined, options)).result();
      const tags = async (id: string) => (await client.get(id))?.tags;
      expect(await tags('o')).toEqual({ tenant: '9' });
      expect(await tags('plain')).toEqual({ stage: 'a' });
      expect(await tags('tagged')).toEqual({ tenant: '7', stage: 'b' });
    });

    it('prunes and bulk operations by tag change only instances with all of the tags', async () => {
      const { client } = await open({ orchestrations: [eternal] });
      const tagged = { a: { tenant: '7', tier: 'x' }, b: { tenant: '7' }, c: { tenant: '8' } };
      for (const [id, tags] of Object.entries(tagged)) {
        await client.start(eternal, 2, { id, tags });
      }
      const executions = async () =>
        Promise.all(
          Object.keys(tagged).map(async (id) => (await client.listExecutions(id)).items.length),
        );
      await expect.poll(executions, { timeout: 20_000 }).toEqual([3, 3, 3]);
      const keep = { keepLast: 1, includeRunning: true };
      await client.pruneExecutionsBulk({ tags: { tenant: '7', tier: 'x' } }, keep);
      expect(await executions()).toEqual([1, 3, 3]);
      const bulk = { keepLast: 2 };
      await client.bulk.prune({ tags: { tenant: '7' } }, bulk);
      expect(await executions()).toEqual([1, 2, 3]);
      expect(await client.bulk.terminate({ tags: { tenant: '7' } })).toMatchObject({ changed: 2 });
      expect((await client.get('c'))?.status).toBe('running');
      await client.deleteInstanceBulk({ tags: { tenant: '7', tier: 'x' } });
      const left = (await client.list({ tags: { tenant: '7' } })).items.map(({ id }) => id);
      expect(left).toEqual(['b']);
    });

    it('a retention policy by tag deletes only trees whose root has the tags', async () => {
      const noop = activity('noop', async () => 'done');
      const inner = orchestration('inner', async (ctx) => ctx.call(noop));
      const outer = orchestration('outer', async (ctx) =>
        ctx.child(inner, undefined, { id: `${ctx.instanceId}-c`, tags: { keep: 'yes' } }),
      );
      const { client } = await open({ orchestrations: [outer, inner], activities: [noop] });
      const tagged = { a: { tenant: '7' }, b: { tenant: '8' }, c: { tenant: '7', keep: 'yes' } };
      for (const [id, tags] of Object.entries(tagged)) {
        await (await client.start(outer, undefined, { id, tags })).result();
      }
      const policies = [
        { tags: { keep: 'yes' }, keepFor: 'forever' },
        { tags: { tenant: '7' }, keepFor: 0 },
      ] as const;
      // The end of an instance must be before the time of the sweep.
      await expect
        .poll(async () => {
          await client.retention.run({ policies });
          return (await client.list()).items.map(({ id }) => id).toSorted();
        })
        .toEqual(['b', 'b-c', 'c', 'c-c']);
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
