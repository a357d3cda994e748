import { fork } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  activity,
  event,
  orchestration,
  Perdure,
  type Client,
  type HistoryOptions,
  type InstanceChange,
  type WatchedEvent,
} from 'perdure';
import { serve } from 'perdure/server';
import { createMigratedDatabase } from '../postgres/helpers/migrated-database.ts';
import { temporaryStorePath } from './store-fixture.ts';

const next = event<number>('next');
const greet = activity('greet', async (_ctx, name: string) => `Hello, ${name}! ${'é'.repeat(50)}`);
const breaks = activity(
  'breaks',
  async () => {
    throw new Error('It broke.');
  },
  { retry: { maxAttempts: 2, initialDelay: 1 } },
);
const hello = orchestration('hello', (ctx, name: string) => ctx.call(greet, name));
const many = orchestration('many', async (ctx, count: number) => {
  for (let n = 0; n < count; n += 1) await ctx.call(greet, String(n));
  await ctx.call(breaks).catch(() => undefined);
  await ctx.sleep(1);
});
const family = orchestration('family', async (ctx) => {
  await ctx.child(hello, 'one', { id: 'family-1' });
  await ctx.child(hello, 'two', { id: 'family-2' });
});
const generations = orchestration('generations', async (ctx, left: number) => {
  await ctx.waitFor(next);
  return left === 0 ? 'done' : ctx.continueAsNew(left - 1);
});
const progress = orchestration('progress', async (ctx) => {
  await ctx.waitFor(next);
  ctx.setCustomStatus({ step: 1 });
  await ctx.waitFor(next);
});
const listens = orchestration('listens', async (ctx) => {
  await ctx.waitFor(next);
  await ctx.call(greet, 'between');
  await ctx.waitFor(next);
  await ctx.waitFor('never', { timeout: 1 }).catch(() => undefined);
  await ctx.waitFor('last');
});
const definitions = {
  orchestrations: [hello, many, family, generations, progress, listens],
  activities: [greet, breaks],
};

