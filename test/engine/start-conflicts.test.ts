import { expect, it } from 'vitest';
import { flow } from '../../src/flows.ts';
import { event, orchestration } from '../../src/orchestration/orchestration.ts';
import type { DetachedOptions, OnConflict } from '../../src/index.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';

const touched = event<number>('touched');
const over = event('over');
const again = event('again');

/** Collects events until `over`. */
const collecting = orchestration('collecting', async (ctx, label: string) => {
  const seen: number[] = [];
  for (;;) {
    const next = await ctx.select({ touched: ctx.waitFor(touched), over: ctx.waitFor(over) });
    if (next.key === 'over') return { label, seen };
    seen.push(next.value);
  }
});

const other = orchestration('other', async (ctx, _label: string) => ctx.waitFor(over));
const collectingFlow = flow('collectingFlow')
  .input<string>()
  .step('echo', {}, (_ctx, { input }) => input)
  .output('echo');

interface Starts {
  readonly label: string;
  readonly options: DetachedOptions;
}

/** Starts detached instances one after the other. Returns what each start resolved or rejected with. */
const starting = orchestration('starting', async (ctx, starts: readonly Starts[]) => {
  const results: string[] = [];
  for (const { label, options } of starts) {
    results.push(await ctx.startDetached(collecting, label, options).catch(codeOf));
  }
  return results;
});

function codeOf(error: unknown): string {
  return (error as { code: string }).code;
}

const started = (n: number) => ({ token: 'touched', payload: n });

