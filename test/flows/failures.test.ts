import { expect, it } from 'vitest';
import { flow, gt, readFlowItems, readFlowRun, type FlowFailure } from 'perdure/flows';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';
import { signalled } from '../engine/signalled.ts';

describeEngine(
  'a flow that fails',
  (open) => {
    it('a step whose combined inputs exceed the payload limit fails with PAYLOAD_TOO_LARGE', async () => {
      const large = flow('large')
        .step('a', () => 'a'.repeat(1_500_000))
        .step('b', () => 'b'.repeat(1_500_000))
        .step('both', { needs: ['a', 'b'] }, () => undefined)
        .step('never', { after: ['both'] }, () => undefined)
        .output();
      const { client } = await open({ flows: [large] });
      const run = await client.runFlow(large);
      await expect(run.result()).rejects.toMatchObject({ failure: { details: { step: 'both' } } });
      const steps = (await readFlowRun(client, run.id))?.steps;
      expect(steps?.map(({ status }) => status)).toEqual([
        'completed',
        'completed',
        'failed',
        'canceled',
      ]);
      expect(steps?.[2]?.failure).toMatchObject({ code: 'PAYLOAD_TOO_LARGE' });
      expect(steps?.[3]?.reason).toBe('sibling failed: both');
    });

    it('a failed step fails the run and cancels its running siblings', async () => {
      const isRunning = signalled<void>();
      const stopped = signalled<unknown>();
      const ran: string[] = [];
      const pair = flow('pair')
        .step('slow', async (ctx) => {
          isRunning.resolve();
          stopped.resolve(await ctx.canceled());
          ctx.throwIfCanceled();
        })
        .step('bad', async () => {
          await isRunning.promise;
          throw Object.assign(new Error('out of stock'), { code: 'EMPTY' });
        })
        .step('after', { after: ['slow'] }, () => void ran.push('after'))
        .output();
      const { client } = await open({ flows: [pair] });
      const run = await client.runFlow(pair);
      await expect(run.result()).rejects.toMatchObject({
        code: 'INSTANCE_FAILED',
        failure: {
          code: 'STEP_FAILED',
          message: "Step 'bad' of flow 'pair' failed: out of stock",
          details: { step: 'bad', attempts: 1 },
          cause: { message: 'out of stock', code: 'EMPTY' },
        },
      });
      expect(await stopped.promise).toMatchObject({
        trigger: 'cancel',
        reason: 'sibling failed: bad',
      });
      await expect
        .poll(async () => (await readFlowRun(client, run.id))?.steps)
        .toMatchObject([
          { name: 'slow', status: 'canceled', reason: 'sibling failed: bad' },
          { name: 'bad', status: 'failed', attempts: 1, failure: { message: 'out of stock' } },
          { name: 'after', status: 'canceled', reason: 'sibling failed: bad' },
        ]);
      expect(ran).toEqual([]);
    });

    it('a failing step is attempted as often as its retry policy allows', async () => {
      const attempts: number[] = [];
      const flaky = flow('flaky')
        .step('bad', { retry: { maxAttempts: 3, initialDelay: 1 } }, (ctx) => {
          attempts.push(ctx.attempt);
          throw new Error('no');
        })
        .output();
      const { client } = await open({ flows: [flaky] });
      const run = await client.runFlow(flaky);
      await expect(run.result()).rejects.toMatchObject({ failure: { details: { attempts: 3 } } });
      expect(attempts).toEqual([1, 2, 3]);
      expect((await readFlowRun(client, run.id))?.steps[0]).toMatchObject({ attempts: 3 });
    });

    it('a step does not retry an error whose class or superclass is nonRetryable', async () => {
      class Declined extends Error {}
      class DeclinedForever extends Declined {}
      const picky = flow('picky')
        .step(
          'pay',
          { retry: { maxAttempts: 5, initialDelay: 1, nonRetryable: [Declined] } },
          () => {
            throw new DeclinedForever('no');
          },
        )
        .output();
      const { client } = await open({ flows: [picky] });
      await expect((await client.runFlow(picky)).result()).rejects.toMatchObject({
        failure: { details: { step: 'pay', attempts: 1 } },
      });
    });

    it('a step that exceeds its timeout is aborted with trigger timeout', async () => {
      const stopped = signalled<unknown>();
      const slow = flow('slow')
        .step('wait', { timeout: 20 }, async (ctx) => {
          stopped.resolve(await ctx.canceled());
          ctx.throwIfCanceled();
        })
        .output();
      const { client } = await open({ flows: [slow] });
      const run = await client.runFlow(slow);
      await expect(run.result()).rejects.toMatchObject({
        failure: { code: 'STEP_FAILED', cause: { code: 'TIMEOUT' } },
      });
      expect(await stopped.promise).toMatchObject({ trigger: 'timeout' });
    });

    it('a failed map item is named in the failure, and other items are canceled', async () => {
      const items = flow('items')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input, concurrency: 2 }, async (ctx, n) => {
          if (n === 2) throw new Error('bad item');
          await ctx.canceled();
          ctx.throwIfCanceled();
        })
        .output();
      const { client } = await open({ flows: [items] });
      const run = await client.runFlow(items, [1, 2, 3, 4]);
      await expect(run.result()).rejects.toMatchObject({
        failure: {
          message: "Step 'm', item 1, of flow 'items' failed: bad item",
          details: { step: 'm', index: 1, attempts: 1 },
        },
      });
      await expect
        .poll(async () => (await readFlowItems(client, run.id, 'm')).items)
        .toMatchObject([
          { status: 'canceled', reason: 'sibling failed: m' },
          { status: 'failed', failure: { message: 'bad item' } },
        ]);
      expect((await readFlowRun(client, run.id))?.steps[0]).toMatchObject({
        status: 'failed',
        items: { failed: 1, canceled: 3, running: 0 },
      });
    });

    it('the on-fail handler gets the failed step, its input, attempts and earlier outputs', async () => {
      const received = signalled<FlowFailure>();
      const order = flow('order')
        .input<string>()
        .step('reserve', () => 'reservation 7')
        .map('list', { over: ({ input }) => input as never }, (_ctx, n) => n)
        .step(
          'charge',
          { needs: ['reserve'], after: ['list'], retry: { maxAttempts: 2, initialDelay: 1 } },
          () => {
            throw Object.assign(new Error('declined'), { code: 'CARD' });
          },
        )
        .onFail((ctx, failure) => {
          expect(ctx.flow).toBe('order');
          received.resolve(failure);
        })
        .output();
      const { client } = await open({ flows: [order] });
      const run = await client.runFlow(order, ['a'] as never);
      await expect(run.result()).rejects.toMatchObject({
        failure: { details: { step: 'charge' } },
      });
      expect(await received.promise).toMatchObject({
        input: ['a'],
        step: 'charge',
        given: { reserve: 'reservation 7' },
        attempts: 2,
        failure: { message: 'declined', code: 'CARD' },
        outputs: { reserve: 'reservation 7' },
      });
      expect(await readFlowRun(client, run.id)).toMatchObject({
        status: 'failed',
        onFail: { status: 'completed' },
      });
    });

    it('the on-fail handler follows its own retry policy, and the run stays failed', async () => {
      const attempts: number[] = [];
      const order = flow('order')
        .input<number>()
        .step('charge', () => {
          throw new Error('declined');
        })
        .onFail(
          (ctx, { input }) => {
            attempts.push(ctx.attempt);
            if (ctx.attempt < input) throw new Error('mail server down');
          },
          { retry: { maxAttempts: 3, initialDelay: 1 } },
        )
        .output();
      const { client } = await open({ flows: [order] });
      const first = await client.runFlow(order, 3);
      await expect(first.result()).rejects.toMatchObject({
        failure: { cause: { message: 'declined' } },
      });
      expect(attempts).toEqual([1, 2, 3]);
      const second = await client.runFlow(order, 9);
      await expect(second.result()).rejects.toMatchObject({
        failure: { cause: { message: 'declined' } },
      });
      expect((await readFlowRun(client, second.id))?.onFail).toMatchObject({
        status: 'failed',
        attempts: 3,
        failure: { message: 'mail server down' },
      });
    });

    it('the on-fail handler runs when the flow fails with NO_OUTPUT', async () => {
      const received: FlowFailure[] = [];
      const none = flow('none')
        .input<number>()
        .step('a', { when: ({ input }) => gt(input, 5) }, () => 1)
        .onFail((_ctx, failure) => void received.push(failure))
        .output();
      const { client } = await open({ flows: [none] });
      await expect((await client.runFlow(none, 1)).result()).rejects.toMatchObject({
        failure: { code: 'NO_OUTPUT' },
      });
      expect(received).toMatchObject([{ input: 1, failure: { code: 'NO_OUTPUT' } }]);
      expect(received[0]?.step).toBeUndefined();
    });

    it('the on-fail handler gets no outputs when they exceed the payload limit', async () => {
      const received: FlowFailure[] = [];
      const large = 'x'.repeat(1_500);
      const order = flow('order')
        .input<{ readonly fail: boolean }>()
        .step('a', () => large)
        .step('b', () => large)
        .step('c', { after: ['a', 'b'] }, (_ctx, { input }) => {
          if (input.fail) throw new Error('no');
        })
        .onFail((_ctx, failure) => void received.push(failure))
        .output();
      const { client } = await open({ flows: [order], payloadLimitBytes: 3_200 });
      await expect((await client.runFlow(order, { fail: true })).result()).rejects.toThrow('no');
      expect(received).toMatchObject([{ step: 'c', outputs: {} }]);
    });

    it('an on-fail handler interrupted by a worker shutdown runs on another worker', async () => {
      let calls = 0;
      const hold = signalled<void>();
      const order = flow('order')
        .step('charge', () => {
          throw new Error('declined');
        })
        .onFail(async (ctx) => {
          calls += 1;
          hold.resolve();
          if (calls === 1) await ctx.canceled();
          ctx.throwIfCanceled();
        })
        .output();
      const engine = await open();
      const first = await engine.startWorker({ flows: [order], shutdownGrace: 0 });
      const run = await engine.client.runFlow(order);
      await hold.promise;
      await first.stop();
      await engine.startWorker({ flows: [order] });
      await expect(run.result()).rejects.toMatchObject({
        failure: { cause: { message: 'declined' } },
      });
      expect(calls).toBe(2);
      expect((await readFlowRun(engine.client, run.id))?.onFail).toMatchObject({
        status: 'completed',
      });
    });
  },
  modesOfFlows,
);