async function newDatabase(): Promise<string> {
  const database = await createMigratedDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

/** Opens a store with a worker, and a client: local, or over HTTP. */
async function open(store: string, isRemote: boolean, withWorker = true): Promise<Client> {
  const perdure = await Perdure.open(store);
  onTestFinished(() => perdure.close());
  if (withWorker) await perdure.startWorker(definitions);
  if (!isRemote) return perdure.client;
  const server = await serve(perdure, { port: 0 });
  onTestFinished(() => server.close());
  const connection = await Perdure.connect(server.url);
  onTestFinished(() => connection.close());
  return connection.client;
}

/** Starts a worker in another process. */
async function startWorkerProcess(store: string): Promise<void> {
  const program = new URL('../server/helpers/other-worker-program.ts', import.meta.url);
  const worker = fork(program, [store]);
  onTestFinished(async () => {
    if (worker.connected) worker.disconnect();
    if (worker.exitCode === null) await once(worker, 'exit');
  });
  await once(worker, 'message');
}

/** Takes changes until one satisfies a condition. */
async function untilChange(
  changes: AsyncIterator<InstanceChange>,
  isWanted: (change: InstanceChange) => boolean,
): Promise<InstanceChange> {
  for (;;) {
    const { value, done } = await changes.next();
    if (done === true) throw new Error('The watch has ended.');
    if (isWanted(value)) return value;
  }
}

async function allPages(client: Client, id: string, options: HistoryOptions) {
  const ids: number[] = [];
  let page = await client.history(id, options);
  for (;;) {
    ids.push(...page.items.map((item) => item.id));
    const { nextAfter, nextBefore } = page;
    if (nextAfter === undefined && nextBefore === undefined) return ids;
    page = await client.history(id, {
      ...options,
      ...(nextAfter !== undefined ? { after: nextAfter } : { before: nextBefore }),
    });
  }
}

describe.each([
  ['SQLite', temporaryStorePath],
  ['PostgreSQL', newDatabase],
] as const)('views on %s', (_, newStore) => {
  describe.each([
    ['local', false],
    ['remote', true],
  ] as const)('%s client', (_client, isRemote) => {
    it('history() reads from either end, by kind and operation, and cuts payloads', async () => {
      const client = await open(await newStore(), isRemote);
      await (await client.start(many, 5, { id: 'm' })).result();
      const whole = await client.history('m', { limit: 1_000 });
      const ids = whole.items.map(({ id }) => id);
      expect(await allPages(client, 'm', { order: 'desc', limit: 4 })).toEqual(ids.toReversed());
      expect(await allPages(client, 'm', { payloads: 'none', limit: 4 })).toEqual(ids);
      const failed = await client.history('m', { kinds: 'activityFailed', payloads: 'head' });
      expect(failed.items.map(({ event: { kind } }) => kind)).toEqual(['activityFailed']);
      expect(failed.items[0]?.event).toMatchObject({ failure: { message: 'It broke.' } });
      expect(JSON.stringify(failed)).not.toContain('stack');
      const second = await client.history('m', { operation: 2, order: 'desc' });
      expect(second.items.map(({ event: { kind } }) => kind)).toEqual([
        'activityCompleted',
        'activityScheduled',
      ]);
      const heads = await client.history('m', {
        operation: 1,
        kinds: ['activityCompleted'],
        payloads: 'head',
        headBytes: 12,
      });
      // The 12th byte is the first half of a character.
      expect(heads.items[0]).toMatchObject({
        event: { payload: '"Hello, 0! ' },
        payloadBytes: 112,
      });
      expect(await allPages(client, 'm', { before: 4, order: 'asc', payloads: 'none' })).toEqual([
        1, 2, 3,
      ]);
      expect(await allPages(client, 'm', { after: 2, before: 5, order: 'desc' })).toEqual([4, 3]);
    });

    it('timeline() returns operations with times, outcomes and attempts', async () => {
      const client = await open(await newStore(), isRemote);
      await (await client.start(many, 2, { id: 'm' })).result();
      const { items, marks, nextAfter } = await client.timeline('m');
      expect(items.map(({ kind, name, outcome }) => [kind, name, outcome])).toEqual([
        ['activity', 'greet', 'completed'],
        ['activity', 'greet', 'completed'],
        ['activity', 'breaks', 'failed'],
        ['timer', undefined, 'completed'],
      ]);
      expect(items[2]).toMatchObject({ attempts: 2, reason: 'Error: It broke.' });
      for (const { startedAt = 0, endedAt = 0 } of items) expect(endedAt >= startedAt).toBe(true);
      expect(marks.map(({ kind }) => kind)).toEqual(['executionStarted', 'executionCompleted']);
      expect(nextAfter).toBeUndefined();
      const part = await client.timeline('m', { limit: 2 });
      expect(part).toMatchObject({ items: [{ operation: 1 }], nextAfter: 2 });
      expect(part.items[0]).not.toHaveProperty('endedAt');
    });

    it('timeline() ends the waits that received an event, on every page', async () => {
      const client = await open(await newStore(), isRemote);
      const handle = await client.start(listens, undefined, { id: 'e' });
      await handle.raiseEvent(next, 1);
      await handle.raiseEvent(next, 2);
      const waits = async () =>
        (await client.timeline('e')).items
          .filter(({ kind }) => kind === 'event')
          .map(({ name, outcome, withdrawnAt }) => [
            name,
            outcome ?? (withdrawnAt === undefined ? 'open' : 'withdrawn'),
          ]);
      await expect.poll(waits).toEqual([
        ['next', 'completed'],
        ['next', 'completed'],
        ['never', 'withdrawn'],
        ['last', 'open'],
      ]);
      const { items } = await client.timeline('e');
      // Two pages that are joined by operation are the whole, wherever the first one ends.
      const { length } = (await client.history('e')).items;
      for (let cut = 1; cut < length; cut += 1) {
        const first = await client.timeline('e', { limit: cut });
        const second = await client.timeline('e', { after: cut });
        const joined = new Map(first.items.map((item) => [item.operation, item]));
        for (const item of second.items) {
          joined.set(item.operation, { ...joined.get(item.operation), ...item });
        }
        expect([...joined.values()]).toEqual(items);
      }
      await client.terminate('e');
    });

    it('timeline() ends a wait with an event that continue-as-new carried over', async () => {
      const client = await open(await newStore(), isRemote);
      const handle = await client.start(generations, 1, { id: 'g' });
      for (const n of [1, 2]) await handle.raiseEvent(next, n);
      await handle.result();
      for (const executionId of [1, 2]) {
        const { items } = await client.timeline('g', { executionId });
        expect(items).toMatchObject([{ kind: 'event', name: 'next', outcome: 'completed' }]);
      }
    });

    it('tree() pages through a tree with names, states and times', async () => {
      const client = await open(await newStore(), isRemote);
      await (await client.start(family, undefined, { id: 'f' })).result();
      const first = await client.tree('f', { limit: 2 });
      const second = await client.tree('f', { limit: 2, cursor: first.nextCursor });
      expect(second.nextCursor).toBeUndefined();
      expect(
        [...first.items, ...second.items].map(({ id, name, depth, status, children }) => [
          id,
          name,
          depth,
          status,
          children,
        ]),
      ).toEqual([
        ['f', 'family', 0, 'completed', 2],
        ['family-1', 'hello', 1, 'completed', 0],
        ['family-2', 'hello', 1, 'completed', 0],
      ]);
      expect((await client.tree('f', { depth: 0 })).items).toHaveLength(1);
      await expect(client.tree('nobody')).rejects.toMatchObject({ code: 'INSTANCE_NOT_FOUND' });
      await expect(client.tree('family-1', { cursor: first.nextCursor })).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
    });

    it('watchHistory() follows events across continue-as-new and ends with the instance', async () => {
      const client = await open(await newStore(), isRemote);
      await client.start(generations, 2, { id: 'g' });
      const seen: WatchedEvent[] = [];
      for await (const one of client.watchHistory('g')) {
        seen.push(one);
        if (one.event.kind === 'eventAwaited') await client.raiseEvent('g', next, 1);
      }
      expect(seen.map(({ executionId, event: { kind } }) => `${executionId} ${kind}`)).toEqual([
        '1 executionStarted',
        '1 eventAwaited',
        '1 eventReceived',
        '1 executionContinuedAsNew',
        '2 executionStarted',
        '2 eventAwaited',
        '2 eventReceived',
        '2 executionContinuedAsNew',
        '3 executionStarted',
        '3 eventAwaited',
        '3 eventReceived',
        '3 executionCompleted',
      ]);
      const rest: string[] = [];
      for await (const one of client.watchHistory('g', { after: seen[5]?.position })) {
        rest.push(one.position);
      }
      expect(rest).toEqual(seen.slice(6).map(({ position }) => position));
      await expect(client.watchHistory('nobody').next()).rejects.toMatchObject({
        code: 'INSTANCE_NOT_FOUND',
      });
    });

    it('watch() yields every id, then starts, custom statuses, ends and deletions', async () => {
      const client = await open(await newStore(), isRemote);
      const changes = client.watch(['p', 'other']);
      const first = [await changes.next(), await changes.next()].map(({ value }) => value);
      expect(first).toEqual(
        ['p', 'other'].map((id) => ({
          id,
          status: null,
          executionId: 0,
          customStatusVersion: 0,
          version: '',
        })),
      );
      await client.start(progress, undefined, { id: 'p' });
      await untilChange(changes, ({ id, status }) => id === 'p' && status === 'running');
      await client.raiseEvent('p', next, 1);
      await untilChange(changes, ({ customStatusVersion }) => customStatusVersion === 1);
      await client.raiseEvent('p', next, 2);
      await untilChange(changes, ({ status }) => status === 'completed');
      await client.deleteInstance('p');
      expect(await untilChange(changes, ({ status }) => status === null)).toMatchObject({
        id: 'p',
      });
      await changes.return();
    });
  });

  it('watch() and watchHistory() follow a worker in another process within 1.2 s', async () => {
    const store = await newStore();
    const client = await open(store, true, false);
    await startWorkerProcess(store);
    await client.start('progress', 3, { id: 'p' });
    const changes = client.watch(['p']);
    await untilChange(changes, ({ customStatusVersion }) => customStatusVersion === 1);
    const events = client.watchHistory('p', { payloads: 'none' });
    const delays: number[] = [];
    for (let step = 1; step <= 3; step += 1) {
      const raisedAt = performance.now();
      await client.raiseEvent('p', 'next', step);
      const change = untilChange(
        changes,
        ({ customStatusVersion }) => customStatusVersion === step + 1,
      );
      for (let kind = ''; kind !== 'eventReceived';) {
        const { value } = await events.next();
        kind = value?.event.kind ?? 'eventReceived';
      }
      await change;
      delays.push(performance.now() - raisedAt);
    }
    await client.raiseEvent('p', 'next', 4);
    await untilChange(changes, ({ status }) => status === 'completed');
    for await (const one of events) expect(one.executionId).toBe(1);
    expect(Math.max(...delays)).toBeLessThan(1_200);
    await changes.return();
  });
});

it('watches reject bad input, end with their signal, and reject when the client closes', async () => {
  const client = await open(await temporaryStorePath(), false);
  await expect(client.watch([]).next()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const tooMany = Array.from({ length: 201 }, (_, index) => `i-${index}`);
  await expect(client.watch(tooMany).next()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  await client.start(progress, undefined, { id: 'p' });
  const bad = client.watchHistory('p', { after: '7' });
  await expect(bad.next()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const later = client.watchHistory('p', { after: '2.0' });
  await expect(later.next()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const options = { kinds: 'nonsense' } as unknown as HistoryOptions;
  await expect(client.history('p', options)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  const controller = new AbortController();
  const aborted = client.watch(['x'], { signal: controller.signal });
  await aborted.next();
  const waiting = aborted.next();
  controller.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  const unended = client.watch(['x']);
  await unended.next();
  const pending = unended.next();
  await client.close();
  await expect(pending).rejects.toMatchObject({ code: 'CLOSED' });
});
