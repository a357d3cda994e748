import { describe, expect, it } from 'vitest';
import { activity, event, orchestration, update, type Handle } from '../index.ts';
import { createTestEnvironment, type TestEnvironment } from './test-environment.ts';

const seats = new Set<string>();
const charged: string[] = [];
const paid = event<string>('paid');

const reserve = activity('reserve', async (_ctx, seat: string) => void seats.add(seat));
const release = activity('release', async (_ctx, seat: string) => void seats.delete(seat));
const charge = activity('charge', async (ctx) => void charged.push(ctx.idempotencyKey));

const booking = orchestration('booking', async (ctx, seat: string) => {
  try {
    await ctx.call(reserve, seat, { cancellation: 'wait' });
    await ctx.sleep('15m');
    await ctx.call(charge);
    return seat;
  } catch (error) {
    await ctx.shield(() => ctx.call(release, seat));
    throw error;
  }
});
/** Does not release the seat after a cancel. */
const careless = orchestration('careless', async (ctx, seat: string) => {
  await ctx.call(reserve, seat);
  await ctx.sleep('15m');
  await ctx.call(charge);
});
const parent = orchestration('parent', async (ctx) => {
  const who = await ctx.waitFor(paid);
  return `${who}: ${await ctx.child(booking, '1A')}`;
});

const before = (): void => {
  seats.clear();
  charged.length = 0;
};
const definitions = {
  orchestrations: [booking, careless, parent],
  activities: [reserve, release, charge],
};

describe('cancelAtEveryAwait()', () => {
  it('cancels at each commit, and checks the invariant after each run', async () => {
    await using env = await createTestEnvironment(definitions);
    const statuses: string[] = [];
    const runs = await env.cancelAtEveryAwait(booking, '1A', {
      before,
      expect: ({ status, place }) => {
        statuses.push(status);
        expect(place).toBe(statuses.length);
        expect(seats.size).toBe(0);
      },
    });
    // At least: the reservation, the sleep and the payment.
    expect(runs).toBeGreaterThanOrEqual(3);
    expect(new Set(statuses)).toEqual(new Set(['canceled']));
  });

  it('rejects with the place if the invariant does not hold', async () => {
    await using env = await createTestEnvironment(definitions);
    const run = env.cancelAtEveryAwait(careless, '1A', { before, expect: () => seats.size === 0 });
    await expect(run).rejects.toThrow(
      /^cancelAtEveryAwait\(\): after a cancel after commit \d+, the instance ended as canceled and the invariant does not hold\.$/,
    );
  });

  it('drives instances that wait for events, and cancels children with them', async () => {
    await using env = await createTestEnvironment(definitions);
    const runs = await env.cancelAtEveryAwait(parent, undefined, {
      before,
      drive: (_env, handle) => handle.raiseEvent(paid, 'Ada'),
      // Only a child that completed keeps its seat.
      expect: () => seats.size === charged.length,
    });
    expect(runs).toBeGreaterThanOrEqual(5);
  });

  it('rejects above `maxPlaces`', async () => {
    await using env = await createTestEnvironment(definitions);
    const run = env.cancelAtEveryAwait(booking, '1A', { before, expect: () => true, maxPlaces: 1 });
    await expect(run).rejects.toMatchObject({ code: 'INVALID_OPTION' });
  });
});

describe('crashAtEveryEvent()', () => {
  it('crashes before and after each commit, and another worker completes the instance', async () => {
    await using env = await createTestEnvironment(definitions);
    let repeated = 0;
    const runs = await env.crashAtEveryEvent(booking, '1A', {
      before,
      expect: ({ status, output }) => {
        expect({ status, output }).toEqual({ status: 'completed', output: '1A' });
        expect([...seats]).toEqual(['1A']);
        expect(new Set(charged).size).toBe(1);
        if (charged.length > 1) repeated += 1;
      },
    });
    expect(runs).toBeGreaterThanOrEqual(6);
    // A crash before the ack of the payment runs it again, with the same key.
    expect(repeated).toBeGreaterThan(0);
  });

  it('finds effects without an idempotency key', async () => {
    await using env = await createTestEnvironment(definitions);
    const run = env.crashAtEveryEvent(booking, '1A', {
      before,
      expect: () => expect(charged).toHaveLength(1),
    });
    await expect(run).rejects.toThrow(/^crashAtEveryEvent\(\): after a crash before commit \d+/);
  });
});

describe('programs with steps, transactions, updates and state', () => {
  const reserved = new Map<string, number>();
  const addItem = update<number, number>('addItem');
  const shipped = event('shipped');
  let reservations = 0;

  const order = orchestration('order', async (ctx, id: string) => {
    let items = 0;
    ctx.onUpdate(addItem, {
      handle: (count) => {
        items += count;
        ctx.state.set('items', items);
        return items;
      },
    });
    try {
      await ctx.run('reserve', (step) => {
        reservations += 1;
        // A service that deduplicates by the key.
        reserved.set(step.idempotencyKey, 1);
      });
      await ctx.transaction('charge', async (tx) => {
        await tx.query('CREATE TABLE IF NOT EXISTS payments (id text)');
        await tx.query('INSERT INTO payments VALUES ($1)', [id]);
      });
      await ctx.waitFor(shipped);
      ctx.emit('shipped');
      const payments = await ctx.transaction('count', async (tx) => {
        const { rows } = await tx.query<{ n: number }>('SELECT count(*) AS n FROM payments');
        return Number(rows[0]?.n);
      });
      return { payments, items: ctx.state.get('items') };
    } catch (error) {
      await ctx.shield(() => ctx.run('release', () => reserved.clear()));
      throw error;
    }
  });

  const talk = {
    before: () => {
      reserved.clear();
      reservations = 0;
    },
    drive: async (env: TestEnvironment, handle: Handle) => {
      expect(await env.client.update(handle.id, addItem, 2, { key: 'two' })).toBe(2);
      await handle.raiseEvent(shipped);
    },
  };

  it('cancelAtEveryAwait() cancels steps and transactions, whose clean-up runs', async () => {
    await using env = await createTestEnvironment({ orchestrations: [order] });
    const statuses = new Set<string>();
    const runs = await env.cancelAtEveryAwait(order, '17', {
      ...talk,
      expect: ({ status }) => {
        statuses.add(status);
        expect(reserved.size).toBe(status === 'completed' ? 1 : 0);
      },
    });
    expect(runs).toBeGreaterThanOrEqual(5);
    expect(statuses).toContain('canceled');
  });

  it('crashAtEveryEvent() runs a step again and commits each transaction once', async () => {
    await using env = await createTestEnvironment({ orchestrations: [order] });
    let repeated = 0;
    const runs = await env.crashAtEveryEvent(order, '17', {
      ...talk,
      expect: ({ status, output }) => {
        expect({ status, output }).toEqual({
          status: 'completed',
          output: { payments: 1, items: 2 },
        });
        expect(reserved.size).toBe(1);
        if (reservations > 1) repeated += 1;
      },
    });
    expect(runs).toBeGreaterThanOrEqual(10);
    // A crash before the ack of the step.
    expect(repeated).toBeGreaterThan(0);
  });
});
