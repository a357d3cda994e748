import { describe, expect, it } from 'vitest';
import type { HistoryEvent } from '../model/event.ts';
import { drive } from '../../test/replay/turn-driver.ts';
import { DurablePromise } from './durable-promise.ts';

const withdrawals = (events: readonly HistoryEvent[]) =>
  events.filter(({ kind }) => kind === 'operationWithdrawn');

describe('a durable promise', () => {
  it('derives ordinary promises', async () => {
    const run = drive(async (ctx) => {
      const call = ctx.call('a');
      const derived = call.then(() => 1);
      return [
        call instanceof DurablePromise,
        call instanceof Promise,
        derived instanceof DurablePromise,
        derived.constructor === Promise,
        await derived,
      ];
    });
    await run.start();
    await run.turn(run.completed(1));
    expect(run.output).toEqual([true, true, false, true, 1]);
  });

  it('that rejects while the code awaits something else is not an unhandled rejection', async () => {
    let isBroken = false;
    const run = drive(
      async (ctx) => {
        const failing = ctx.call('failing');
        await ctx.call('other');
        return failing.catch(() => 'caught later');
      },
      { onBroken: () => (isBroken = true) },
    );
    await run.start();
    await run.turn(run.failed(1));
    await new Promise((resolve) => setImmediate(resolve));
    await run.turn(run.completed(2));
    expect(isBroken).toBe(false);
    expect(run.output).toBe('caught later');
  });

  it.each([
    ['activity', (ctx) => ctx.call('a')],
    ['timer', (ctx) => ctx.sleep('1h')],
    ['event', (ctx) => ctx.waitFor('e')],
    ['child', (ctx) => ctx.child('c')],
  ] satisfies [string, Parameters<typeof drive>[0]][])(
    'of an %s that is canceled records it and rejects with a CanceledError',
    async (targetKind, operate) => {
      const run = drive(async (ctx) => {
        const operation = operate(ctx);
        await ctx.call('until then');
        operation.cancel('changed my mind');
        operation.cancel('again');
        try {
          return await operation;
        } catch (error) {
          const { code, trigger, reason } = error as Record<string, unknown>;
          return { code, trigger, reason };
        }
      });
      await run.start();
      await run.turn(run.completed(2));
      expect(withdrawals(run.history)).toMatchObject([
        { target: 1, targetKind, trigger: 'cancel', reason: 'changed my mind' },
      ]);
      expect(run.output).toEqual({
        code: 'OPERATION_CANCELED',
        trigger: 'cancel',
        reason: 'changed my mind',
      });
    },
  );

  it('ignores cancel() after it has settled', async () => {
    const run = drive(async (ctx) => {
      const call = ctx.call('a');
      const result = await call;
      call.cancel();
      return [result, await call];
    });
    await run.start();
    await run.turn(run.completed(1, 'kept'));
    expect(withdrawals(run.history)).toEqual([]);
    expect(run.output).toEqual(['kept', 'kept']);
  });

  it('accepts a cancel reason that is not a string, too long, or missing', async () => {
    const hostile = new Proxy(
      {},
      {
        get() {
          throw new Error('keep out');
        },
        getPrototypeOf() {
          throw new Error('keep out');
        },
      },
    );
    const reasons = [{ why: 'no idea' }, 'x'.repeat(1_048_576), undefined, hostile, 5n];
    const run = drive(async (ctx) => {
      for (const reason of reasons) ctx.sleep(1).cancel(reason as string);
    });
    await run.start();
    const recorded = withdrawals(run.history).map((event) => (event as { reason: string }).reason);
    expect(recorded.map((reason) => reason.slice(0, 40))).toEqual([
      '{"why":"no idea"}',
      'x'.repeat(40),
      'canceled',
      'a value of type object',
      'a value of type bigint',
    ]);
    expect(recorded[1]).toMatch(/^x{4096}… \(cut from 1048576 characters\)$/);
  });

  it('can be canceled and issued again in the same turn', async () => {
    const run = drive(async (ctx) => {
      ctx.call('a', 1).cancel();
      return ctx.call('a', 2);
    });
    await run.start();
    expect(await run.turn(run.completed(1, 'first'))).toEqual([]);
    await run.turn(run.completed(2, 'second'));
    expect(run.output).toBe('second');
  });
});
