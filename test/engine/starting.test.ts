import { expect, it } from 'vitest';
import * as z from 'zod';
import { flow } from '../../src/flows.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { event, orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';

// 'over HTTP' covers the remote client.
const modes = [
  'all fast paths',
  'no fast paths',
  'a replay after every turn',
  'PostgreSQL',
  'over HTTP',
];

const noop = activity('noop', async () => 'done');
const touched = event<{ n: number }>('touched');
const over = event('over');

const waiting = orchestration('waiting', async (ctx, label: string) => {
  await ctx.waitFor(over);
  return label;
});

const collecting = orchestration('collecting', async (ctx) => {
  const seen: number[] = [];
  for (;;) {
    const next = await ctx.select({ touched: ctx.waitFor(touched), over: ctx.waitFor(over) });
    if (next.key === 'over') return seen;
    seen.push(next.value.n);
  }
});

describeEngine(
  'timeouts of starts',
  (open) => {
    it('a start is canceled with the trigger `timeout` when it has passed, and cleans up', async () => {
      const cleaned: string[] = [];
      const clean = activity('clean', async (_ctx, trigger: string) => void cleaned.push(trigger));
      const slow = orchestration('slow', async (ctx) => {
        try {
          await ctx.waitFor(over);
        } catch (error) {
          const { trigger } = error as { trigger: string };
          await ctx.shield(() => ctx.call(clean, trigger));
          throw error;
        }
      });
      const { client } = await open({
        orchestrations: [slow],
        activities: [clean],
        pollInterval: 100,
      });
      const handle = await client.start(slow, undefined, { timeout: 50 });
      await expect(handle.result()).rejects.toMatchObject({
        code: 'OPERATION_CANCELED',
        trigger: 'timeout',
      });
      expect(cleaned).toEqual(['timeout']);
      const { status, cancel } = await handle.status();
      expect([status, cancel?.trigger]).toEqual(['canceled', 'timeout']);
    });

    it('children, tasks and activities of an instance that timed out get the trigger', async () => {
      const triggers: unknown[] = [];
      const stuck = activity('stuck', async (ctx) => {
        triggers.push((await ctx.canceled()).trigger);
        ctx.throwIfCanceled();
      });
      const run = task('run', async (ctx) => {
        triggers.push((await ctx.canceled()).trigger);
        ctx.throwIfCanceled();
      });
      const parent = orchestration('parent', async (ctx) => ctx.call(stuck));
      const outer = orchestration('outer', async (ctx) => {
        try {
          await ctx.child(waiting, 'x', { timeout: 50 });
          return 'completed';
        } catch (error) {
          return (error as { trigger?: string }).trigger;
        }
      });
      const { client } = await open({
        orchestrations: [parent, outer, waiting],
        activities: [stuck],
        tasks: [run],
        pollInterval: 100,
      });
      const handles = [
        await client.start(parent, undefined, { timeout: 400 }),
        await client.runTask(run, undefined, { timeout: 400 }),
      ];
      const child = await client.start(outer);
      for (const handle of handles) {
        await expect(handle.result()).rejects.toMatchObject({ trigger: 'timeout' });
      }
      await expect.poll(() => triggers).toEqual(['timeout', 'timeout']);
      expect(await child.result()).toBe('timeout');
    });

    it('continueAsNew() keeps the time at which the timeout passes', async () => {
      const looping = orchestration('looping', async (ctx, round: number) => {
        await ctx.sleep(20);
        await ctx.continueAsNew(round + 1);
      });
      const { client } = await open({ orchestrations: [looping], pollInterval: 100 });
      const handle = await client.start(looping, 1, { timeout: 300 });
      await expect(handle.result()).rejects.toMatchObject({ trigger: 'timeout' });
      expect((await handle.status()).executionId).toBeGreaterThan(1);
    });

    it('start() rejects an invalid timeout', async () => {
      const { client } = await open({ orchestrations: [waiting] });
      for (const timeout of [0, -1, 'soon', Number.NaN, {}] as never[]) {
        await expect(client.start(waiting, 'x', { timeout })).rejects.toMatchObject({
          code: expect.stringMatching(/^INVALID_(OPTION|DURATION)$/) as unknown,
        });
      }
    });
  },
  modes,
);

