import { expect, it } from 'vitest';
import * as z from 'zod';
import type { PerdureError } from '../../src/model/failures/errors.ts';
import { event, orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

const approved = event('approved', {
  schema: z.object({ by: z.object({ name: z.string() }), level: z.number().default(1) }),
});
const describeError = (error: PerdureError) => `${error.code}: ${error.message}`;

describeEngine('event schemas', (open) => {
  const twice = orchestration('twice', async (ctx) => {
    const first = await ctx.waitFor(approved, { timeout: '1h' }).catch(describeError);
    ctx.setCustomStatus('waiting again');
    return [first, await ctx.waitFor(approved).catch(describeError)];
  });
  const refusal = expect.stringMatching(
    /^INVALID_INPUT: Event "approved" has an invalid payload: by\.name: /,
  ) as unknown;

  it('waitFor() rejects an invalid payload with its path; the next wait gets the next event', async () => {
    const { client } = await open({ orchestrations: [twice] });
    const handle = await client.start(twice);
    await handle.raiseEvent('approved', { by: { name: 5 } });
    await expect.poll(async () => (await handle.status()).customStatus).toBe('waiting again');
    await handle.raiseEvent(approved, { by: { name: 'Mia' } });
    expect(await handle.result()).toEqual([refusal, { by: { name: 'Mia' }, level: 1 }]);
  });

  it('waitFor() rejects an invalid payload that was buffered before the wait', async () => {
    const late = orchestration('late', async (ctx) => {
      await ctx.waitFor('go');
      return [await ctx.waitFor(approved).catch(describeError), await ctx.waitFor(approved)];
    });
    const { client } = await open({ orchestrations: [late] });
    const handle = await client.start(late);
    await handle.raiseEvent('approved', { by: {} });
    await handle.raiseEvent('approved', { by: { name: 'Mia' }, level: 2 });
    await handle.raiseEvent('go');
    expect(await handle.result()).toEqual([refusal, { by: { name: 'Mia' }, level: 2 }]);
  });

  it('an uncaught schema error fails the instance with INVALID_INPUT', async () => {
    const once = orchestration('once', async (ctx) => ctx.waitFor(approved));
    const { client } = await open({ orchestrations: [once] });
    const handle = await client.start(once);
    await handle.raiseEvent('approved', 'yes');
    await expect(handle.result()).rejects.toMatchObject({ failure: { code: 'INVALID_INPUT' } });
  });

  it('a schema parses an event in the orchestration, with its deterministic time', async () => {
    const stamped = event('stamped', {
      schema: z.string().transform((text) => ({ text, at: Date.now(), random: Math.random() })),
    });
    const stamps = orchestration('stamps', async (ctx) => {
      const first = await ctx.waitFor(stamped);
      const isNow = first.at === Date.now();
      const second = await ctx.waitFor(stamped);
      return { isNow, first, second };
    });
    const { client } = await open({ orchestrations: [stamps] });
    const handle = await client.start(stamps);
    await handle.raiseEvent(stamped, 'a');
    await expect
      .poll(async () => (await client.history(handle.id)).items.length)
      .toBeGreaterThan(3);
    await handle.raiseEvent(stamped, 'b');
    const result = await handle.result();
    expect(result).toMatchObject({ isNow: true, first: { text: 'a' }, second: { text: 'b' } });
  });

  it('raiseEvent() and waitFor() reject an asynchronous schema with INVALID_OPTION', async () => {
    const slow = event('slow', {
      schema: z.string().refine(() => Promise.resolve(true)),
    });
    const waits = orchestration('waits', async (ctx) => ctx.waitFor(slow).catch(describeError));
    const { client } = await open({ orchestrations: [waits] });
    const handle = await client.start(waits);
    await expect(handle.raiseEvent(slow, 'x')).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    await handle.raiseEvent('slow', 'x');
    expect(await handle.result()).toMatch(/^INVALID_OPTION: Event "slow" .* asynchronous schema/);
  });
});
