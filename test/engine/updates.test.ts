import { expect, it } from 'vitest';
import * as z from 'zod';
import { activity } from '../../src/orchestration/activity.ts';
import { event, orchestration, update } from '../../src/orchestration/orchestration.ts';
import type { Client } from '../../src/index.ts';
import { describeEngine } from './describe-engine.ts';

const addItem = update<string, { count: number }>('addItem', { input: z.string() });
const slow = update<number, number>('slow');
const broken = update<undefined, never>('broken');
const checkout = event('checkout');
const double = activity('double', (_, value: number) => value * 2);

const cart = orchestration('cart', async (ctx) => {
  const items: string[] = [];
  ctx.onUpdate(addItem, {
    validate: (item) => item !== 'stone' || 'Stones are not for sale',
    handle: (item) => {
      items.push(item);
      return { count: items.length };
    },
  });
  ctx.onUpdate(slow, { handle: async (value) => ctx.call(double, value) });
  ctx.onUpdate(broken, {
    handle: () => {
      throw new RangeError('out of stock');
    },
  });
  await ctx.waitFor(checkout);
  return items;
});

const worker = { orchestrations: [cart], activities: [double] };

async function eventKinds(client: Client, id: string): Promise<readonly string[]> {
  return (await client.history(id)).items.map(({ event: { kind } }) => kind);
}

const modes = [
  'all fast paths',
  'no warm cache',
  'a replay after every turn',
  'all hints dropped',
  'PostgreSQL',
  'over HTTP',
];

