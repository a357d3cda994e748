import { expect, it } from 'vitest';
import { FakeClock, testOptions } from 'perdure/testing';
import { Perdure } from 'perdure';
import { openSqlite } from 'perdure/sqlite';
import { flow, readFlowRun } from 'perdure/flows';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';
import { signalled } from '../engine/signalled.ts';

describeEngine(
  'a redefined flow',
  (open) => {
    it('a redefined flow leaves the steps and output of a live run unchanged', async () => {
      const runs = signalled<void>();
      const go = signalled<void>();
      const old = flow('order')
        .input<number>()
        .step('a', async () => {
          runs.resolve();
          await go.promise;
          return 1;
        })
        .step('b', { needs: ['a'] }, (_ctx, { a }) => `old ${a}`)
        .output();
      const ran: string[] = [];
      const next = flow('order')
        .input<number>()
        .step('a', () => 1)
        .step('first', () => void ran.push('first'))
        .step('b', { needs: ['a'], after: ['first'] }, (_ctx, { a }) => `new ${a}`)
        .step('c', { needs: ['b'] }, () => 'another output')
        .output();
      const engine = await open();
      const worker = await engine.startWorker({ flows: [old], shutdownGrace: 5_000 });
      const run = await engine.client.runFlow(old, 5, { id: 'order-1' });
      await runs.promise;
      go.resolve();
      await worker.stop();
      await engine.startWorker({ flows: [next] });
      // The handler is looked up by step name in the worker that runs it, so either definition may run.
      expect(await run.result()).toMatch(/^(old|new) 1$/);
      expect(ran).toEqual([]);
      expect((await readFlowRun(engine.client, run.id))?.steps.map(({ name }) => name)).toEqual([
        'a',
        'b',
      ]);
    });

    it('runFlow() of a redefined flow with the same id and input returns the existing run', async () => {
      const engine = await open();
      const { client } = engine;
      const old = flow('order')
        .input<{ readonly sku: string; readonly quantity: number }>()
        .step('a', () => 1)
        .output();
      const next = flow('order')
        .input<{ readonly sku: string; readonly quantity: number }>()
        .step('a', () => 1)
        .step('b', { needs: ['a'] }, () => 2)
        .output();
      await engine.startWorker({ flows: [old] });
      const first = await client.runFlow(old, { sku: 'x', quantity: 2 }, { id: 'order-1' });
      expect(await first.result()).toBe(1);
      const again = await client.runFlow(next, { quantity: 2, sku: 'x' }, { id: 'order-1' });
      expect(await again.result()).toBe(1);
      expect((await readFlowRun(client, 'order-1'))?.steps).toHaveLength(1);
      const other = client.runFlow(next, { sku: 'y', quantity: 2 }, { id: 'order-1' });
      await expect(other).rejects.toMatchObject({ code: 'INSTANCE_ALREADY_EXISTS' });
    });

    it('a run is blocked while no worker has its step, then completes', async () => {
      const old = flow('order')
        .step('a', () => 1)
        .step('gone', { needs: ['a'] }, () => 2)
        .output();
      const next = flow('order')
        .step('a', () => 1)
        .output();
      const engine = await open();
      const worker = await engine.startWorker({ flows: [next] });
      const run = await engine.client.runFlow(old);
      await expect
        .poll(async () => (await readFlowRun(engine.client, run.id))?.blocked?.reason)
        .toContain('"order/gone", for which this worker has no handler');
      expect((await run.status()).status).toBe('running');
      await worker.stop();
      await engine.startWorker({ flows: [old] });
      expect(await run.result()).toBe(2);
      expect((await run.status()).blocked).toBeUndefined();
    });

    it('a run blocked at its first step can be canceled', async () => {
      const old = flow('order')
        .step('gone', () => 1)
        .output();
      const next = flow('order')
        .step('a', () => 1)
        .output();
      const { client } = await open({ flows: [next] });
      const run = await client.runFlow(old);
      await expect.poll(async () => (await run.status()).blocked?.reason).toContain('order/gone');
      await run.cancel({ reason: 'never mind', cleanupTimeout: 50 });
      await expect(run.result()).rejects.toMatchObject({ reason: 'never mind' });
    });

    it('a run is blocked when its step has a handler of another kind', async () => {
      const old = flow('order')
        .step('a', () => 'one')
        .output();
      const next = flow('order')
        .input<readonly number[]>()
        .map('a', { over: ({ input }) => input }, () => 'many')
        .output();
      const { client } = await open({ flows: [next] });
      const run = await client.runFlow(old);
      await expect.poll(async () => (await run.status()).blocked?.reason).toContain('order/a');
      await run.terminate();
    });
  },
  modesOfFlows,
);

it('a worker whose lease expired cannot complete a step claimed by another', async () => {
  const clock = new FakeClock();
  const provider = await openSqlite({ path: ':memory:', clock });
  const perdure = await Perdure.open(provider, { clock });
  try {
    const one = flow('one')
      .step('a', (ctx) => `by the worker, attempt ${ctx.attempt}`)
      .output();
    const engine = await perdure.startWorker({
      orchestrations: [one.orchestration],
      ...testOptions({ fastPaths: false }),
    });
    const run = await perdure.client.runFlow(one);
    const [slow] = await provider.fetchWorkItems({ max: 1, lockMs: 1_000, waitMs: 5_000 });
    await clock.advanceTo(clock.now() + 2_000);
    const [fast] = await provider.fetchWorkItems({ max: 1, lockMs: 60_000, waitMs: 5_000 });
    expect(fast?.operation).toBe(slow?.operation);
    const outcome = (output: string) => ({
      kind: 'completed' as const,
      payload: JSON.stringify({ output }),
    });
    const [late] = await provider.ackWorkItems([
      { lockToken: slow?.lockToken ?? '', outcome: outcome('stale') },
    ]);
    expect(late).toMatchObject({ ok: false, error: { code: 'LOCK_LOST' } });
    await provider.ackWorkItems([{ lockToken: fast?.lockToken ?? '', outcome: outcome('fresh') }]);
    expect(await run.result()).toBe('fresh');
    await engine.stop();
  } finally {
    await perdure.close();
  }
});
