import { expect, it } from 'vitest';
import { isPerdureError } from 'perdure';
import { eq, exists, flow, gt, readFlowRun, type FlowRun } from 'perdure/flows';
import { z } from 'zod';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';

const statuses = (run: FlowRun | undefined) =>
  Object.fromEntries((run?.steps ?? []).map(({ name, status }) => [name, status]));

describeEngine(
  'a flow graph',
  (open) => {
    it('a step runs after its dependencies complete and receives their outputs', async () => {
      const order: string[] = [];
      const note = <T>(name: string, value: T): T => {
        order.push(name);
        return value;
      };
      const diamond = flow('diamond')
        .input<number>()
        .step('top', (_ctx, { input }) => note('top', input + 1))
        .step('left', { needs: ['top'] }, (_ctx, { top }) => note('left', top * 10))
        .step('right', { needs: ['top'] }, async (_ctx, { top }) => note('right', `<${top}>`))
        .step('last', { after: ['left'] }, () => note('last', undefined))
        .step('bottom', { needs: ['left', 'right'], after: ['last'] }, (_ctx, given) =>
          note('bottom', `${given.left} ${given.right} of ${given.input}`),
        )
        .output();
      const { client } = await open({ flows: [diamond] });
      const run = await client.runFlow(diamond, 4);
      expect(await run.result()).toBe('50 <5> of 4');
      expect(order[0]).toBe('top');
      expect(order.indexOf('last')).toBeGreaterThan(order.indexOf('left'));
      expect(order.at(-1)).toBe('bottom');
      expect(order).toHaveLength(5);
    });

    it('a step whose condition is false is skipped, and its dependents get undefined', async () => {
      const shop = flow('shop')
        .input<{ readonly euros: number }>()
        .step('discount', { when: ({ input }) => gt(input.euros, 100) }, () => 10)
        .step(
          'gift',
          { optional: ['discount'], when: ({ discount }) => exists(discount) },
          () => 'g',
        )
        .step('bill', { optional: ['discount', 'gift'] }, (_ctx, { input, discount, gift }) => ({
          euros: input.euros - (discount ?? 0),
          gift: gift ?? 'none',
        }))
        .output();
      const { client } = await open({ flows: [shop] });
      const small = await client.runFlow(shop, { euros: 30 });
      expect(await small.result()).toEqual({ euros: 30, gift: 'none' });
      expect(statuses(await readFlowRun(client, small.id))).toEqual({
        discount: 'skipped',
        gift: 'skipped',
        bill: 'completed',
      });
      const large = await client.runFlow(shop, { euros: 130 });
      expect(await large.result()).toEqual({ euros: 120, gift: 'g' });
    });

    it('a run returns the output of the first output candidate that completed', async () => {
      const paths = flow('paths')
        .input<string>()
        .step('express', { when: ({ input }) => eq(input, 'fast') }, () => 'by plane')
        .step('normal', () => 'by train');
      const chosen = paths.output('express', 'normal');
      const { client } = await open({ flows: [chosen] });
      expect(await (await client.runFlow(chosen, 'fast')).result()).toBe('by plane');
      expect(await (await client.runFlow(chosen, 'slow')).result()).toBe('by train');
    });

    it('a run fails with NO_OUTPUT when every output candidate was skipped', async () => {
      const empty = flow('empty')
        .input<number>()
        .step('a', { when: ({ input }) => gt(input, 5) }, () => 'a')
        .step('b', { when: ({ input }) => gt(input, 6) }, () => 'b')
        .output();
      const { client } = await open({ flows: [empty] });
      const run = await client.runFlow(empty, 1);
      await expect(run.result()).rejects.toMatchObject({
        failure: {
          code: 'NO_OUTPUT',
          message: expect.stringContaining('candidates a, b were all skipped'),
        },
      });
    });

    it('ctx.completeEarly() completes the run with its value and cancels other steps', async () => {
      const { promise: stopped, resolve: sawStop } = Promise.withResolvers<unknown>();
      const { promise: isRunning, resolve: runs } = Promise.withResolvers<void>();
      const search = flow('search')
        .completesEarly<string>()
        .step('slow', async (ctx) => {
          runs();
          sawStop(await ctx.canceled());
          ctx.throwIfCanceled();
          return 'slow';
        })
        .step('cached', async (ctx) => {
          await isRunning;
          ctx.completeEarly('from the cache', 'found it');
          return 'never';
        })
        .step('after', { needs: ['cached'] }, ({ step }) => step)
        .output();
      const { client } = await open({ flows: [search] });
      const run = await client.runFlow(search);
      expect(await run.result()).toBe('from the cache');
      expect(await stopped).toMatchObject({ trigger: 'cancel', reason: 'completed early: cached' });
      await expect
        .poll(async () => statuses(await readFlowRun(client, run.id)))
        .toEqual({ slow: 'canceled', cached: 'completed', after: 'canceled' });
      expect(await readFlowRun(client, run.id)).toMatchObject({
        status: 'completed',
        completedEarly: { step: 'cached', reason: 'found it' },
      });
    });

    it('ctx.completeEarly() completes the run even if the handler catches its throw', async () => {
      const stubborn = flow('stubborn')
        .completesEarly<number>()
        .step('a', (ctx) => {
          try {
            ctx.completeEarly(5, 'enough');
          } catch {
            return 6;
          }
          return 7;
        })
        .output();
      const { client } = await open({ flows: [stubborn] });
      expect(await (await client.runFlow(stubborn)).result()).toBe(5);
    });

    it('a step whose condition reads a missing value fails with CONDITION_FAILED', async () => {
      const odd = flow('odd')
        .input<{ readonly euros?: number }>()
        .step('a', { when: ({ input }) => gt(input.euros as never, 5) }, () => 'a')
        .output();
      const { client } = await open({ flows: [odd] });
      const run = await client.runFlow(odd, {});
      await expect(run.result()).rejects.toMatchObject({
        failure: {
          code: 'STEP_FAILED',
          details: { step: 'a' },
          cause: { code: 'CONDITION_FAILED' },
        },
      });
      expect((await readFlowRun(client, run.id))?.steps).toMatchObject([
        { name: 'a', status: 'failed', failure: { code: 'CONDITION_FAILED' } },
      ]);
    });

    it('a step inherits the priority of its run unless it sets its own', async () => {
      const began: string[] = [];
      const mayBegin = Promise.withResolvers<void>();
      const blocker = flow('blocker')
        .step('block', () => mayBegin.promise)
        .output();
      const job = flow('job')
        .input<string>()
        .step('first', (ctx, { input }) => void began.push(`${input} ${ctx.step}`))
        .step('low', { priority: 1 }, (ctx, { input }) => void began.push(`${input} ${ctx.step}`))
        .output();
      const { client } = await open({ flows: [blocker, job], activityConcurrency: 1 });
      const blocking = await client.runFlow(blocker);
      await expect
        .poll(async () => (await client.running(blocking.id)).map(({ state }) => state))
        .toEqual(['running']);
      const plain = await client.runFlow(job, 'plain');
      const urgent = await client.runFlow(job, 'urgent', { priority: 50 });
      await expect.poll(async () => (await client.queueDepths()).activities.ready).toBe(4);
      mayBegin.resolve();
      await Promise.all([plain.result(), urgent.result()]);
      expect(began[0]).toBe('urgent first');
      expect(new Set(began.slice(1, 3))).toEqual(new Set(['plain low', 'urgent low']));
      expect(began[3]).toBe('plain first');
      expect(await readFlowRun(client, urgent.id)).toMatchObject({ priority: 50 });
      for (const priority of [-1, 101, 0.5]) {
        await expect(client.runFlow(job, 'x', { priority })).rejects.toMatchObject({
          code: 'INVALID_OPTION',
        });
      }
    });

    it('runFlow() rejects an input that violates its schema and starts nothing', async () => {
      const strict = flow('strict')
        .input(z.object({ euros: z.number() }))
        .step('a', (_ctx, { input }) => input.euros)
        .output();
      const { client } = await open({ flows: [strict] });
      const refused = client.runFlow(strict, { euros: 'many' } as never, { id: 'x' });
      await expect(refused).rejects.toSatisfy((error) => isPerdureError(error, 'INVALID_INPUT'));
      expect(await client.get('x')).toBeUndefined();
      expect(await (await client.runFlow(strict, { euros: 3 })).result()).toBe(3);
    });

    it('a flow started with start() fails with INVALID_INPUT that names runFlow', async () => {
      const one = flow('one')
        .step('a', () => 1)
        .output();
      const { client } = await open({ flows: [one] });
      const run = await client.start('one', 5);
      await expect(run.result()).rejects.toMatchObject({
        failure: { code: 'INVALID_INPUT', message: expect.stringContaining('runFlow') as string },
      });
      await expect(readFlowRun(client, run.id)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
      expect(await readFlowRun(client, 'nobody')).toBeUndefined();
    });

    it('a flow with the longest allowed names runs and can be canceled', async () => {
      const long = flow('f'.repeat(200))
        .step('s'.repeat(50), async (ctx) => void (await ctx.canceled()))
        .output();
      const { client } = await open({ flows: [long] });
      const run = await client.runFlow(long);
      expect(await run.cancel({ reason: 'no more', wait: true })).toMatchObject({
        status: 'canceled',
      });
    });
  },
  modesOfFlows,
);
