import { expect, it } from 'vitest';
import { event, orchestration } from 'perdure';
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
