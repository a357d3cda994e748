/** Views of a retried or forked execution name the children that it started, not those of the copied events. */
import { activity, event, orchestration } from 'perdure';
import { expect, it } from 'vitest';
import { describeEngine } from '../describe-engine.ts';

const go = event<string>('go');

describeEngine(
  'views of reruns',
  (open) => {
    it('why() and timeline() of a retry and of a fork name their own child', async () => {
      const child = orchestration('child', (ctx) => ctx.waitFor(go));
      const parent = orchestration('parent', (ctx) => ctx.child(child));
      const { client } = await open({ orchestrations: [parent, child] });
      await client.start(parent, undefined, { id: 'p' });
      await expect.poll(() => client.get('p/1.1')).toMatchObject({ status: 'running' });
      await client.terminate('p', { tree: true });
      await client.retry('p', { from: 'failure' });
      await client.fork('p', { from: 2, id: 'f' });
      for (const [id, childId] of [
        ['p', 'p/2.1'],
        ['f', 'f/1.1'],
      ] as const) {
        await expect.poll(() => client.get(childId)).toMatchObject({ status: 'running' });
        const wait = { kind: 'child', id: childId, status: 'running' };
        await expect.poll(async () => (await client.why(id)).waits).toMatchObject([wait]);
        const { items } = await client.timeline(id);
        expect(items).toMatchObject([{ operation: 1, kind: 'child', childId }]);
        await client.raiseEvent(childId, go, 'done');
        expect(await client.handle(id).result()).toBe('done');
        expect((await client.timeline(id)).items).toMatchObject([
          { childId, outcome: 'completed' },
        ]);
      }
    });

    it('timeline() names the child whose result a retry kept or delivered again', async () => {
      let isBroken = true;
      const check = activity('check', () => {
        if (isBroken) throw new Error('broken');
      });
      const child = orchestration('child', async (_ctx, part: string) => part);
      const parent = orchestration('parent', async (ctx) => {
        await ctx.child(child, 'kept');
        await ctx.child(child, 'delivered again');
        if (isBroken) throw new Error('broken');
        await ctx.call(check);
      });
      const { client } = await open({ orchestrations: [parent, child], activities: [check] });
      const handle = await client.start(parent, undefined, { id: 'p' });
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      isBroken = false;
      await handle.retry({ from: 'failure' });
      await handle.result();
      const { items } = await client.timeline('p');
      expect(items).toMatchObject([
        { childId: 'p/1.1' },
        { childId: 'p/1.2' },
        { kind: 'activity' },
      ]);
    });

    it('timeline() of a second retry names the child that the first one started', async () => {
      let broken = ['child', 'parent'];
      const check = activity(
        'check',
        (_ctx, who: string) => {
          if (broken.includes(who)) throw new Error(`${who} is broken`);
        },
        { retry: { maxAttempts: 1 } },
      );
      const child = orchestration('child', (ctx) => ctx.call(check, 'child'));
      const parent = orchestration('parent', async (ctx) => {
        await ctx.child(child);
        await ctx.call(check, 'parent');
      });
      const { client } = await open({ orchestrations: [parent, child], activities: [check] });
      const handle = await client.start(parent, undefined, { id: 'p' });
      for (const next of [['parent'], []]) {
        await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
        broken = next;
        await handle.retry({ from: 'failure' });
      }
      await handle.result();
      expect((await client.timeline('p')).items).toMatchObject([
        { childId: 'p/2.1', outcome: 'completed' },
        { kind: 'activity', outcome: 'completed' },
      ]);
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