describeEngine(
  'updates',
  (open) => {
    it('update() returns the reply of the handler, which may await activities', async () => {
      const { client } = await open(worker);
      const handle = await client.start(cart, undefined, { id: 'cart' });
      expect(await client.update('cart', addItem, 'apple')).toEqual({ count: 1 });
      expect(await client.update('cart', slow, 21)).toBe(42);
      expect(await client.update('cart', 'addItem', 'pear')).toEqual({ count: 2 });
      await handle.raiseEvent(checkout);
      expect(await handle.result()).toEqual(['apple', 'pear']);
    });

    it('a rejected update leaves no event, and its error has the text of the validation', async () => {
      const { client } = await open(worker);
      await client.start(cart, undefined, { id: 'cart' });
      await client.update('cart', addItem, 'apple');
      const before = await eventKinds(client, 'cart');
      await expect(client.update('cart', addItem, 'stone')).rejects.toMatchObject({
        code: 'UPDATE_REJECTED',
        message: expect.stringContaining('Stones are not for sale') as unknown,
      });
      await expect(client.update('cart', 'addItem', 5)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
      await expect(client.update('cart', 'removeItem', 'apple')).rejects.toMatchObject({
        code: 'UNKNOWN_UPDATE',
        message: expect.stringContaining('"addItem"') as unknown,
      });
      expect(await eventKinds(client, 'cart')).toEqual(before);
      expect(await client.update('cart', addItem, 'plum')).toEqual({ count: 2 });
    });

    it('an error of the handler rejects the update and does not fail the instance', async () => {
      const { client } = await open(worker);
      const handle = await client.start(cart, undefined, { id: 'cart' });
      await expect(client.update('cart', broken)).rejects.toMatchObject({
        code: 'UPDATE_FAILED',
        subject: 'broken',
        failure: { name: 'RangeError', message: 'out of stock' },
      });
      await handle.raiseEvent(checkout);
      expect(await handle.result()).toEqual([]);
      expect(await eventKinds(client, 'cart')).toEqual(
        expect.arrayContaining(['updateAccepted', 'updateFailed']),
      );
    });

    it('the same key returns the same reply, also after the end of the instance', async () => {
      const { client } = await open(worker);
      const handle = await client.start(cart, undefined, { id: 'cart' });
      const first = client.update('cart', addItem, 'apple', { key: 'k1' });
      const second = client.update('cart', addItem, 'apple', { key: 'k1' });
      expect(await Promise.all([first, second])).toEqual([{ count: 1 }, { count: 1 }]);
      await expect(client.update('cart', addItem, 'pear', { key: 'k1' })).rejects.toMatchObject({
        code: 'UPDATE_KEY_REUSED',
      });
      await handle.raiseEvent(checkout);
      expect(await handle.result()).toEqual(['apple']);
      expect(await client.update('cart', addItem, 'apple', { key: 'k1' })).toEqual({ count: 1 });
      await expect(client.update('cart', addItem, 'fig')).rejects.toMatchObject({
        code: 'INSTANCE_OVER',
      });
      await expect(client.update('none', addItem, 'fig')).rejects.toMatchObject({
        code: 'INSTANCE_NOT_FOUND',
      });
    });

    it('an update before the first turn waits for it; a timeout does not withdraw the update', async () => {
      const { client, startWorker } = await open();
      await client.start(cart, undefined, { id: 'cart' });
      await expect(
        client.update('cart', addItem, 'apple', { key: 'k', timeout: 20 }),
      ).rejects.toMatchObject({ code: 'TIMEOUT' });
      const reply = client.update('cart', addItem, 'apple', { key: 'k' });
      await startWorker(worker);
      expect(await reply).toEqual({ count: 1 });
      expect(await client.update('cart', addItem, 'pear')).toEqual({ count: 2 });
    });

    it('the end of an instance interrupts updates without a reply', async () => {
      const never = orchestration('never', async (ctx) => {
        ctx.onUpdate(slow, { handle: async () => (await ctx.waitFor('never')) as number });
        await ctx.waitFor(checkout);
        throw new Error('failed');
      });
      const { client } = await open({ orchestrations: [never] });
      const handle = await client.start(never, undefined, { id: 'never' });
      const failed = client.update('never', slow, 1, { key: 'a' });
      await expect.poll(() => eventKinds(client, 'never')).toContain('updateAccepted');
      await handle.raiseEvent(checkout);
      await expect(failed).rejects.toMatchObject({ code: 'UPDATE_INTERRUPTED' });
      await client.start(never, undefined, { id: 'stopped' });
      const terminated = client.update('stopped', slow, 1);
      await expect.poll(() => eventKinds(client, 'stopped')).toContain('updateAccepted');
      await client.terminate('stopped');
      await expect(terminated).rejects.toMatchObject({ code: 'UPDATE_INTERRUPTED' });
    });

    it('the deletion of an instance rejects its waiting updates', async () => {
      const never = orchestration('never', async (ctx) => {
        ctx.onUpdate(slow, { handle: async () => (await ctx.waitFor('never')) as number });
        await ctx.waitFor(checkout);
      });
      const { client } = await open({ orchestrations: [never] });
      await client.start(never, undefined, { id: 'deleted' });
      const rejected = client.update('deleted', slow, 1).catch((error: unknown) => error);
      await expect.poll(() => eventKinds(client, 'deleted')).toContain('updateAccepted');
      await client.deleteInstance('deleted', { force: true });
      expect(await rejected).toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
    });

    it('a cancel reaches running handlers, and later updates are rejected', async () => {
      const cleaning = orchestration('cleaning', async (ctx) => {
        ctx.onUpdate(slow, { handle: async () => (await ctx.waitFor('never')) as number });
        try {
          await ctx.waitFor(checkout);
        } finally {
          await ctx.shield(() => ctx.waitFor('cleaned'));
        }
      });
      const { client } = await open({ orchestrations: [cleaning] });
      const handle = await client.start(cleaning, undefined, { id: 'c' });
      const running = client.update('c', slow, 1);
      await expect.poll(() => eventKinds(client, 'c')).toContain('updateAccepted');
      await handle.cancel();
      await expect(running).rejects.toMatchObject({ code: 'UPDATE_INTERRUPTED' });
      await expect(client.update('c', slow, 2)).rejects.toMatchObject({
        code: 'UPDATE_INTERRUPTED',
        message: expect.stringMatching(/accepts no updates\. Its/) as unknown,
      });
      await handle.raiseEvent('cleaned');
      await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    });

    it('updatesSettled() lets handlers reply before a return and a continue-as-new', async () => {
      const rounds = orchestration('rounds', async (ctx, round: number) => {
        ctx.onUpdate(slow, {
          handle: async (value) => (await ctx.waitFor<number, number>(event(`go${value}`))) + round,
        });
        await ctx.waitFor(`next${round}`);
        await ctx.updatesSettled();
        if (round < 2) await ctx.continueAsNew(round + 1);
        return round;
      });
      const { client } = await open({ orchestrations: [rounds] });
      const handle = await client.start(rounds, 1, { id: 'r' });
      const first = client.update('r', slow, 1);
      await expect.poll(() => eventKinds(client, 'r')).toContain('updateAccepted');
      await handle.raiseEvent('next1');
      await handle.raiseEvent('go1', 10);
      expect(await first).toBe(11);
      const second = client.update('r', slow, 2);
      await expect.poll(async () => (await client.get('r'))?.executionId).toBe(2);
      await expect.poll(() => eventKinds(client, 'r')).toContain('updateAccepted');
      await handle.raiseEvent('next2');
      await handle.raiseEvent('go2', 20);
      expect(await second).toBe(22);
      expect(await handle.result()).toBe(2);
    });

    it('a return and a continue-as-new interrupt running handlers', async () => {
      const hasty = orchestration('hasty', async (ctx, round: number) => {
        ctx.onUpdate(slow, { handle: async () => (await ctx.waitFor('never')) as number });
        await ctx.waitFor(`next${round}`);
        if (round < 2) await ctx.continueAsNew(round + 1);
        return round;
      });
      const { client } = await open({ orchestrations: [hasty] });
      const handle = await client.start(hasty, 1, { id: 'h' });
      for (const round of [1, 2]) {
        const reply = client.update('h', slow, round);
        await expect.poll(() => eventKinds(client, 'h')).toContain('updateAccepted');
        await handle.raiseEvent(`next${round}`);
        await expect(reply).rejects.toMatchObject({ code: 'UPDATE_INTERRUPTED' });
      }
      expect(await handle.result()).toBe(2);
    });

    it('updates that an execution has not accepted belong to the next one', async () => {
      const tick = update<number, string>('tick');
      const looping = orchestration('looping', async (ctx, round: number) => {
        let handled = 0;
        const { promise, resolve } = Promise.withResolvers<void>();
        ctx.onUpdate(tick, {
          handle: (value) => {
            handled += 1;
            if (handled === 3) resolve();
            return `${value} in ${round}`;
          },
        });
        await promise;
        await ctx.continueAsNew(round + 1);
      });
      const { client, startWorker } = await open();
      await client.start(looping, 1, { id: 'l' });
      const replies = Array.from({ length: 20 }, (_, value) =>
        client.update('l', tick, value, { key: `${value}` }),
      );
      await startWorker({ orchestrations: [looping] });
      const got = await Promise.all(replies);
      expect(new Set(got.map((text) => text.split(' ')[0])).size).toBe(20);
      expect(new Set(got.map((text) => text.split(' in ')[1])).size).toBe(7);
    });

    it('an end after a continue-as-new that waits interrupts the updates that arrived meanwhile', async () => {
      const holding = orchestration('holding', async (ctx, round: number) => {
        ctx.onUpdate(slow, { handle: (value) => value * round });
        if (round === 2) await ctx.waitFor('never');
        const work = ctx.shield(() => ctx.waitFor('release'));
        work.catch(() => undefined);
        await ctx.waitFor('next');
        await ctx.continueAsNew(2);
      });
      const { client } = await open({ orchestrations: [holding] });
      for (const how of ['cancel', 'terminate'] as const) {
        const handle = await client.start(holding, 1, { id: how });
        await handle.raiseEvent('next');
        await expect.poll(() => eventKinds(client, how)).toContain('eventReceived');
        const reply = client.update(how, slow, 1);
        reply.catch(() => undefined);
        await expect.poll(() => eventKinds(client, how)).toContain('updateAccepted');
        await handle[how]();
        await handle.raiseEvent('release').catch(() => undefined);
        await expect(reply).rejects.toMatchObject({ code: 'UPDATE_INTERRUPTED' });
        await expect(handle.result()).rejects.toMatchObject({
          code: how === 'cancel' ? 'OPERATION_CANCELED' : 'INSTANCE_TERMINATED',
        });
      }
    });

    it.each(['shield', 'wait'] as const)(
      'updates that arrive while a continue-as-new waits belong to the next execution (%s)',
      async (held) => {
        const tick = update<number, string>('tick');
        const later = update<undefined, string>('later');
        const holding = orchestration('holding', async (ctx, round: number) => {
          ctx.onUpdate(tick, {
            validate: (value) => value < 3 || 'too large',
            handle: (value) => `${value} in ${round}`,
          });
          if (round === 2) {
            ctx.onUpdate(later, { handle: () => `later in ${round}` });
            await ctx.waitFor('end');
            return;
          }
          const work =
            held === 'shield'
              ? ctx.shield(() => ctx.waitFor('release'))
              : ctx.call(untilReleased, undefined, { cancellation: 'wait' });
          work.catch(() => undefined);
          await ctx.waitFor('next');
          await ctx.continueAsNew(2);
        });
        const released = Promise.withResolvers<void>();
        const untilReleased = activity('untilReleased', () => released.promise);
        const definitions = { orchestrations: [holding], activities: [untilReleased] };
        const { client, startWorker } = await open();
        const first = await startWorker(definitions);
        const handle = await client.start(holding, 1, { id: 'h' });
        await handle.raiseEvent('next');
        await expect.poll(() => eventKinds(client, 'h')).toContain('eventReceived');
        const replies = Promise.allSettled([
          client.update('h', tick, 1, { key: 'a' }),
          client.update('h', later, undefined, { key: 'b' }),
          client.update('h', tick, 3, { key: 'c' }),
        ]);
        await expect
          .poll(async () =>
            (await eventKinds(client, 'h')).filter((kind) => kind === 'updateAccepted'),
          )
          .toHaveLength(3);
        expect((await client.get('h'))?.executionId).toBe(1);
        const { waits, text } = await client.why('h');
        expect(waits.filter(({ kind }) => kind === 'update')).toEqual([
          { kind: 'update', name: 'tick', key: 'a', deferred: true },
          { kind: 'update', name: 'later', key: 'b', deferred: true },
          { kind: 'update', name: 'tick', key: 'c', deferred: true },
        ]);
        expect(text).toContain('the next execution, which handles update `tick`');
        expect(text).not.toContain('the handler of update');
        if (held === 'shield') {
          await first.stop();
          await startWorker(definitions);
        }
        await handle.raiseEvent('release');
        released.resolve();
        expect(await replies).toMatchObject([
          { value: '1 in 2' },
          { value: 'later in 2' },
          { reason: { code: 'UPDATE_REJECTED' } },
        ]);
        expect(await client.update('h', tick, 1, { key: 'a' })).toBe('1 in 2');
        await handle.raiseEvent('end');
        await handle.result();
      },
    );
  },
  modes,
);

describeEngine(
  'update handlers',
  (open) => {
    it('validate() that acts, draws random numbers or is asynchronous rejects the update', async () => {
      const touch = update<string, string>('touch');
      const strict = orchestration('strict', async (ctx) => {
        ctx.onUpdate(touch, {
          validate: (how) => {
            if (how === 'status') ctx.setCustomStatus('changed');
            if (how === 'random') Math.random();
            if (how === 'ctx.random') ctx.random();
            if (how === 'promise') return Promise.resolve(true) as never;
            if (how === 'swallowed') {
              try {
                void ctx.call(double, 1);
              } catch {
                return true;
              }
            }
            if (how === 'throws') throw new TypeError('not this one');
            return true;
          },
          handle: (how) => how,
        });
        await ctx.waitFor(checkout);
        return ctx.random();
      });
      const { client } = await open({ orchestrations: [strict], activities: [double] });
      const handle = await client.start(strict, undefined, { id: 's' });
      for (const how of ['status', 'random', 'ctx.random', 'promise', 'swallowed']) {
        await expect(client.update('s', touch, how)).rejects.toMatchObject({
          code: 'FORBIDDEN_IN_VALIDATION',
        });
      }
      await expect(client.update('s', touch, 'throws')).rejects.toMatchObject({
        code: 'UPDATE_REJECTED',
        message: expect.stringContaining('not this one') as unknown,
      });
      expect(await client.update('s', touch, 'nothing')).toBe('nothing');
      expect((await handle.status()).customStatus).toBeUndefined();
      await handle.raiseEvent(checkout);
      expect(await handle.result()).toEqual(expect.any(Number));
    });

    it('validate() may read ctx.state and ctx.isCanceled, and not change the state', async () => {
      const push = update<string, number>('push');
      const bounded = orchestration('bounded', async (ctx) => {
        ctx.onUpdate(push, {
          validate: (how) => {
            if (how === 'set') ctx.state.set('count', 0);
            if (how === 'delete') ctx.state.delete('count');
            if (ctx.isCanceled || ctx.state.keys().length > 1) return false;
            return (ctx.state.get<number>('count') ?? 0) < 2 || 'full';
          },
          handle: () => {
            const count = (ctx.state.get<number>('count') ?? 0) + 1;
            ctx.state.set('count', count);
            return count;
          },
        });
        await ctx.waitFor(checkout);
        return ctx.state.get<number>('count');
      });
      const { client } = await open({ orchestrations: [bounded] });
      const handle = await client.start(bounded, undefined, { id: 'b' });
      expect(await client.update('b', push, 'one')).toBe(1);
      for (const how of ['set', 'delete']) {
        await expect(client.update('b', push, how)).rejects.toMatchObject({
          code: 'FORBIDDEN_IN_VALIDATION',
        });
      }
      expect(await client.update('b', push, 'two')).toBe(2);
      await expect(client.update('b', push, 'three')).rejects.toMatchObject({
        code: 'UPDATE_REJECTED',
        message: expect.stringContaining('full') as unknown,
      });
      await handle.raiseEvent(checkout);
      expect(await handle.result()).toBe(2);
    });

    it('a validation that changes its input does not change that of the handler', async () => {
      const push = update<{ items: string[] }, readonly string[]>('push');
      const careless = orchestration('careless', async (ctx) => {
        ctx.onUpdate(push, {
          validate: (input) => input.items.push('added') > 0,
          handle: (input) => input.items,
        });
        await ctx.waitFor(checkout);
      });
      const { client } = await open({ orchestrations: [careless] });
      const handle = await client.start(careless, undefined, { id: 'c' });
      expect(await client.update('c', push, { items: ['given'] })).toEqual(['given']);
      await handle.raiseEvent(checkout);
      await handle.result();
    });

    it('onUpdate() throws for a second handler, an unknown option and a missing function', async () => {
      const wrong = orchestration('wrong', async (ctx) => {
        const codes: unknown[] = [];
        for (const attempt of [
          () => ctx.onUpdate(slow, { handle: (value) => value }),
          () => ctx.onUpdate(slow, { handle: (value) => value }),
          () => ctx.onUpdate(broken, { handel: 1 } as never),
          () => ctx.onUpdate(broken, {} as never),
          () => ctx.onUpdate({} as never, {} as never),
        ]) {
          try {
            attempt();
            codes.push('ok');
          } catch (error) {
            codes.push((error as { code?: string }).code);
          }
        }
        return codes;
      });
      const { client } = await open({ orchestrations: [wrong] });
      expect(await (await client.start(wrong)).result()).toEqual([
        'ok',
        'ALREADY_REGISTERED',
        'INVALID_OPTION',
        'INVALID_INPUT',
        'INVALID_INPUT',
      ]);
    });

    it('continueAsNew() in a handler fails the update, and a reply that JSON cannot represent too', async () => {
      const odd = update<string>('odd');
      const oddly = orchestration('oddly', async (ctx) => {
        ctx.onUpdate(odd, {
          handle: async (how) => {
            if (how === 'continue') await ctx.continueAsNew();
            return new Map();
          },
        });
        await ctx.waitFor(checkout);
      });
      const { client } = await open({ orchestrations: [oddly] });
      const handle = await client.start(oddly, undefined, { id: 'o' });
      await expect(client.update('o', odd, 'continue')).rejects.toMatchObject({
        code: 'UPDATE_FAILED',
        failure: { code: 'FORBIDDEN_IN_ORCHESTRATION' },
      });
      await expect(client.update('o', odd, 'map')).rejects.toMatchObject({
        code: 'UPDATE_FAILED',
        failure: { code: 'NOT_SERIALIZABLE' },
      });
      await handle.raiseEvent(checkout);
      await handle.result();
    });

    it('update() rejects invalid arguments', async () => {
      const { client } = await open(worker);
      const refused = async (call: () => Promise<unknown>): Promise<unknown> => {
        const error: unknown = await call().then(undefined, (thrown: unknown) => thrown);
        return (error as { code?: string } | undefined)?.code;
      };
      const any = client as unknown as { update(...args: readonly unknown[]): Promise<unknown> };
      expect(await refused(() => any.update('', addItem, 'x'))).toBe('INVALID_ID');
      expect(await refused(() => any.update('a', checkout, 'x'))).toBe('INVALID_INPUT');
      expect(await refused(() => any.update('a', '', 'x'))).toBe('INVALID_NAME');
      expect(await refused(() => any.update('a', addItem, 5))).toBe('INVALID_INPUT');
      expect(await refused(() => any.update('a', 'x', new Map()))).toBe('NOT_SERIALIZABLE');
      expect(await refused(() => any.update('a', 'x', 1, { kee: 'k' }))).toBe('INVALID_OPTION');
      expect(await refused(() => any.update('a', 'x', 1, { key: '' }))).toBe('INVALID_ID');
      expect(await refused(() => any.update('a', 'x', 1, { timeout: 'soon' }))).toBe(
        'INVALID_DURATION',
      );
    });

    it('why() names running handlers', async () => {
      const waiting = orchestration('waiting', async (ctx) => {
        ctx.onUpdate(slow, { handle: async () => (await ctx.waitFor('never')) as number });
        await ctx.waitFor(checkout);
      });
      const { client } = await open({ orchestrations: [waiting] });
      await client.start(waiting, undefined, { id: 'w' });
      void client.update('w', slow, 1, { key: 'k' }).catch(() => undefined);
      await expect.poll(() => eventKinds(client, 'w')).toContain('updateAccepted');
      const { waits, text } = await client.why('w');
      expect(waits).toContainEqual({ kind: 'update', name: 'slow', key: 'k' });
      expect(text).toContain('the handler of update `slow`');
    });

    it('a retry does not revive interrupted updates', async () => {
      const flaky = orchestration('flaky', async (ctx) => {
        ctx.onUpdate(slow, { handle: async () => (await ctx.waitFor('reply')) as number });
        const mustFail = await ctx.waitFor<boolean, boolean>(event('go'));
        if (mustFail) throw new Error('not yet');
        return 'done';
      });
      const { client } = await open({ orchestrations: [flaky] });
      const handle = await client.start(flaky, undefined, { id: 'f' });
      const first = client.update('f', slow, 1, { key: 'k' });
      await expect.poll(() => eventKinds(client, 'f')).toContain('updateAccepted');
      await handle.raiseEvent('go', true);
      await expect(first).rejects.toMatchObject({ code: 'UPDATE_INTERRUPTED' });
      await client.retry('f', { from: 'start' });
      await expect(client.update('f', slow, 1, { key: 'k' })).rejects.toMatchObject({
        code: 'UPDATE_INTERRUPTED',
      });
      const second = client.update('f', slow, 1, { key: 'k2' });
      await handle.raiseEvent('reply', 7);
      expect(await second).toBe(7);
    });
  },
  ['all fast paths', 'a replay after every turn', 'PostgreSQL'],
);
