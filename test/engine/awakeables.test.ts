import { expect, it } from 'vitest';
import * as z from 'zod';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

const tokens = new Map<string, string>();
const send = activity('send', (ctx, token: string) => {
  tokens.set(ctx.instanceId, token);
});

const approval = orchestration('approval', async (ctx) => {
  const { token, promise } = ctx.awakeable<{ by: string }>();
  await ctx.call(send, token);
  return promise;
});
const worker = { orchestrations: [approval], activities: [send] };

async function tokenOf(id: string): Promise<string> {
  await expect.poll(() => tokens.get(id)).toBeDefined();
  return tokens.get(id) ?? '';
}

const notFound = { code: 'AWAKEABLE_NOT_FOUND' };

describeEngine(
  'awakeables',
  (open) => {
    it('resolveAwakeable() resolves the promise once', async () => {
      tokens.clear();
      const { client } = await open(worker);
      const handle = await client.start(approval, undefined, { id: 'a' });
      const token = await tokenOf('a');
      expect(token).toMatch(/^awk_[A-Za-z0-9_-]{32}$/);
      await client.resolveAwakeable(token, { by: 'Mia' });
      expect(await handle.result()).toEqual({ by: 'Mia' });
      await expect(client.resolveAwakeable(token, { by: 'Ben' })).rejects.toMatchObject({
        code: 'AWAKEABLE_ALREADY_ANSWERED',
      });
    });

    it('rejectAwakeable() rejects the promise with AWAKEABLE_REJECTED', async () => {
      tokens.clear();
      const { client } = await open(worker);
      const handle = await client.start(approval, undefined, { id: 'a' });
      await client.rejectAwakeable(await tokenOf('a'), 'too expensive');
      await expect(handle.result()).rejects.toMatchObject({
        failure: { code: 'AWAKEABLE_REJECTED', cause: { message: 'too expensive' } },
      });
    });

    it('rejectAwakeable() keeps the name, code and details of an error, and cuts its message', async () => {
      tokens.clear();
      const { client } = await open(worker);
      const handle = await client.start(approval, undefined, { id: 'a' });
      const error = Object.assign(new RangeError('too expensive', { cause: new Error('budget') }), {
        code: 'OVER_BUDGET',
        details: { limit: 5 },
      });
      await client.rejectAwakeable(await tokenOf('a'), error);
      const rejected: unknown = await handle.result().catch((thrown: unknown) => thrown);
      const cause = (rejected as { failure: { cause: { stack?: unknown } } }).failure.cause;
      const { stack: _, ...kept } = cause;
      expect(kept).toEqual({
        name: 'RangeError',
        message: 'too expensive',
        code: 'OVER_BUDGET',
        details: { limit: 5 },
      });
      const long = await client.start(approval, undefined, { id: 'long' });
      await client.rejectAwakeable(await tokenOf('long'), new Error('e'.repeat(20_000)));
      await expect(long.result()).rejects.toMatchObject({
        failure: { cause: { name: 'Error', message: 'e'.repeat(10_000) } },
      });
    });

    it('guessed, withdrawn and late tokens get the same error, without the token', async () => {
      tokens.clear();
      const { client } = await open(worker);
      const guesses = ['awk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA', 'x', 'awk_', '../../instances'];
      const texts = new Set<string>();
      for (const guess of guesses) {
        const error: unknown = await client.resolveAwakeable(guess).catch((thrown) => thrown);
        expect(error).toMatchObject(notFound);
        texts.add((error as Error).message);
      }
      const handle = await client.start(approval, undefined, { id: 'a' });
      const token = await tokenOf('a');
      await handle.cancel({ wait: true });
      const late: unknown = await client.resolveAwakeable(token).catch((thrown) => thrown);
      expect(late).toMatchObject(notFound);
      texts.add((late as Error).message);
      expect(texts.size).toBe(1);
      expect([...texts].join()).not.toContain(token);
      const any = client as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
      await expect(any['resolveAwakeable']?.(5)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    });

    it('a timeout withdraws the token', async () => {
      tokens.clear();
      const timed = orchestration('timed', async (ctx) => {
        const { token, promise } = ctx.awakeable({ timeout: 50 });
        await ctx.call(send, token);
        const code = await promise.catch((error: { code: string }) => error.code);
        await ctx.waitFor('end');
        return code;
      });
      const { client } = await open({ orchestrations: [timed], activities: [send] });
      const handle = await client.start(timed, undefined, { id: 't' });
      const token = await tokenOf('t');
      await expect
        .poll(async () => (await client.why('t')).waits.map(({ kind }) => kind))
        .toEqual(['event']);
      await expect(client.resolveAwakeable(token, 1)).rejects.toMatchObject(notFound);
      await handle.raiseEvent('end');
      expect(await handle.result()).toBe('TIMEOUT');
    });

    it('one orchestration creates more tokens than the pool of random digits holds', async () => {
      const many = orchestration('many', async (ctx) => {
        const created = Array.from({ length: 300 }, () => ctx.awakeable<number>().token);
        await ctx.sleep(1);
        return new Set(created).size;
      });
      const { client } = await open({ orchestrations: [many] });
      expect(await (await client.start(many)).result()).toBe(300);
    });

    it('continue-as-new closes the tokens of the execution that ended', async () => {
      tokens.clear();
      const twice = orchestration('twice', async (ctx, round: number) => {
        const { token, promise } = ctx.awakeable<number>();
        await ctx.call(send, token);
        if (round === 1) {
          await ctx.waitFor('next');
          await ctx.continueAsNew(2);
        }
        return promise;
      });
      const { client } = await open({ orchestrations: [twice], activities: [send] });
      const handle = await client.start(twice, 1, { id: 't' });
      const first = await tokenOf('t');
      await handle.raiseEvent('next');
      await expect.poll(() => tokens.get('t')).not.toBe(first);
      await expect(client.resolveAwakeable(first, 1)).rejects.toMatchObject(notFound);
      await client.resolveAwakeable(await tokenOf('t'), 2);
      expect(await handle.result()).toBe(2);
    });
  },
  [
    'all fast paths',
    'no warm cache',
    'a replay after every turn',
    'all hints dropped',
    'PostgreSQL',
    'over HTTP',
  ],
);

describeEngine(
  'awakeables and reruns',
  (open) => {
    it('a retry keeps the open tokens, and a fork has none', async () => {
      tokens.clear();
      let isBroken = true;
      const gate = activity(
        'gate',
        () => {
          if (isBroken) throw new Error('not yet');
        },
        { retry: { maxAttempts: 1 } },
      );
      const flaky = orchestration('flaky', async (ctx) => {
        const { token, promise } = ctx.awakeable<string>();
        await ctx.call(send, token);
        await ctx.call(gate);
        return promise;
      });
      const { client } = await open({ orchestrations: [flaky], activities: [send, gate] });
      const handle = await client.start(flaky, undefined, { id: 'f' });
      const token = await tokenOf('f');
      await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
      await expect(client.resolveAwakeable(token, 'late')).rejects.toMatchObject(notFound);
      isBroken = false;
      const fork = await client.fork('f', { from: 'failure', id: 'g' });
      await client.retry('f', { from: 'failure' });
      const kindsOf = async (id: string) => (await client.why(id)).waits.map(({ kind }) => kind);
      for (const id of ['f', 'g']) await expect.poll(() => kindsOf(id)).toEqual(['awakeable']);
      await client.resolveAwakeable(token, 'approved');
      expect(await handle.result()).toBe('approved');
      expect(await kindsOf('g')).toEqual(['awakeable']);
      await fork.cancel({ wait: true });
    });

    it('a schema rejects an invalid answer', async () => {
      tokens.clear();
      const checked = orchestration('checked', async (ctx) => {
        const { token, promise } = ctx.awakeable({ schema: z.object({ ok: z.boolean() }) });
        await ctx.call(send, token);
        return promise.catch((error: { code: string }) => error.code);
      });
      const { client } = await open({ orchestrations: [checked], activities: [send] });
      const handle = await client.start(checked, undefined, { id: 'c' });
      await client.resolveAwakeable(await tokenOf('c'), 'yes');
      expect(await handle.result()).toBe('INVALID_INPUT');
    });

    it('why() names an awakeable, and never its token', async () => {
      tokens.clear();
      const { client } = await open(worker);
      await client.start(approval, undefined, { id: 'a' });
      const token = await tokenOf('a');
      await expect
        .poll(async () => (await client.why('a')).text)
        .toContain('the answer to an awakeable');
      expect(JSON.stringify(await client.why('a'))).not.toContain(token);
      expect(JSON.stringify(await client.timeline('a'))).not.toContain(token);
      const { items } = await client.timeline('a');
      expect(items.map(({ kind }) => kind)).toEqual(['awakeable', 'activity']);
    });
  },
  ['all fast paths', 'a replay after every turn', 'PostgreSQL'],
);