describeEngine(
  'startDetached() with an id that is taken',
  (open) => {
    it('an event creates the instance with it, or is raised at the live one', async () => {
      const { client } = await open({ orchestrations: [starting, collecting] });
      const handle = await client.start(starting, [
        { label: 'first', options: { id: 'cart', event: started(1) } },
        { label: 'second', options: { id: 'cart', event: started(2) } },
        { label: 'third', options: { id: 'cart', event: { ...started(3), key: 'k' } } },
        { label: 'third', options: { id: 'cart', event: { ...started(3), key: 'k' } } },
      ]);
      expect(await handle.result()).toEqual(['cart', 'cart', 'cart', 'cart']);
      await client.raiseEvent('cart', over);
      const cart = await client.handle(collecting, 'cart').result();
      expect(cart).toEqual({ label: 'first', seen: [1, 2, 3] });
    });

    it('an event at an ended instance rejects with INSTANCE_OVER, one at another name with INSTANCE_ALREADY_EXISTS', async () => {
      const { client } = await open({ orchestrations: [starting, collecting, other] });
      await client.start(collecting, 'ended', {
        id: 'ended',
        event: { token: over, payload: undefined },
      });
      await client.handle('ended').result();
      await client.start(other, 'x', { id: 'other' });
      const handle = await client.start(starting, [
        { label: 'x', options: { id: 'ended', event: started(1) } },
        { label: 'x', options: { id: 'other', event: started(1) } },
      ]);
      expect(await handle.result()).toEqual(['INSTANCE_OVER', 'INSTANCE_ALREADY_EXISTS']);
    });

    it('onConflict rejects, uses or replaces the instance', async () => {
      const { client } = await open({ orchestrations: [starting, collecting, other] });
      const live = await client.start(collecting, 'first', { id: 'live' });
      await client.start(other, 'x', { id: 'other' });
      const start = (id: string, label: string, onConflict?: OnConflict) => ({
        label,
        options: { id, onConflict },
      });
      const handle = await client.start(starting, [
        start('live', 'second'),
        start('live', 'second', 'reject'),
        start('live', 'second', 'useExisting'),
        start('other', 'second', 'useExisting'),
        start('other', 'second', 'terminateExisting'),
        start('new', 'new', 'terminateExisting'),
        start('live', 'third', 'terminateExisting'),
      ]);
      const taken = 'INSTANCE_ALREADY_EXISTS';
      expect(await handle.result()).toEqual([taken, taken, 'live', taken, taken, 'new', 'live']);
      expect((await live.status()).executionId).toBe(2);
      await client.raiseEvent('live', over);
      expect(await live.result()).toEqual({ label: 'third', seen: [] });
      const [earlier] = (await client.listExecutions('live')).items;
      expect(earlier).toMatchObject({ executionId: 1, status: 'terminated' });
    });

    it('a start that is not awaited before the end replaces the instance, too', async () => {
      const leaving = orchestration('leaving', async (ctx) => {
        void ctx.startDetached(collecting, 'second', { id: 'x', onConflict: 'terminateExisting' });
        void ctx.startDetached(collecting, 'y', { id: 'y', event: started(1) });
        return 'left';
      });
      const { client } = await open({ orchestrations: [leaving, collecting] });
      const live = await client.start(collecting, 'first', { id: 'x' });
      expect(await (await client.start(leaving)).result()).toBe('left');
      for (const id of ['x', 'y']) await client.raiseEvent(id, over);
      expect(await live.result()).toEqual({ label: 'second', seen: [] });
      expect(await client.handle('y').result()).toEqual({ label: 'y', seen: [1] });
    });

    it('an instance can replace itself, its parent and send itself an event', async () => {
      const own = orchestration('own', async (ctx, round: number) => {
        if (round === 2) return 'replaced';
        await ctx.startDetached(own, round, { id: ctx.instanceId, event: { token: over } });
        await ctx.waitFor(over);
        await ctx.startDetached(own, 2, { id: ctx.instanceId, onConflict: 'terminateExisting' });
        return 'not replaced';
      });
      const child = orchestration('child', async (ctx, parent: string) => {
        await ctx.startDetached(family, 'replaced', {
          id: parent,
          onConflict: 'terminateExisting',
        });
        await ctx.waitFor(over);
      });
      const family = orchestration('family', async (ctx, how: string): Promise<string> => {
        if (how === 'first') await ctx.child(child, ctx.instanceId, { id: 'family-child' });
        return how;
      });
      const { client } = await open({ orchestrations: [own, child, family] });
      const alone = await client.start(own, 1, { id: 'own' });
      await expect.poll(async () => (await alone.status()).executionId, wait).toBe(2);
      expect(await alone.result()).toBe('replaced');
      const parent = await client.start(family, 'first', { id: 'family' });
      await expect.poll(async () => (await parent.status()).executionId, wait).toBe(2);
      expect(await parent.result()).toBe('replaced');
      await expect
        .poll(async () => (await client.get('family-child'))?.status, wait)
        .toBe('terminated');
    });

    it('a child and a job are not replaced, and nothing is written for a refused start', async () => {
      const parent = orchestration('parent', async (ctx) =>
        ctx.child(collecting, 'child', { id: 'child' }),
      );
      const { client } = await open({ orchestrations: [starting, parent, collecting] });
      const family = await client.start(parent);
      await expect.poll(async () => (await client.get('child'))?.status, wait).toBe('running');
      const job = client.submit(collecting, 'job', { id: 'job' });
      await expect.poll(async () => (await client.get('job'))?.status, wait).toBe('running');
      const handle = await client.start(starting, [
        { label: 'x', options: { id: 'child', onConflict: 'terminateExisting' } },
        { label: 'x', options: { id: 'job', onConflict: 'terminateExisting' } },
      ]);
      const taken = 'INSTANCE_ALREADY_EXISTS';
      expect(await handle.result()).toEqual([taken, taken]);
      for (const id of ['child', 'job']) await client.raiseEvent(id, over);
      expect(await family.result()).toEqual({ label: 'child', seen: [] });
      expect(await job.result()).toEqual({ label: 'job', seen: [] });
    });
  },
  ['all fast paths', 'no fast paths', 'a replay after every turn', 'PostgreSQL'],
);

const wait = { timeout: 20_000 };

