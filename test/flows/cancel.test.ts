import { expect, it } from 'vitest';
import { event } from 'perdure';
import { flow, readFlowItems, readFlowRun, type FlowRun, type StepContext } from 'perdure/flows';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';
import { signalled } from '../engine/signalled.ts';

const statuses = (run: FlowRun | undefined) => run?.steps.map(({ status }) => status);

describeEngine(
  'cancel of a flow run',
  (open) => {
    it('a run with parallel branches stays canceling until its running steps have stopped', async () => {
      const bothRun = [signalled<void>(), signalled<void>()];
      const mayStop = signalled<void>();
      const seen: unknown[] = [];
      const ran: string[] = [];
      const branch = async (
        which: number,
        ctx: { canceled(): Promise<unknown>; throwIfCanceled(): void },
      ): Promise<void> => {
        bothRun[which]?.resolve();
        seen.push(await ctx.canceled());
        await mayStop.promise;
        ctx.throwIfCanceled();
      };
      const branches = flow('branches')
        .step('left', (ctx) => branch(0, ctx))
        .step('right', (ctx) => branch(1, ctx))
        .step('signalled', { signal: event('go') }, () => void ran.push('signalled'))
        .step('afterLeft', { after: ['left'] }, () => void ran.push('afterLeft'))
        .step('last', { after: ['afterLeft', 'right'] }, () => void ran.push('last'))
        .onFail(() => void ran.push('onFail'))
        .output();
      const { client } = await open({ flows: [branches] });
      const run = await client.runFlow(branches);
      await Promise.all(bothRun.map(({ promise }) => promise));
      expect(await run.cancel({ reason: 'changed my mind', actor: 'jo' })).toEqual({
        found: true,
        changed: true,
        status: 'canceling',
      });
      await expect.poll(() => seen.length).toBe(2);
      expect(seen[0]).toMatchObject({ trigger: 'cancel', reason: 'changed my mind' });
      const during = await readFlowRun(client, run.id);
      expect(during).toMatchObject({
        status: 'canceling',
        cancel: {
          reason: 'changed my mind',
          actor: 'jo',
          requestedAt: expect.any(Number) as number,
        },
      });
      expect(statuses(during)).toEqual(['running', 'running', 'canceled', 'canceled', 'canceled']);
      mayStop.resolve();
      await expect(run.result()).rejects.toMatchObject({
        code: 'OPERATION_CANCELED',
        reason: 'changed my mind',
      });
      const after = await readFlowRun(client, run.id);
      expect(after).toMatchObject({ status: 'canceled', canceledAt: expect.any(Number) as number });
      expect(new Set(statuses(after))).toEqual(new Set(['canceled']));
      expect(ran).toEqual([]);
    });

    it('cancel() of a map with running items starts none of the queued items', async () => {
      const twoRun = signalled<void>();
      const began: number[] = [];
      const wide = flow('wide')
        .input<readonly number[]>()
        .map('m', { over: ({ input }) => input, concurrency: 20 }, async (ctx, n) => {
          began.push(n);
          if (began.length === 2) twoRun.resolve();
          await ctx.canceled();
          ctx.throwIfCanceled();
        })
        .reduce('sum', { over: ({ m }) => m, initial: 0 }, (_ctx, sum) => sum)
        .output();
      const { client } = await open({ flows: [wide], activityConcurrency: 2 });
      const run = await client.runFlow(
        wide,
        Array.from({ length: 50 }, (_, index) => index),
      );
      await twoRun.promise;
      await run.cancel({ reason: 'enough', wait: true });
      expect(began).toHaveLength(2);
      const after = await readFlowRun(client, run.id);
      expect(after).toMatchObject({
        status: 'canceled',
        steps: [{ status: 'canceled', items: { canceled: 50 } }, { status: 'canceled' }],
      });
      const { items } = await readFlowItems(client, run.id, 'm');
      expect(items[0]).toMatchObject({ index: 0, status: 'canceled', reason: 'enough' });
    });

    it('cancel() withdraws all queued steps and items before it resolves', async () => {
      const both = flow('both')
        .input<readonly number[]>()
        .step('a', () => 1)
        .map('m', { over: ({ input }) => input }, (_ctx, n) => n)
        .step('later', { needs: ['a', 'm'] }, () => 2)
        .output();
      const engine = await open({ orchestrations: [both.orchestration] });
      const run = await engine.client.runFlow(
        both,
        Array.from({ length: 30 }, (_, index) => index),
      );
      const other = await engine.openProvider();
      const fetch = (max: number) => other.fetchWorkItems({ max, lockMs: 60_000, waitMs: 5_000 });
      try {
        const [step, item] = await fetch(2);
        expect([step?.name, item?.name]).toEqual(['both/a', 'both/m$map']);
        await run.cancel({ reason: 'stop' });
        expect(await other.fetchWorkItems({ max: 100, lockMs: 60_000, waitMs: 0 })).toEqual([]);
        const held = [step, item].flatMap((one) => (one === undefined ? [] : [one]));
        const renewals = held.map(({ lockToken }) => ({ lockToken }));
        for (const answer of await other.renewWorkItemLocks(renewals, 60_000)) {
          expect(answer).toMatchObject({ held: true, cancel: { reason: 'stop' } });
        }
        const during = await readFlowRun(engine.client, run.id);
        expect(statuses(during)).toEqual(['running', 'running', 'canceled']);
        expect(during?.steps[1]?.items).toMatchObject({ running: 1, canceled: 29, queued: 0 });
        const outcome = { kind: 'canceled', leaked: false } as const;
        await other.ackWorkItems(renewals.map(({ lockToken }) => ({ lockToken, outcome })));
        await expect(run.result()).rejects.toMatchObject({ reason: 'stop' });
      } finally {
        await other.close();
      }
    });

    it('cancel() between two attempts ends the step without another attempt', async () => {
      const failed = signalled<void>();
      let attempts = 0;
      const flaky = flow('flaky')
        .step('a', { retry: { maxAttempts: 5, initialDelay: '1h', jitter: 0 } }, () => {
          attempts += 1;
          failed.resolve();
          throw new Error('not yet');
        })
        .onFail(() => void (attempts += 100))
        .output();
      const { client } = await open({ flows: [flaky] });
      const run = await client.runFlow(flaky);
      await failed.promise;
      await expect
        .poll(async () => (await client.running(run.id)).map(({ state }) => state))
        .toEqual(['retrying']);
      await run.cancel({ reason: 'no more' });
      await expect(run.result()).rejects.toMatchObject({ reason: 'no more' });
      expect(attempts).toBe(1);
      expect((await readFlowRun(client, run.id))?.onFail).toBeUndefined();
    });

    it('a canceled run whose worker died ends when the lease expires', async () => {
      const one = flow('one')
        .step('a', () => 1)
        .output();
      const engine = await open({ orchestrations: [one.orchestration] });
      const run = await engine.client.runFlow(one);
      const dead = await engine.openProvider();
      try {
        expect(await dead.fetchWorkItems({ max: 1, lockMs: 300, waitMs: 5_000 })).toHaveLength(1);
        await run.cancel({ reason: 'left behind' });
        await expect(run.result()).rejects.toMatchObject({ reason: 'left behind' });
      } finally {
        await dead.close();
      }
    });

    it('repeated cancel() calls keep the first reason, and a finished run is unchanged', async () => {
      const runs = signalled<void>();
      const one = flow('one')
        .input<boolean>()
        .step('a', async (ctx, { input }) => {
          if (!input) return 'done';
          runs.resolve();
          await ctx.canceled();
          ctx.throwIfCanceled();
          return 'never';
        })
        .output();
      const { client } = await open({ flows: [one] });
      const run = await client.runFlow(one, true);
      await runs.promise;
      const answers = await Promise.all(
        ['a', 'b', 'c', 'd'].map((reason) => run.cancel({ reason })),
      );
      expect(answers.filter(({ changed }) => changed)).toHaveLength(1);
      await expect(run.result()).rejects.toMatchObject({ reason: 'a' });
      const { events } = await client.exportHistory(run.id);
      expect(events.filter(({ kind }) => kind === 'cancelRequested')).toHaveLength(1);
      expect(events.filter(({ kind }) => kind === 'executionCanceled')).toHaveLength(1);

      const done = await client.runFlow(one, false);
      await done.result();
      const before = await client.get(done.id);
      expect(await done.cancel({ reason: 'late' })).toEqual({
        found: true,
        changed: false,
        status: 'completed',
      });
      expect(await client.get(done.id)).toEqual(before);
      expect(await client.cancel('nobody')).toEqual({ found: false, changed: false, status: null });
    });

    it('ctx.cancel() in a step or item cancels the run, whatever its handler does', async () => {
      const ran: string[] = [];
      const self = flow('self')
        .input<'step' | 'item'>()
        .step('a', async (ctx, { input }) => {
          if (input === 'step') await ctx.cancel('not for us');
          return ['x'];
        })
        .map('b', { over: ({ a }) => a }, async (ctx) => {
          ran.push('b');
          await ctx.cancel('not this one');
          throw new Error('an error of its own');
        })
        .step('c', { after: ['b'] }, () => void ran.push('c'))
        .onFail(() => void ran.push('onFail'))
        .output();
      const { client } = await open({ flows: [self] });
      const first = await client.runFlow(self, 'step');
      await expect(first.result()).rejects.toMatchObject({ reason: 'not for us' });
      expect(ran).toEqual([]);
      // The failure arrives in the turn of the cancel or after it, depending on the load: 20 runs cover both.
      const others = await Promise.all(
        Array.from({ length: 20 }, () => client.runFlow(self, 'item')),
      );
      for (const other of others) {
        await expect(other.result()).rejects.toMatchObject({ reason: 'not this one' });
        expect((await client.get(other.id))?.status).toBe('canceled');
      }
      expect(ran).toEqual(others.map(() => 'b'));
    });

    it('ctx.cancel() and ctx.completeEarly() throw OUTSIDE_HANDLER after the handler has ended', async () => {
      const kept = signalled<StepContext<number>>();
      const keeping = flow('keeping')
        .completesEarly<number>()
        .step('a', (ctx) => {
          kept.resolve(ctx);
          return 1;
        })
        .output();
      const { client } = await open({ flows: [keeping] });
      const run = await client.runFlow(keeping);
      const ctx = await kept.promise;
      expect(await run.result()).toBe(1);
      await expect(ctx.cancel('late')).rejects.toMatchObject({ code: 'OUTSIDE_HANDLER' });
      expect(() => ctx.completeEarly(2, 'late')).toThrow(
        expect.objectContaining({ code: 'OUTSIDE_HANDLER' }),
      );
      expect(await client.get(run.id)).toMatchObject({ status: 'completed', output: 1 });
    });

    it('cancel() during the on-fail handler lets it finish, and the run stays failed', async () => {
      const runs = signalled<void>();
      const mayEnd = signalled<void>();
      let signal: AbortSignal | undefined;
      const order = flow('order')
        .step('charge', () => {
          throw new Error('declined');
        })
        .onFail(async (ctx) => {
          signal = ctx.signal;
          runs.resolve();
          await mayEnd.promise;
        })
        .output();
      const { client } = await open({ flows: [order] });
      const run = await client.runFlow(order);
      await runs.promise;
      expect(await run.cancel({ reason: 'too late' })).toMatchObject({ status: 'canceling' });
      mayEnd.resolve();
      await expect(run.result()).rejects.toMatchObject({
        failure: { cause: { message: 'declined' } },
      });
      expect(signal?.aborted).toBe(false);
      expect(await readFlowRun(client, run.id)).toMatchObject({
        status: 'failed',
        cancel: { reason: 'too late' },
        onFail: { status: 'completed' },
      });
    });

    it('a canceled step with cancellation wait that throws leaves the run canceled', async () => {
      const runs = signalled<void>();
      const ran: string[] = [];
      const waits = flow('waits')
        .input<boolean>()
        .step('a', { cancellation: 'wait' }, async (ctx, { input }) => {
          runs.resolve();
          if (input) await ctx.canceled();
          throw new Error('an error of its own');
        })
        .step('b', { after: ['a'] }, () => void ran.push('b'))
        .onFail(() => void ran.push('onFail'))
        .output();
      const { client } = await open({ flows: [waits] });
      const run = await client.runFlow(waits, true);
      await runs.promise;
      await run.cancel({ reason: 'stop' });
      await expect(run.result()).rejects.toMatchObject({ reason: 'stop' });
      expect(ran).toEqual([]);
      // Without a cancel the step fails the run.
      const failing = await client.runFlow(waits, false);
      await expect(failing.result()).rejects.toMatchObject({ failure: { code: 'STEP_FAILED' } });
      expect(ran).toEqual(['onFail']);
      expect((await readFlowRun(client, failing.id))?.steps[1]).toMatchObject({
        status: 'canceled',
        reason: 'sibling failed: a',
      });
    });

    it('with cancellation wait, a canceled last step completes the run; an earlier one does not', async () => {
      const runs = signalled<void>();
      const ran: string[] = [];
      const handler = async (ctx: { canceled(): Promise<unknown> }) => {
        runs.resolve();
        await ctx.canceled();
        return 'kept';
      };
      const last = flow('last').step('a', { cancellation: 'wait' }, handler).output();
      const more = flow('more')
        .step('a', { cancellation: 'wait' }, handler)
        .step('b', { needs: ['a'] }, () => void ran.push('b'))
        .output();
      const { client } = await open({ flows: [last, more] });
      const first = await client.runFlow(last);
      await runs.promise;
      await first.cancel({ reason: 'too late' });
      expect(await first.result()).toBe('kept');
      expect(await readFlowRun(client, first.id)).toMatchObject({
        status: 'completed',
        cancel: { reason: 'too late' },
      });
      const second = await client.runFlow(more);
      await expect
        .poll(async () => (await client.running(second.id)).map(({ state }) => state))
        .toEqual(['running']);
      await second.cancel({ reason: 'in time' });
      await expect(second.result()).rejects.toMatchObject({ reason: 'in time' });
      expect(ran).toEqual([]);
    });

    it('a worker shutdown aborts with trigger shutdown, and another worker continues the run', async () => {
      const runs = signalled<void>();
      const cancelInfo = signalled<unknown>();
      let calls = 0;
      const one = flow('one')
        .step('a', async (ctx) => {
          calls += 1;
          if (calls > 1) return `attempt ${ctx.attempt}`;
          runs.resolve();
          cancelInfo.resolve(await ctx.canceled());
          ctx.throwIfCanceled();
          return 'never';
        })
        .output();
      const engine = await open();
      const worker = await engine.startWorker({ flows: [one], shutdownGrace: 0 });
      const run = await engine.client.runFlow(one);
      await runs.promise;
      await worker.stop();
      expect(await cancelInfo.promise).toMatchObject({ trigger: 'shutdown' });
      await engine.startWorker({ flows: [one] });
      expect(await run.result()).toBe('attempt 1');
    });

    it('cancel() stops a generator and its running item, and the run is canceled', async () => {
      const runs = signalled<void>();
      const ended: string[] = [];
      const pages = flow('pages')
        .generator(
          'g',
          {},
          async function* (ctx) {
            yield 1;
            await ctx.canceled();
            ended.push('generator');
            ctx.throwIfCanceled();
          },
          async (ctx) => {
            runs.resolve();
            await ctx.canceled();
            ended.push('item');
            return 'ignored';
          },
        )
        .output();
      const { client } = await open({ flows: [pages] });
      const run = await client.runFlow(pages);
      await runs.promise;
      await run.cancel({ reason: 'stop', wait: true });
      expect(ended.toSorted()).toEqual(['generator', 'item']);
      expect((await client.get(run.id))?.status).toBe('canceled');
    });
  },
  modesOfFlows,
);
