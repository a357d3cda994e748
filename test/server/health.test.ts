import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Perdure, silentLogger } from 'perdure';
import { serve } from 'perdure/server';
import { openSqlite } from 'perdure/sqlite';
import { openEvents } from './helpers/event-reader.ts';
import { codeOf, openServer, serveOn, type TestServer } from './helpers/server-fixture.ts';
import { holdAuditRequests, longPoll } from './helpers/server-load.ts';

const probes = ['live', 'ready'] as const;

/** The status of each health route, requested without a token. */
async function probe({ send }: TestServer): Promise<Readonly<Record<string, number>>> {
  const statuses = probes.map(
    async (route) => [route, (await send(route, {}, { token: '' })).status] as const,
  );
  return Object.fromEntries(await Promise.all(statuses));
}

const healthy = { live: 200, ready: 200 };

describe('health routes and the store', () => {
  async function openStore() {
    const store = await openSqlite({ path: ':memory:' });
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    return { store, server: await serveOn(perdure, { logger: silentLogger }) };
  }

  it('ready fails while the store fails and then succeeds again, live always succeeds', async () => {
    const { store, server } = await openStore();
    expect(await probe(server)).toEqual(healthy);
    const spy = vi.spyOn(store, 'getInstances').mockRejectedValue(new Error('disk is gone'));
    // A result is cached for a second.
    await expect.poll(() => probe(server)).toEqual({ live: 200, ready: 500 });
    spy.mockRestore();
    await expect.poll(() => probe(server)).toEqual(healthy);
  });

  it('ready fails after the store was closed, live still succeeds', async () => {
    const { store, server } = await openStore();
    expect(await probe(server)).toEqual(healthy);
    await store.close();
    await expect.poll(async () => (await probe(server))['ready']).toBeGreaterThanOrEqual(500);
    expect((await probe(server))['live']).toBe(200);
  });

  it('live reads nothing from the store', async () => {
    const { store, server } = await openStore();
    const methods = Object.entries(store).filter(([, value]) => typeof value === 'function');
    const spies = methods.map(([key]) => vi.spyOn(store, key as 'getInstances'));
    for (let n = 0; n < 5; n += 1) {
      expect((await server.send('live', {}, { token: '' })).status).toBe(200);
    }
    expect(spies.flatMap((spy) => spy.mock.calls)).toEqual([]);
    await server.send('ready', {}, { token: '' });
    expect(spies.flatMap((spy) => spy.mock.calls)).not.toEqual([]);
  });
});

describe('health routes and limits', () => {
  it('respond while requests, long polls and streams use all capacity', async () => {
    const limits = { concurrent: 1, queued: 1, waiting: 1, streams: 1 };
    const server = await openServer({ limits, logger: silentLogger });
    const { send, ask } = server;
    holdAuditRequests(server);
    await ask('startInstance', { body: { name: 'nobody-runs-it', id: 'a' } });
    const controller = new AbortController();
    const { signal } = controller;
    const held = [1, 2].map(() => send('listAudit', {}, { signal }).catch(() => undefined));
    const wait = send('waitForInstance', { params: { id: 'a' } }, { signal }).catch(
      () => undefined,
    );
    const stream = await openEvents(server, 'watchChanges');
    const full = ['systemMetrics', 'watchChanges'] as const;
    for (const route of full) {
      await expect.poll(async () => (await send(route, {})).status, longPoll).toBe(503);
    }
    await expect
      .poll(async () => (await send('waitForInstance', { params: { id: 'a' } })).status, longPoll)
      .toBe(503);
    for (let n = 0; n < 5; n += 1) expect(await probe(server)).toEqual(healthy);
    controller.abort();
    stream.close();
    await Promise.all([...held, wait]);
  });

  it('respond to an address that exceeds its rate of writes', async () => {
    const perdure = await Perdure.open(':memory:', { logger: silentLogger });
    onTestFinished(() => perdure.close());
    const server = await serve(perdure, { port: 0, limits: { changesPerSecond: 1 } });
    onTestFinished(() => server.close());
    const { url } = server;
    const write = () =>
      fetch(`${url}/v1/instances`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"name":"x"}',
      });
    await expect.poll(async () => (await write()).status).toBe(429);
    for (let n = 0; n < 20; n += 1) {
      for (const path of ['/v1/health/live', '/v1/health/ready']) {
        expect((await fetch(url + path)).status).toBe(200);
      }
    }
  });

  it('respond to an address that sends too many wrong tokens', async () => {
    const server = await openServer({
      limits: { wrongTokensPerMinute: 2 },
      logger: silentLogger,
    });
    const guess = () => server.send('systemMetrics', {}, { token: 'wrong' });
    for (let n = 0; n < 2; n += 1) expect((await guess()).status).toBe(401);
    const limited = await guess();
    expect([limited.status, codeOf(limited)]).toEqual([429, 'RATE_LIMITED']);
    expect(await probe(server)).toEqual(healthy);
    // A probe with a wrong token needs none.
    expect((await server.send('ready', {}, { token: 'wrong' })).status).toBe(200);
  });
});