describeEngine(
  'ctx.child() with an id that is taken',
  (open) => {
    it('an event comes with the child, and later calls with the id raise theirs and wait for it', async () => {
      const parent = orchestration('parent', async (ctx) => {
        const call = (n: number) =>
          ctx.child(collecting, 'child', { id: 'one', event: { token: touched, payload: n } });
        const first = call(1);
        const second = call(2);
        await ctx.waitFor(again);
        const third = call(3);
        return ctx.all([first, second, third]);
      });
      const { client } = await open({ orchestrations: [parent, collecting] });
      const handle = await client.start(parent);
      await handle.raiseEvent(again);
      const received = async () => {
        const { items } = await client.history('one');
        return items.filter(({ event }) => event.kind === 'eventReceived').length;
      };
      await expect.poll(received, wait).toBe(3);
      await client.raiseEvent('one', over);
      const result = { label: 'child', seen: [1, 2, 3] };
      expect(await handle.result()).toEqual([result, result, result]);
    });

    it('an event at an own child that has ended rejects with INSTANCE_OVER', async () => {
      const parent = orchestration('parent', async (ctx) => {
        const options = { id: 'one', event: { token: over } };
        await ctx.child(collecting, 'child', options);
        return ctx.child(collecting, 'child', options).catch(codeOf);
      });
      const { client } = await open({ orchestrations: [parent, collecting] });
      expect(await (await client.start(parent)).result()).toBe('INSTANCE_OVER');
    });

    it('useExisting waits for an own earlier child, live or ended, and rejects for others', async () => {
      const parent = orchestration('parent', async (ctx) => {
        const call = (id: string, onConflict?: OnConflict) =>
          ctx.child(collecting, `input ${id}`, { id, onConflict });
        const first = call('one');
        const second = ctx.child(collecting, 'ignored', { id: 'one', onConflict: 'useExisting' });
        const results = await ctx.all([first, second]);
        results.push(await call('one', 'useExisting'));
        const refused = [
          await call('one').catch(causeOf),
          await call('foreign', 'useExisting').catch(causeOf),
          await call('foreign', 'terminateExisting').catch(causeOf),
          await ctx.child(other, 'x', { id: 'one', onConflict: 'useExisting' }).catch(causeOf),
          await ctx
            .child(collecting, 'x', { id: 'foreign', event: { token: touched, payload: 9 } })
            .catch(causeOf),
        ];
        return { results, refused };
      });
      const { client } = await open({ orchestrations: [parent, collecting, other] });
      const foreign = await client.start(collecting, 'foreign', { id: 'foreign' });
      const handle = await client.start(parent);
      await expect.poll(async () => (await client.get('one'))?.status, wait).toBe('running');
      await client.raiseEvent('one', over);
      const result = { label: 'input one', seen: [] };
      const taken = 'CHILD_FAILED INSTANCE_ALREADY_EXISTS';
      expect(await handle.result()).toEqual({
        results: [result, result, result],
        refused: [taken, taken, taken, taken, taken],
      });
      await foreign.raiseEvent(over);
      expect(await foreign.result()).toEqual({ label: 'foreign', seen: [] });
    });

    it('terminateExisting replaces an own earlier child, whose promise rejects', async () => {
      const parent = orchestration('parent', async (ctx) => {
        const first = ctx.child(collecting, 'first', { id: 'one' });
        const early = first.catch(causeOf);
        await ctx.waitFor(again);
        const second = ctx.child(collecting, 'second', {
          id: 'one',
          onConflict: 'terminateExisting',
        });
        const [replaced, result] = await ctx.all([early, second]);
        const third = await ctx.child(collectingFlow, 'third', {
          id: 'flow',
          onConflict: 'terminateExisting',
        });
        return { replaced, result, third };
      });
      const { client } = await open({
        orchestrations: [parent, collecting],
        flows: [collectingFlow],
      });
      const handle = await client.start(parent);
      await expect.poll(async () => (await client.get('one'))?.status, wait).toBe('running');
      await handle.raiseEvent(again);
      await expect.poll(async () => (await client.get('one'))?.executionId, wait).toBe(2);
      await client.raiseEvent('one', over);
      expect(await handle.result()).toEqual({
        replaced: 'CHILD_FAILED INSTANCE_TERMINATED',
        result: { label: 'second', seen: [] },
        third: 'third',
      });
    });

    it('a replaced child is canceled with its parent', async () => {
      const parent = orchestration('parent', async (ctx) => {
        void ctx.child(collecting, 'first', { id: 'one' }).catch(causeOf);
        await ctx.child(collecting, 'second', { id: 'one', onConflict: 'terminateExisting' });
      });
      const { client } = await open({ orchestrations: [parent, collecting] });
      const handle = await client.start(parent);
      await expect.poll(async () => (await client.get('one'))?.executionId, wait).toBe(2);
      await handle.cancel({ wait: true });
      await expect.poll(async () => (await client.get('one'))?.status, wait).toBe('canceled');
    });

    it('a retried parent starts its child and its event again under another id', async () => {
      let fails = true;
      const parent = orchestration('parent', async (ctx) => {
        const call = () =>
          ctx.child(collecting, 'child', { id: 'one', event: { token: touched, payload: 1 } });
        const first = call();
        const second = call();
        await ctx.waitFor(again);
        if (fails) throw new Error('not yet');
        return ctx.all([first, second]);
      });
      const { client } = await open({ orchestrations: [parent, collecting] });
      const handle = await client.start(parent);
      await handle.raiseEvent(again);
      await expect(handle.result()).rejects.toThrow('not yet');
      fails = false;
      await client.retry(handle.id, { from: 'start' });
      await handle.raiseEvent(again);
      const { items } = await client.list({ name: 'collecting', status: ['pending', 'running'] });
      expect(items.length).toBeLessThanOrEqual(1);
      const isChild = ({ id }: { id: string }) => id !== 'one';
      await expect
        .poll(async () => {
          const { items } = await client.list({ name: 'collecting', status: 'running' });
          return items.filter(isChild).length;
        }, wait)
        .toBe(1);
      const [child] = (await client.list({ name: 'collecting', status: 'running' })).items;
      await expect
        .poll(async () => (await client.history(child?.id ?? '')).items.length, wait)
        .toBeGreaterThanOrEqual(5);
      await client.raiseEvent(child?.id ?? '', over);
      const result = { label: 'child', seen: [1, 1] };
      expect(await handle.result()).toEqual([result, result]);
    });
  },
  ['all fast paths', 'no fast paths', 'a replay after every turn', 'PostgreSQL'],
);