describeEngine(
  'starts that find an instance',
  (open) => {
    it('start() with an event creates the instance with it, or raises it at the live instance', async () => {
      const { client } = await open({ orchestrations: [collecting] });
      for (const n of [1, 2, 3]) {
        const handle = await client.start(collecting, undefined, {
          id: 'cart',
          event: { token: touched, payload: { n }, key: `k${n}` },
        });
        expect(handle.id).toBe('cart');
      }
      await client.start(collecting, undefined, {
        id: 'cart',
        event: { token: touched, payload: { n: 3 }, key: 'k3' },
      });
      await client.raiseEvent('cart', over);
      expect(await client.handle('cart').result()).toEqual([1, 2, 3]);
      await expect(
        client.start(collecting, undefined, {
          id: 'cart',
          event: { token: touched, payload: { n: 4 } },
        }),
      ).rejects.toMatchObject({ code: 'INSTANCE_OVER' });
    });

    it('an event of a start is checked by its schema, in a client and in an orchestration', async () => {
      const counted = event('counted', { schema: z.object({ n: z.number() }) });
      const receives = orchestration('receives', async (ctx) => (await ctx.waitFor(counted)).n);
      const wrong = { token: counted, payload: { n: 'one' } } as never;
      const starts = orchestration('starts', async (ctx) => {
        const refused: unknown[] = [];
        for (const start of [
          () => ctx.child(receives, undefined, { id: 'child', event: wrong }),
          () => ctx.startDetached(receives, undefined, { id: 'detached', event: wrong }),
        ]) {
          try {
            await start();
          } catch (error) {
            refused.push((error as { readonly message: string }).message);
          }
        }
        const right = { token: counted, payload: { n: 2 } };
        return [...refused, await ctx.child(receives, undefined, { event: right })];
      });
      const { client } = await open({ orchestrations: [receives, starts] });
      const invalid = expect.stringMatching(/"counted" has an invalid payload: n: /) as string;
      await expect(
        client.start(receives, undefined, { id: 'client', event: wrong }),
      ).rejects.toMatchObject({ code: 'INVALID_INPUT', message: invalid });
      const handle = await client.start(starts);
      expect(await handle.result()).toEqual([invalid, invalid, 2]);
      for (const id of ['client', 'child', 'detached']) {
        expect(await client.get(id)).toBeUndefined();
      }
    });

    it('a repeated key of raiseEvent() is one event, also after it was received', async () => {
      const { client } = await open({ orchestrations: [collecting] });
      const handle = await client.start(collecting);
      for (const n of [1, 2]) await handle.raiseEvent(touched, { n }, { key: 'same' });
      await handle.raiseEvent(touched, { n: 3 });
      await handle.raiseEvent(touched, { n: 4 }, { key: 'same' });
      await handle.raiseEvent(over);
      expect(await handle.result()).toEqual([1, 3]);
      for (const key of ['', 5, '~mine', 'x'.repeat(2_000)] as never[]) {
        await expect(handle.raiseEvent(touched, { n: 1 }, { key })).rejects.toMatchObject({
          code: 'INVALID_ID',
        });
      }
    });

    it('onConflict decides what happens to an id with another input', async () => {
      const { client } = await open({ orchestrations: [waiting] });
      const first = await client.start(waiting, 'first', { id: 'one' });
      await expect(client.start(waiting, 'second', { id: 'one' })).rejects.toMatchObject({
        code: 'INSTANCE_ALREADY_EXISTS',
      });
      const used = await client.start(waiting, 'second', { id: 'one', onConflict: 'useExisting' });
      await used.raiseEvent(over);
      expect(await first.result()).toBe('first');
      const options = { id: 'one', onConflict: 'terminateExisting' } as const;
      const replaced = await client.start(waiting, 'second', options);
      await client.start(waiting, 'third', { ...options, replaceKey: 'k' });
      await client.start(waiting, 'fourth', { ...options, replaceKey: 'k' });
      await replaced.raiseEvent(over);
      expect(await replaced.result()).toBe('third');
      const { items } = await client.listExecutions('one');
      expect(items.map(({ status }) => status)).toEqual(['completed', 'terminated', 'completed']);
    });

    it('a dedupeKey returns the live instance instead of a second one', async () => {
      const { client } = await open({ orchestrations: [waiting] });
      const first = await client.start(waiting, 'first', { dedupeKey: 'k' });
      const second = await client.start(waiting, 'second', { dedupeKey: 'k' });
      expect(second.id).toBe(first.id);
      await second.raiseEvent(over);
      expect(await second.result()).toBe('first');
      const third = await client.start(waiting, 'third', { dedupeKey: 'k' });
      expect(third.id).not.toBe(first.id);
    });

    it('a start with a delay begins then, with the events that came before', async () => {
      const { client } = await open({ orchestrations: [collecting] });
      const later = await client.start(collecting, undefined, { delay: '1h' });
      const handle = await client.start(collecting, undefined, { delay: 300 });
      for (const each of [later, handle]) {
        await each.raiseEvent(touched, { n: 1 });
        await each.raiseEvent(over);
      }
      expect(await handle.result()).toEqual([1]);
      expect((await later.status()).status).toBe('pending');
      const { createdAt, startedAt = 0 } = await handle.status();
      expect(startedAt - createdAt).toBeGreaterThanOrEqual(300);
    });

    it('start() rejects options that exclude each other', async () => {
      const { client } = await open({ orchestrations: [waiting] });
      const event = { token: touched, payload: { n: 1 } };
      const wrong = [
        { id: 'x', onConflict: 'terminateExisting', event },
        { id: 'x', onConflict: 'terminateExisting', dedupeKey: 'k' },
        { onConflict: 'useExisting' },
        { id: 'x', onConflict: 'sometimes' },
        { id: 'x', replaceKey: 'k' },
        { event: {} },
        { event: 'touched' },
        { events: [] },
        { delay: 1, runAt: 2 },
      ];
      for (const options of wrong as never[]) {
        await expect(client.start(waiting, 'x', options)).rejects.toMatchObject({
          code: expect.stringMatching(/^INVALID_(OPTION|INPUT)$/) as unknown,
        });
      }
      expect((await client.list({})).items).toEqual([]);
    });
  },
  modes,
);

