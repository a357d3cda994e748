import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Perdure } from 'perdure';
import type { Provider } from 'perdure/provider';
import { createToken } from 'perdure/server';
import { engineStores } from '../engine/engine-store.ts';
import { watchStatements } from '../postgres/helpers/statement-log.ts';
import { openEvents } from './helpers/event-reader.ts';
import { serveOn, type TestServer, type TestServerOptions } from './helpers/server-fixture.ts';

/** Counts the calls of each method of a provider. */
function countCalls(provider: Provider): {
  provider: Provider;
  take: () => Record<string, number>;
} {
  let counts: Record<string, number> = {};
  const counting = new Proxy(provider, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...args: readonly unknown[]): unknown => {
        counts[String(name)] = (counts[String(name)] ?? 0) + 1;
        return Reflect.apply(member, target, args);
      };
    },
  });
  const take = (): Record<string, number> => {
    const taken = counts;
    counts = {};
    return taken;
  };
  return { provider: counting, take };
}

const tabs = 20;
const windowMs = 2_500;

describe.each(['SQLite', 'PostgreSQL'] as const)('reads shared by callers, on %s', (kind) => {
  const stores = engineStores(kind);

  async function open(
    options?: TestServerOptions,
  ): Promise<TestServer & { readonly take: () => Record<string, number> }> {
    const store = await stores();
    const { provider, take } = countCalls(await store.open());
    const perdure = await Perdure.open(provider);
    onTestFinished(async () => {
      await perdure.close();
      await store.remove();
    });
    return { ...(await serveOn(perdure, options)), take };
  }

  const all = <Value>(count: number, work: (index: number) => Promise<Value>) =>
    Promise.all(Array.from({ length: count }, (_, index) => work(index)));

  it('20 tabs that explain the same rows cost one read, and a restricted one its own', async () => {
    const restricted = createToken();
    const other = createToken();
    const { ask, send, take, perdure } = await open({
      tokens: [
        { name: 'reader', role: 'read', sha256: other.sha256 },
        { name: 'mail', role: 'read', sha256: restricted.sha256, definitions: 'mail*' },
      ],
    }).then((server) => ({
      ...server,
      ask: (ids: readonly string[]) =>
        server.send('explainInstances', { body: { ids } }, { token: other.token }),
    }));
    const ids = ['a', 'b', 'c'];
    for (const id of ids) await perdure.client.start('order', undefined, { id });
    const sent = kind === 'PostgreSQL' ? watchStatements() : undefined;
    take();
    const startedAt = performance.now();
    const answers = await all(tabs, () => ask(ids));
    for (const { json } of answers) {
      expect(json).toMatchObject({ items: ids.map((id) => ({ id })) });
    }
    const { inspectInstances: reads = 0 } = take();
    expect(reads).toBeGreaterThan(0);
    // A result is shared for 500 ms; on a busy machine the requests take longer.
    expect(reads).toBeLessThanOrEqual(1 + Math.floor((performance.now() - startedAt) / 500));
    const statements = sent?.().filter(({ name }) => /listed|turn_states/.test(name));
    if (statements !== undefined) expect(statements).toHaveLength(3 * reads);
    const hidden = await send('explainInstances', { body: { ids } }, { token: restricted.token });
    expect(hidden.json).toEqual({ items: [] });
    expect(take()).toMatchObject({ inspectInstances: 1 });
  });

  it('a change that a stream has reported is explained from a new read', async () => {
    const server = await open();
    const { ask, perdure } = server;
    const body = { ids: ['w'] };
    await perdure.client.start('order', undefined, { id: 'w' });
    const events = await openEvents(server, 'watchInstances', { body });
    await events.next();
    expect((await ask('explainInstances', { body })).items[0]?.instance.status).toBe('pending');
    for (let round = 0; round < 3; round += 1) {
      await perdure.client.pause('w', { reason: `pause ${round}` });
      expect(JSON.stringify(await events.next())).toContain('"w"');
      const paused = await ask('explainInstances', { body });
      expect(paused.items[0]?.text).toBe(`Paused: pause ${round}`);
      await perdure.client.resume('w');
      await events.next();
      expect((await ask('explainInstances', { body })).items[0]?.text).toMatch(/^No live worker/);
    }
    events.close();
  });

  it('20 tabs that ask for queues and attention cost what one costs', async () => {
    const { ask, take } = await open();
    await ask('getAttention', {});
    await ask('listQueues', {});
    await delay(1_100);
    take();
    const startedAt = performance.now();
    await all(tabs, () => ask('getAttention', {}));
    await all(tabs, () => ask('listQueues', {}));
    // A result is shared for a second; on a busy machine the requests take longer.
    const most = 1 + Math.floor((performance.now() - startedAt) / 1_000);
    const counts = take();
    for (const method of ['definitionQueues', 'findUnclaimedWork', 'listSchedules']) {
      expect(counts[method]).toBeGreaterThan(0);
      expect(counts[method]).toBeLessThanOrEqual(most);
    }
  });

  it.each([
    { route: 'watchInstances', methods: ['readVersions'], everyMs: 100 },
    { route: 'watchChanges', methods: ['definitionQueues', 'systemMetrics'], everyMs: 1_000 },
  ] as const)(
    '$route reads at most every $everyMs ms for 20 tabs together',
    { timeout: 30_000 },
    async ({ route, methods, everyMs }) => {
      const ids = Array.from({ length: 50 }, (_, index) => `i${index}`);
      const request = route === 'watchInstances' ? { body: { ids } } : {};
      const server = await open();
      const { take, perdure } = server;
      for (const id of ids) await perdure.client.start('order', undefined, { id });
      const streams = await all(tabs, () => openEvents(server, route, request));
      await Promise.all(streams.map((stream) => stream.next()));
      take();
      const startedAt = performance.now();
      for (let n = 0; performance.now() < startedAt + windowMs; n += 1) {
        await perdure.client.pause(ids[n % ids.length] ?? '', { reason: `${n}` });
        await perdure.client.resume(ids[n % ids.length] ?? '');
        await delay(20);
      }
      const rounds = (performance.now() - startedAt) / everyMs + 2;
      const counts = take();
      for (const stream of streams) stream.close();
      for (const method of methods) {
        // One read per tab would be at least five times as many.
        expect(counts[method]).toBeLessThanOrEqual(rounds);
        expect(counts[method]).toBeGreaterThan(0);
      }
    },
  );
});