function causeOf(error: unknown): string {
  const { code, cause } = error as { code: string; cause?: { code?: string } };
  return `${code} ${cause?.code}`;
}

const modes = ['all fast paths', 'no fast paths', 'PostgreSQL', 'over HTTP'];

describeEngine(
  'runTask() with an id that is taken',
  (open) => {
    const echo = task('echo', async (_ctx, text: string) => text);
    const different = task('different', async (_ctx, text: string) => text);

    it('rejects, uses or replaces a run that is queued or has ended', async () => {
      const { client } = await open({ tasks: [echo, different] });
      const run = (text: string, onConflict?: OnConflict) =>
        client.runTask(echo, text, { id: 'one', onConflict });
      const taken = { code: 'INSTANCE_ALREADY_EXISTS' };
      await client.runTask(echo, 'first', { id: 'one', delay: '1h' });
      await expect(run('second')).rejects.toMatchObject(taken);
      await expect(run('second', 'reject')).rejects.toMatchObject(taken);
      expect(await run('second', 'useExisting')).toMatchObject({ id: 'one', created: false });
      const replaced = await run('second', 'terminateExisting');
      expect(replaced).toMatchObject({ id: 'one', created: true });
      expect(await replaced.result()).toBe('second');
      expect(await (await run('ignored', 'useExisting')).result()).toBe('second');
      const [third] = await client.runTasks([
        {
          task: echo,
          input: 'third',
          options: { id: 'one', onConflict: 'terminateExisting', tags: { of: 'third' } },
        },
      ]);
      expect(await third.result()).toBe('third');
      expect(await third.status()).toMatchObject({ executionId: 3, tags: { of: 'third' } });
      const executions = (await client.listExecutions('one')).items;
      expect(executions.map(({ status }) => status)).toEqual([
        'terminated',
        'completed',
        'completed',
      ]);
      for (const onConflict of ['useExisting', 'terminateExisting'] as const) {
        await expect(
          client.runTask(different, 'x', { id: 'one', onConflict }),
        ).rejects.toMatchObject(taken);
      }
    });

    it('a replaced run that is running loses its lease, and its outcome is discarded', async () => {
      const begun = Promise.withResolvers<void>();
      const aborted = Promise.withResolvers<void>();
      const slow = task('slow', async (ctx, text: string) => {
        if (text !== 'first') return text;
        begun.resolve();
        await ctx.canceled();
        aborted.resolve();
        return 'late';
      });
      const { client } = await open({ tasks: [slow] });
      const first = await client.runTask(slow, 'first', { id: 'one' });
      await begun.promise;
      const second = await client.runTask(slow, 'second', {
        id: 'one',
        onConflict: 'terminateExisting',
      });
      expect(await second.result()).toBe('second');
      await aborted.promise;
      expect(await first.status()).toMatchObject({ status: 'completed', executionId: 2 });
    });

    it('a repeated call with the same replaceKey replaces nothing', async () => {
      const { client } = await open({ tasks: [echo] });
      const options = { id: 'one', onConflict: 'terminateExisting', replaceKey: 'key' } as const;
      const created: boolean[] = [];
      for (const _ of [1, 2, 3]) created.push((await client.runTask(echo, 'x', options)).created);
      expect(created).toEqual([true, false, false]);
      expect((await client.get('one'))?.executionId).toBe(1);
    });

    it('rejects an event, an onConflict without an id, and a replaceKey alone', async () => {
      const { client } = await open({ tasks: [echo] });
      const bad = [
        { event: { token: over } },
        { onConflict: 'useExisting' },
        { id: 'x', onConflict: 'replace' },
        { id: 'x', replaceKey: 'key' },
        { id: 'x', onConflict: 'terminateExisting', dedupeKey: 'key' },
      ];
      for (const options of bad) {
        await expect(client.runTask(echo, 'x', options as never)).rejects.toMatchObject({
          code: 'INVALID_OPTION',
        });
      }
    });
  },
  modes,
);