describeEngine(
  'headers of starts',
  (open) => {
    it('every handler and child reads the headers, over continueAsNew() and retries', async () => {
      const seen: Record<string, unknown>[] = [];
      const read = activity('read', async (ctx) => void seen.push({ ...ctx.headers }));
      const inner = orchestration('inner', async (ctx) => {
        await ctx.call(read);
        return ctx.headers;
      });
      const outer = orchestration('outer', async (ctx, round: number) => {
        await ctx.call(read);
        if (round === 1) await ctx.continueAsNew(2);
        const own = await ctx.child(inner, undefined, { headers: { step: 'child' } });
        return [ctx.headers, own];
      });
      const { client } = await open({ orchestrations: [outer, inner], activities: [read] });
      const handle = await client.start(outer, 1, { headers: { tenant: '7' } });
      const both = { tenant: '7', step: 'child' };
      expect(await handle.result()).toEqual([{ tenant: '7' }, both]);
      expect(seen).toEqual([{ tenant: '7' }, { tenant: '7' }, both]);
    });

    it('headers that are too many or too large are rejected', async () => {
      const { client } = await open({ orchestrations: [waiting], tasks: [] });
      const many = Object.fromEntries(Array.from({ length: 33 }, (_, n) => [`h${n}`, 'x']));
      const bombs = [
        many,
        { big: 'x'.repeat(10_000) },
        { ['n'.repeat(200)]: 'x' },
        { '': 'x' },
        { 'line\nbreak': 'x' },
        { number: 5 },
        { half: '\ud800' },
        'headers',
        [],
        null,
      ];
      for (const headers of bombs as never[]) {
        for (const start of [
          client.start(waiting, 'x', { headers }),
          client.runTask('any', undefined, { headers }),
        ]) {
          await expect(start).rejects.toMatchObject({ code: 'INVALID_OPTION' });
        }
      }
    });

    it('a header or a tag named __proto__ is rejected instead of lost', async () => {
      const { client } = await open({ orchestrations: [waiting], tasks: [] });
      const bomb = { ['__proto__']: 'x', tenant: '7' };
      // A server rejects the key in any body.
      const refused = { code: expect.stringMatching(/^INVALID_(OPTION|INPUT)$/) };
      for (const options of [{ headers: bomb }, { tags: bomb }]) {
        await expect(client.start(waiting, 'x', options)).rejects.toMatchObject(refused);
        await expect(client.runTask('any', 1, options)).rejects.toMatchObject(refused);
      }
      await expect(client.list({ tags: bomb })).rejects.toMatchObject(refused);
    });
  },
  modes,
);

