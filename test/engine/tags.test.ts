import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';

const noop = activity('noop', async () => 'done');
const double = task('double', async (_ctx, value: number) => value * 2);

describeEngine('tags', (open) => {
  it('ctx.setTags() merges tags with those of the start, and null removes one', async () => {
    const tagged = orchestration('tagged', async (ctx) => {
      ctx.setTags({ stage: 'first', gone: null });
      await ctx.call(noop);
      ctx.setTags({ stage: 'second', extra: 'x' });
      await ctx.call(noop);
      ctx.setTags({ extra: undefined });
    });
    const { client } = await open({ orchestrations: [tagged], activities: [noop] });
    const handle = await client.start(tagged, undefined, { tags: { tenant: '7', gone: 'soon' } });
    await handle.result();
    expect((await handle.status()).tags).toEqual({ tenant: '7', stage: 'second' });
    const found = async (tags: Record<string, string>) =>
      (await client.list({ tags })).items.map(({ id }) => id);
    expect(await found({ tenant: '7', stage: 'second' })).toEqual([handle.id]);
    expect(await found({ stage: 'first' })).toEqual([]);
    expect(await found({ gone: 'soon' })).toEqual([]);
  });

  it('tags survive continueAsNew(), and the next execution adds to them', async () => {
    const looping = orchestration('looping', async (ctx, round: number) => {
      ctx.setTags({ [`round${round}`]: 'yes' });
      await ctx.call(noop);
      if (round < 3) await ctx.continueAsNew(round + 1);
    });
    const { client } = await open({ orchestrations: [looping], activities: [noop] });
    const handle = await client.start(looping, 1, { tags: { tenant: '7' } });
    await handle.result();
    const all = { tenant: '7', round1: 'yes', round2: 'yes', round3: 'yes' };
    expect((await handle.status()).tags).toEqual(all);
  });

  it('children, detached instances and tasks have the tags of their start', async () => {
    const inner = orchestration('inner', async () => 1);
    const outer = orchestration('outer', async (ctx) => {
      await ctx.child(inner, undefined, { id: 'c', tags: { of: 'child' } });
      await ctx.startDetached(inner, undefined, { id: 'd', tags: { of: 'detached' } });
    });
    const { client } = await open({ orchestrations: [outer, inner], tasks: [double] });
    await (await client.start(outer, undefined, { id: 'o' })).result();
    const run = await client.runTask(double, 2, { tags: { of: 'task' } });
    await run.result();
    const tags = async (id: string) => (await client.get(id))?.tags;
    expect(await tags('o')).toBeUndefined();
    expect(await tags('c')).toEqual({ of: 'child' });
    expect(await tags('d')).toEqual({ of: 'detached' });
    expect(await tags(run.id)).toEqual({ of: 'task' });
  });

  it('ctx.setTags() throws INVALID_OPTION for the 17th tag', async () => {
    const greedy = orchestration('greedy', async (ctx) => {
      try {
        ctx.setTags({ seventeenth: 'x' });
        return 'set';
      } catch (error) {
        return (error as { code?: string }).code;
      }
    });
    const { client } = await open({ orchestrations: [greedy] });
    const tags = Object.fromEntries(Array.from({ length: 16 }, (_, n) => [`t${n}`, 'x']));
    const handle = await client.start(greedy, undefined, { tags });
    expect(await handle.result()).toBe('INVALID_OPTION');
    expect((await handle.status()).tags).toEqual(tags);
  });
});