describeEngine(
  'submit() with an id that is taken',
  (open) => {
    const echo = task('echo', async (_ctx, text: string) => text);

    it('an event comes with the job, and is not raised at an existing instance', async () => {
      const { client } = await open({ orchestrations: [collecting] });
      const event = { token: touched, payload: 1 };
      const job = client.submit(collecting, 'job', { id: 'job', event });
      await expect.poll(async () => (await client.get('job'))?.status, wait).toBe('running');
      const second = client.submit(collecting, 'job', { id: 'job', event });
      await expect(second.result()).rejects.toMatchObject({ code: 'INSTANCE_ALREADY_EXISTS' });
      await client.raiseEvent('job', over);
      expect(await job.result()).toEqual({ label: 'job', seen: [1] });
    });

    it('terminateExisting replaces a run that is not a job', async () => {
      const { client } = await open({ orchestrations: [collecting], tasks: [echo] });
      const plain = await client.start(collecting, 'plain', { id: 'one' });
      const job = client.submit(collecting, 'job', { id: 'one', onConflict: 'terminateExisting' });
      await expect.poll(async () => (await plain.status()).executionId, wait).toBe(2);
      const refused = client.submit(collecting, 'x', {
        id: 'one',
        onConflict: 'terminateExisting',
      });
      await expect(refused.result()).rejects.toMatchObject({ code: 'INSTANCE_ALREADY_EXISTS' });
      await client.raiseEvent('one', over);
      expect(await job.result()).toEqual({ label: 'job', seen: [] });
      await client.runTask(echo, 'plain', { id: 'two', delay: '1h' });
      const run = client.submit(echo, 'job', { id: 'two', onConflict: 'terminateExisting' });
      expect(await run.result()).toBe('job');
    });

    it('throws INVALID_OPTION for useExisting, and for an event of a task', async () => {
      const { client } = await open({ orchestrations: [collecting], tasks: [echo] });
      const bad = { code: 'INVALID_OPTION' };
      const existing = { id: 'x', onConflict: 'useExisting' } as never;
      expect(() => client.submit(collecting, 'x', existing)).toThrow(expect.objectContaining(bad));
      expect(() => client.submit(echo, 'x', existing)).toThrow(expect.objectContaining(bad));
      const event = { event: { token: over } } as never;
      expect(() => client.submit(echo, 'x', event)).toThrow(expect.objectContaining(bad));
    });
  },
  modes,
);

describeEngine(
  'invalid options for an id that is taken',
  (open) => {
    it('children, detached starts and tasks in orchestrations throw INVALID_OPTION', async () => {
      const trying = orchestration('trying', async (ctx) => {
        const bad = { onConflict: 'replace' } as never;
        const attempts: (() => unknown)[] = [
          () => ctx.child(collecting, 'x', bad),
          () => ctx.child(collecting, 'x', { onConflict: 'useExisting' }),
          () => ctx.startDetached(collecting, 'x', { id: 'x', ...(bad as object) }),
          () =>
            ctx.startDetached(collecting, 'x', {
              id: 'x',
              onConflict: 'terminateExisting',
              event: { token: over },
            }),
          () => ctx.startDetached(collecting, 'x', { id: 'x', event: {} as never }),
          () => ctx.child(collecting, 'x', { event: { token: 5 as never } }),
          () => ctx.runTask('task', 'x', { event: { token: over } } as never),
          () => ctx.runTask('task', 'x', { onConflict: 'useExisting' } as never),
        ];
        return attempts.map((attempt) => {
          try {
            attempt();
            return 'accepted';
          } catch (error) {
            return codeOf(error);
          }
        });
      });
      const { client } = await open({ orchestrations: [trying, collecting] });
      const codes = await (await client.start(trying)).result();
      expect(codes).toEqual(codes.map(() => 'INVALID_OPTION'));
    });
  },
  ['all fast paths'],
);