describeEngine(
  'starts by code',
  (open) => {
    const double = task('double', async (ctx, n: number) => {
      if (n < 0) throw new Error('negative');
      return { result: n * 2, name: ctx.taskName, headers: ctx.headers };
    });
    const picky = task('picky', async () => 'ran', { condition: () => false });
    const squared = flow('square')
      .input<number>()
      .step('square', (_ctx, { input }) => input * input)
      .output();

    it('ctx.runTask() runs a task, and fails with its error', async () => {
      const caller = orchestration('caller', async (ctx) => {
        const doubled = await ctx.runTask(double, 21);
        const failures: unknown[] = [];
        for (const call of [ctx.runTask(double, -1), ctx.runTask(picky)]) {
          try {
            await call;
          } catch (error) {
            const { code, cause } = error as { code: string; cause: { message: string } };
            failures.push([code, cause.message]);
          }
        }
        return [doubled, failures];
      });
      const { client } = await open({ orchestrations: [caller], tasks: [double, picky] });
      const handle = await client.start(caller, undefined, { headers: { tenant: '7' } });
      expect(await handle.result()).toEqual([
        { result: 42, name: 'double', headers: { tenant: '7' } },
        [
          ['ACTIVITY_FAILED', 'negative'],
          ['ACTIVITY_FAILED', 'Task "picky" was skipped: its condition returned false.'],
        ],
      ]);
    });

    it('retry() rejects while a live instance holds the dedupe key, and changes nothing', async () => {
      const failing = orchestration('failing', async (ctx, fails: boolean) => {
        if (fails) throw new Error('first');
        await ctx.waitFor(over);
      });
      const { client } = await open({ orchestrations: [failing] });
      const dedupeKey = 'one at a time';
      const first = await client.start(failing, true, { id: 'first', dedupeKey });
      await expect(first.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      const second = await client.start(failing, false, { id: 'second', dedupeKey });
      const retried = client.retry('first', { from: 'start', input: false });
      await expect(retried).rejects.toMatchObject({
        code: 'INSTANCE_NOT_RETRYABLE',
        message: expect.stringContaining('"second"') as string,
      });
      expect(await client.get('first')).toMatchObject({ status: 'failed', executionId: 1 });
      await second.raiseEvent(over);
      await second.result();
      await client.retry('first', { from: 'start', input: false });
      expect((await client.start(failing, false, { dedupeKey })).id).toBe('first');
    });

    it('calls and runs of a task share its concurrency in a worker', async () => {
      let running = 0;
      let most = 0;
      const narrow = task(
        'narrow',
        async () => {
          running += 1;
          most = Math.max(most, running);
          for (let turn = 0; turn < 5; turn += 1) await new Promise((next) => setImmediate(next));
          running -= 1;
        },
        { concurrency: { perWorker: 2 } },
      );
      const caller = orchestration('caller', async (ctx) => {
        await ctx.all(Array.from({ length: 6 }, () => ctx.runTask(narrow)));
      });
      const { client } = await open({ orchestrations: [caller], tasks: [narrow] });
      const runs = await Promise.all([
        client.start(caller),
        ...Array.from({ length: 4 }, () => client.runTask(narrow)),
      ]);
      await Promise.all(runs.map((run) => run.result()));
      expect(most).toBe(2);
    });

    it('failed calls of a task open its circuit breaker; its onFail does not run', async () => {
      const failed: unknown[] = [];
      let attempts = 0;
      const breaking = task(
        'breaking',
        async () => {
          attempts += 1;
          throw new Error('down');
        },
        {
          retry: { maxAttempts: 3, initialDelay: 1, backoff: 'fixed', jitter: 0 },
          circuitBreaker: { failures: 2, openFor: '1h' },
          onFail: { handler: (_ctx, run) => void failed.push(run) },
        },
      );
      const caller = orchestration('caller', async (ctx) => ctx.runTask(breaking));
      const { client } = await open({ orchestrations: [caller], tasks: [breaking] });
      const handle = await client.start(caller);
      // The third attempt waits for the breaker: the queue has it, and no worker runs it.
      await expect.poll(() => attempts).toBe(2);
      await expect.poll(async () => (await client.why(handle.id)).text).toContain('attempt 3 of 3');
      expect(attempts).toBe(2);
      await handle.cancel({ wait: true });
      expect(failed).toEqual([]);
    });

    it('a cancel of the instance reaches a task that it runs', async () => {
      const reasons: string[] = [];
      const begun = Promise.withResolvers<void>();
      const slow = task('slow', async (ctx) => {
        begun.resolve();
        await ctx.canceled();
        reasons.push(ctx.isCanceled ? 'canceled' : 'not');
        ctx.throwIfCanceled();
      });
      const caller = orchestration('caller', async (ctx) => ctx.runTask(slow));
      const { client } = await open({ orchestrations: [caller], tasks: [slow] });
      const handle = await client.start(caller);
      await begun.promise;
      await handle.cancel({ wait: true });
      await expect.poll(() => reasons).toEqual(['canceled']);
    });

    it('ctx.runTask() is canceled by its promise, by a race and by a scope, alone', async () => {
      const begun: string[] = [];
      const canceled: string[] = [];
      const slow = task('slow', async (ctx, label: string) => {
        begun.push(label);
        await ctx.client.raiseEvent(ctx.runId, `${label} begun`);
        await ctx.canceled();
        canceled.push(label);
        ctx.throwIfCanceled();
      });
      const caller = orchestration('caller', async (ctx) => {
        const run = ctx.runTask(slow, 'promise');
        await ctx.waitFor('promise begun');
        run.cancel('enough');
        const ended = await run.catch((error: unknown) => (error as { code: string }).code);
        const won = await ctx.race([ctx.runTask(slow, 'race'), ctx.waitFor('race begun')]);
        const scoped = await ctx
          .scope(() => ctx.runTask(slow, 'scope'), { timeout: 200 })
          .catch((error: unknown) => (error as { trigger: string }).trigger);
        const { result } = await ctx.runTask(double, 4);
        return [ended, won === undefined, scoped, result];
      });
      const { client } = await open({ orchestrations: [caller], tasks: [slow, double] });
      const handle = await client.start(caller);
      expect(await handle.result()).toEqual(['OPERATION_CANCELED', true, 'timeout', 8]);
      expect(begun).toEqual(expect.arrayContaining(['promise', 'race']));
      // On a busy machine the scope can end before its run begins.
      await expect.poll(() => canceled.toSorted()).toEqual(begun.toSorted());
      // The calls are part of the instance: it has no children.
      const { items } = await client.timeline(handle.id);
      const tasks = items.filter(({ name }) => name?.includes('slow') === true);
      expect(tasks).toHaveLength(3);
      expect(await client.getInstanceTree(handle.id)).toMatchObject({ isRootOnly: true });
    });

    it('ctx.child() and ctx.startDetached() start flows', async () => {
      const caller = orchestration('caller', async (ctx) => {
        await ctx.startDetached(squared, 3, { id: 'detached' });
        return ctx.child(squared, 4);
      });
      const { client } = await open({ orchestrations: [caller], flows: [squared] });
      expect(await (await client.start(caller)).result()).toBe(16);
      expect(await client.handle('detached').result()).toBe(9);
    });

    it('ctx.client of activities and tasks starts all that a client can', async () => {
      const starts = activity('starts', async (ctx) => {
        const { client } = ctx;
        const started = await client.start(waiting, 'a', {
          id: 'started',
          tags: { of: 'activity' },
        });
        await client.raiseEvent(started.id, over, undefined, { key: 'k' });
        const run = await client.runTask(double, 1);
        const flowRun = await client.runFlow(squared, 5);
        return [await started.result(), (await run.result()).result, await flowRun.result()];
      });
      const caller = orchestration('caller', async (ctx) => ctx.call(starts));
      const { client } = await open({
        orchestrations: [caller, waiting],
        activities: [starts, noop],
        tasks: [double],
        flows: [squared],
      });
      expect(await (await client.start(caller)).result()).toEqual(['a', 2, 25]);
    });
  },
  modes,
);
