import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readFlowGraph } from '../../../src/flows.ts';
import { engineStores, type EngineStore } from '../../engine/engine-store.ts';
import { addPlainInstances } from './plain-instances.ts';
import { seedStore, seededIds, type Seed } from './seed-store.ts';

describe.each(['SQLite', 'PostgreSQL'] as const)('the seeded store (%s)', (kind) => {
  const newStore = engineStores(kind);
  let store: EngineStore;
  let seed: Seed;

  beforeAll(async () => {
    store = await newStore();
    seed = await seedStore(store.open);
  }, 120_000);
  afterAll(async () => {
    await seed.close();
    await store.remove();
  });

  test('each of its ids is in the state that its name states', async () => {
    const { client } = seed.perdure;
    const texts = await Promise.all(
      Object.entries(seededIds).map(async ([name, id]) => [name, (await client.why(id)).text]),
    );
    const containing = (text: string): unknown => expect.stringContaining(text);
    expect(Object.fromEntries(texts)).toEqual({
      completed: containing('Completed'),
      failed: containing('Card declined for order 48188'),
      failedRefund: containing('TIMEOUT'),
      // The fifth attempt is due if seeding took more than 11 s of real time.
      retrying: expect.stringMatching(/`chargeCard`: attempt [45] of 8 starts in/) as unknown,
      running: containing('`reserveStock`: attempt 1 has been running on worker'),
      waitsForEvent: containing('event `paymentConfirmed`'),
      waitsForTimer: containing('a timer: fires in 30 d'),
      waitsForChild: containing('child `order-48209:quote`'),
      waitsForDelivery: containing('event `delivered`'),
      canceling: containing('`refundCard` (attempt 2 of 20 has been running'),
      canceled: containing('customer changed the order'),
      terminated: containing('test order'),
      blocked: containing('is activity "chargeCard", but the code issued activity "applyVoucher"'),
      paused: containing('acquirer outage'),
      leaked: containing('1 handler still ran after the grace'),
      noWorker: containing('No live worker has orchestration `fulfilOrder` version `4`'),
      longHistory: containing('event `approval`'),
      agent: containing('event `approval`'),
      flow: containing('step `resizeImages`'),
      failedFlow: containing("Step 'loadPrices'"),
      completedFlow: containing('Completed'),
    });
  });

  test('it has workers, schedules, sessions, series, audit entries and retention policies', async () => {
    const { client } = seed.perdure;
    const workers = await client.workers();
    expect(workers.map(({ name, status }) => `${name} ${status}`)).toEqual([
      'worker-eu-1 live',
      'worker-eu-2 live',
      'worker-eu-3 live',
      'worker-us-1 live',
      'worker-eu-7 stale',
    ]);
    expect(workers.filter(({ leaked }) => leaked > 0)).toHaveLength(1);
    const schedules = (await client.schedules.list()).items;
    expect(schedules.map(({ name }) => name)).toEqual([
      'hourly-import',
      'nightly-report',
      'partner-feed',
      'settle-payments',
    ]);
    expect(schedules.find(({ paused }) => paused)?.name).toBe('nightly-report');
    expect(schedules.find(({ bufferedTicks }) => bufferedTicks)?.name).toBe('partner-feed');
    const sessions = (await client.sessions.list()).items;
    expect(sessions.map(({ state }) => state).toSorted()).toEqual(['ended', 'open', 'open']);
    const from = seed.clock.now() - 5 * 3_600_000;
    expect((await client.series({ from })).length).toBeGreaterThan(295);
    expect((await client.listAudit()).items.length).toBeGreaterThan(5);
    expect((await client.retention.status()).policies).toHaveLength(4);
    expect((await client.unclaimedWork()).map(({ name }) => name)).toContain('sendFax');
    expect(await client.pausedDefinitions()).toMatchObject([{ name: 'sendNewsletter' }]);
  });

  test('it has a running map, a long history and a tree of three levels', async () => {
    const { client } = seed.perdure;
    const graph = await readFlowGraph(client, seededIds.flow);
    const map = graph?.nodes.find(({ name }) => name === 'resizeImages');
    expect(map?.items).toMatchObject({ completed: 190, running: 24 });
    expect((await client.timeline(seededIds.longHistory)).items.length).toBeGreaterThan(99);
    const tree = await client.tree(seededIds.completed);
    expect(tree.items.map(({ depth }) => depth)).toEqual([0, 1, 2, 2, 1]);
  });

  test('addPlainInstances() adds instances that the lists count', async () => {
    const { client } = seed.perdure;
    const now = seed.clock.now();
    await addPlainInstances(store, { kind, count: 5_000, like: seededIds.completed, now });
    const plain = { idPrefix: 'plain-' };
    expect(await client.count(plain)).toEqual({ count: 5_000, capped: false });
    expect(await client.count({ ...plain, status: 'failed' })).toMatchObject({ count: 100 });
    const first = (await client.list({})).items[0];
    expect(first).toMatchObject({ id: 'plain-5000', name: 'fulfilOrder', status: 'failed' });
  });
});
