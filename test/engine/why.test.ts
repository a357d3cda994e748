import { expect, it } from 'vitest';
import { activity, event, orchestration, type OrchestrationContext } from 'perdure';
import { flow, readFlowWaits } from 'perdure/flows';
import { describeEngine } from './describe-engine.ts';

describeEngine(
  'why()',
  (open) => {
    it('shows the recorded and the issued command of a blocked instance', async () => {
      const old = orchestration('order', async (ctx) => {
        await ctx.waitFor('paid');
      });
      const changed = orchestration('order', async (ctx) => {
        await ctx.sleep('1h');
      });
      const engine = await open();
      const worker = await engine.startWorker({ orchestrations: [old] });
      const handle = await engine.client.start(old, undefined, { id: 'order-1' });
      await expect.poll(async () => (await handle.status()).status).toBe('running');
      expect((await engine.client.why('order-1')).text).toBe('Waiting for event `paid`.');
      await worker.stop();
      await engine.startWorker({ orchestrations: [changed], name: 'w2' });
      await engine.client.raiseEvent('order-1', 'paid');
      await expect
        .poll(async () => (await engine.client.get('order-1'))?.blocked, { timeout: 20_000 })
        .toMatchObject({
          code: 'NONDETERMINISM',
          worker: 'w2',
          eventId: 2,
          recorded: { kind: 'eventAwaited', name: 'paid', text: 'wait for event "paid"' },
          issued: { kind: 'timerCreated', text: 'timer' },
        });
      const { waits, text } = await engine.client.why('order-1');
      expect(waits.find(({ kind }) => kind === 'blocked')).toMatchObject({
        code: 'NONDETERMINISM',
        eventId: 2,
      });
      expect(text).toContain(
        'event 2 of its history is wait for event "paid", but the code issued timer.',
      );
    });

    it('names the version that no live worker has, and the nearest one that a worker has', async () => {
      const wait = async (ctx: OrchestrationContext) => {
        await ctx.waitFor('paid');
      };
      const v1 = orchestration('order', wait, { version: '1' });
      const v2 = orchestration('order', wait, { version: '2' });
      const engine = await open();
      const worker = await engine.startWorker({ orchestrations: [v2] });
      const handle = await engine.client.start(v2, undefined, { id: 'order-1' });
      await expect.poll(async () => (await handle.status()).status).toBe('running');
      await worker.stop();
      await engine.startWorker({ orchestrations: [v1] });
      await engine.client.raiseEvent('order-1', 'paid');
      // A worker registers in the background.
      await expect.poll(async () => (await engine.client.workers()).length).toBe(1);
      const { waits, text } = await engine.client.why('order-1');
      expect(waits[0]).toMatchObject({
        kind: 'worker',
        reason: 'noWorker',
        version: '2',
        nearestVersion: '1',
      });
      expect(text).toMatch(
        /^No live worker has orchestration `order` version `2`, due for \d+ ms\. The nearest version that a live worker has is `1`\. Start a worker that registers it\./,
      );
    });

    it('names the code UNDECODABLE of an instance that is blocked by damaged history', async () => {
      const order = orchestration('order', async (ctx) => {
        await ctx.waitFor('paid');
      });
      const engine = await open();
      const worker = await engine.startWorker({ orchestrations: [order] });
      const handle = await engine.client.start(order, undefined, { id: 'order-1' });
      await expect.poll(async () => (await handle.status()).status).toBe('running');
      await worker.stop();
      expect(await engine.tamper("UPDATE history SET kind = 'unknown' WHERE event_id = 2")).toBe(1);
      await engine.startWorker({ orchestrations: [order] });
      await engine.client.raiseEvent('order-1', 'paid');
      const blocked = async () =>
        (await engine.client.why('order-1')).waits.find(({ kind }) => kind === 'blocked');
      await expect.poll(blocked, { timeout: 20_000 }).toMatchObject({ code: 'UNDECODABLE' });
    });

    it('shows who paused an instance, and the definition of the activity that it waits for', async () => {
      const charge = activity('charge', () => 'done');
      const order = orchestration('order', async (ctx) => ctx.call(charge, undefined));
      const { client } = await open({ orchestrations: [order], activities: [charge] });
      await client.pause({ kind: 'activity', name: 'charge' }, { reason: 'bank is down' });
      const handle = await client.start(order, undefined, { id: 'order-1' });
      await expect.poll(async () => (await handle.status()).status).toBe('running');
      const paused = async () =>
        (await client.why('order-1')).waits.filter(({ kind }) => kind === 'paused');
      await expect
        .poll(paused)
        .toMatchObject([{ target: 'activity', name: 'charge', reason: 'bank is down' }]);
      await client.pause('order-1', { reason: 'bad deploy', actor: 'ada' });
      expect(await paused()).toMatchObject([
        { target: 'instance', reason: 'bad deploy', actor: expect.stringContaining('ada') },
        { target: 'activity', name: 'charge' },
      ]);
      await client.resume('order-1');
      await client.resume({ kind: 'activity', name: 'charge' });
      expect(await handle.result({ timeout: 20_000 })).toBe('done');
    });

    it('names the steps and signals that a run of a flow waits for', async () => {
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const order = flow('order')
        .step('approve', { signal: event('approved') }, () => 'yes')
        .step('pack', async () => released)
        .step('list', () => [1])
        .map('label', { over: ({ list }) => list }, async () => released)
        .output();
      const { client } = await open({ flows: [order] });
      const run = await client.runFlow(order, undefined, { id: 'run-1' });
      const named = async () => {
        const { waits } = await client.why('run-1');
        return waits.flatMap((wait) =>
          wait.kind === 'activity' ? [wait.step] : wait.kind === 'event' ? [wait.signal] : [],
        );
      };
      await expect
        .poll(async () => new Set(await named()))
        .toEqual(new Set(['approved', 'label', 'pack']));
      const { text } = await client.why('run-1');
      expect(text).toContain('step `pack` (attempt 1 has been running');
      expect(text).toContain('signal `approved`');
      release();
      await run.cancel();
    });

    it('readFlowWaits() shows which steps of a flow wait for a signal and for other steps', async () => {
      const order = flow('order')
        .step('approve', { signal: event('approved') }, () => 'yes')
        .step('ship', { needs: ['approve'] }, () => 'sent')
        .output();
      const { client } = await open({ flows: [order] });
      const run = await client.runFlow(order, undefined, { id: 'run-1' });
      await expect.poll(async () => (await run.status()).status).toBe('running');
      expect(await readFlowWaits(client, 'run-1')).toEqual([
        { step: 'approve', signal: 'approved' },
        { step: 'ship', dependencies: ['approve'] },
      ]);
    });
  },
  ['all fast paths', 'PostgreSQL', 'over HTTP'],
);
