import { expect, it } from 'vitest';
import * as z from 'zod';
import { event } from 'perdure';
import { eq, flow, readFlowRun, signalFlow } from 'perdure/flows';
import { describeEngine, modesOfFlows } from '../engine/describe-engine.ts';
import { signalled } from '../engine/signalled.ts';

const approved = event<{ readonly by: string }>('approved');

describeEngine(
  'flow signals',
  (open) => {
    it('a step waits for its signal and dependencies and receives the signal payload', async () => {
      const ran: string[] = [];
      const review = flow('review')
        .step('draft', () => void ran.push('draft'))
        .step('publish', { needs: ['draft'], signal: approved }, (_ctx, { signal }) => {
          ran.push('publish');
          return `approved by ${signal.by}`;
        })
        .output();
      const { client } = await open({ flows: [review] });
      const run = await client.runFlow(review);
      await expect
        .poll(async () => (await readFlowRun(client, run.id))?.steps.map(({ status }) => status))
        .toEqual(['completed', 'pending']);
      await signalFlow(client, run.id, approved, { by: 'Mia' });
      expect(await run.result()).toBe('approved by Mia');
      expect(ran).toEqual(['draft', 'publish']);
      expect((await readFlowRun(client, run.id))?.signals).toEqual(['approved']);
    });

    it.each(['constructor', 'toString'])(
      'a signal named %s, an inherited object property, is delivered',
      async (name) => {
        const odd = event<string>(name);
        const review = flow('review')
          .step('draft', { signal: approved }, () => undefined)
          .step('publish', { signal: odd }, (_ctx, { signal }) => signal)
          .output('publish');
        const { client } = await open({ flows: [review] });
        const run = await client.runFlow(review);
        await signalFlow(client, run.id, approved, { by: 'Mia' });
        await signalFlow(client, run.id, odd, 'taken');
        expect(await run.result()).toBe('taken');
        expect((await readFlowRun(client, run.id))?.signals).toEqual(['approved', name]);
      },
    );

    it('an event schema validates a signal when it is sent and when received', async () => {
      const checked = event('checked', {
        schema: z.object({ by: z.string(), level: z.coerce.number() }),
      });
      const review = flow('review')
        .step('publish', { signal: checked }, (_ctx, { signal }) => signal)
        .output();
      const { client } = await open({ flows: [review] });
      const wrong = await client.runFlow(review);
      await expect(signalFlow(client, wrong.id, checked, {} as never)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('by: ') as string,
      });
      await signalFlow(client, wrong.id, 'checked', { by: 5, level: '2' });
      await expect(wrong.result()).rejects.toMatchObject({
        failure: {
          code: 'STEP_FAILED',
          cause: { code: 'INVALID_INPUT', message: expect.stringContaining('by: ') as string },
        },
      });
      const right = await client.runFlow(review);
      await signalFlow(client, right.id, 'checked', { by: 'Mia', level: '2' });
      expect(await right.result()).toEqual({ by: 'Mia', level: 2 });
    });

    it('a signal sent before the dependencies complete is kept for its step', async () => {
      const go = signalled<void>();
      const review = flow('review')
        .step('draft', () => go.promise)
        .step('publish', { needs: ['draft'], signal: approved }, (_ctx, { signal }) => signal.by)
        .output();
      const { client } = await open({ flows: [review] });
      const run = await client.runFlow(review);
      await signalFlow(client, run.id, approved, { by: 'Mia' });
      go.resolve();
      expect(await run.result()).toBe('Mia');
    });

    it('signalFlow() without a worker times out, or resolves once a worker takes the signal', async () => {
      const review = flow('review')
        .step('publish', { signal: approved }, (_ctx, { signal }) => signal.by)
        .output();
      const engine = await open();
      const run = await engine.client.runFlow(review);
      const late = signalFlow(engine.client, run.id, approved, { by: 'x' }, { timeoutMs: 30 });
      await expect(late).rejects.toMatchObject({ code: 'TIMEOUT' });
      const sent = signalFlow(engine.client, run.id, approved, { by: 'Mia' });
      await engine.startWorker({ flows: [review] });
      await sent;
      expect(await run.result()).toBe('Mia');
    });

    it('of concurrent signals one is delivered; the others reject with SIGNAL_ALREADY_DELIVERED', async () => {
      const hold = signalled<void>();
      const review = flow('review')
        .step('draft', () => hold.promise)
        .step('publish', { needs: ['draft'], signal: approved }, (_ctx, { signal }) => signal.by)
        .output();
      const { client } = await open({ flows: [review] });
      const run = await client.runFlow(review);
      const names = ['a', 'b', 'c', 'd', 'e'];
      const results = await Promise.allSettled(
        names.map((by) => signalFlow(client, run.id, approved, { by })),
      );
      const delivered = names.filter((_, index) => results[index]?.status === 'fulfilled');
      expect(delivered).toHaveLength(1);
      for (const result of results) {
        if (result.status === 'rejected') {
          expect(result.reason).toMatchObject({ code: 'SIGNAL_ALREADY_DELIVERED' });
        }
      }
      await expect(signalFlow(client, run.id, approved, { by: 'late' })).rejects.toMatchObject({
        code: 'SIGNAL_ALREADY_DELIVERED',
      });
      hold.resolve();
      expect(await run.result()).toBe(delivered[0]);
    });

    it('signalFlow() rejects an unknown signal, a finished run and a missing run', async () => {
      const review = flow('review')
        .input<string>()
        .step('publish', { signal: approved }, (_ctx, { signal }) => signal.by)
        .step('other', { when: ({ input }) => eq(input, 'x'), signal: event('more') }, () => 1)
        .output('publish');
      const { client } = await open({ flows: [review] });
      const run = await client.runFlow(review, 'y');
      await expect(signalFlow(client, run.id, 'aproved')).rejects.toMatchObject({
        code: 'UNKNOWN_SIGNAL',
        message: expect.stringContaining('Signals: approved, more') as string,
      });
      await signalFlow(client, run.id, approved, { by: 'Mia' });
      await run.result();
      await expect(signalFlow(client, run.id, 'more')).rejects.toMatchObject({
        code: 'INSTANCE_OVER',
      });
      await expect(signalFlow(client, 'nobody', approved, { by: 'x' })).rejects.toMatchObject({
        code: 'INSTANCE_NOT_FOUND',
      });
    });

    it('a canceled run cancels its waiting step, and signalFlow() rejects with INSTANCE_OVER', async () => {
      const review = flow('review')
        .step('publish', { signal: approved }, (_ctx, { signal }) => signal.by)
        .output();
      const { client } = await open({ flows: [review] });
      const run = await client.runFlow(review);
      await expect.poll(async () => (await run.status()).status).toBe('running');
      await run.cancel({ reason: 'no', wait: true });
      await expect(signalFlow(client, run.id, approved, { by: 'Mia' })).rejects.toMatchObject({
        code: 'INSTANCE_OVER',
      });
      expect((await readFlowRun(client, run.id))?.steps[0]).toMatchObject({ status: 'canceled' });
    });
  },
  modesOfFlows,
);
