import { describe, expect, it, onTestFinished } from 'vitest';
import { activity, orchestration, Perdure, silentLogger, task, type Logger } from 'perdure';
import { engineStores } from '../engine/engine-store.ts';

const importFile = task('importFile', (_ctx, tenant: string) => tenant, {
  concurrency: { global: 4, perKey: 1 },
  rate: { limit: 600, per: '1m', burst: 5 },
});

/** A task whose handler waits until the gate opens. */
function gated(name: string, limits: { global?: number; perKey?: number }) {
  const gate = Promise.withResolvers<void>();
  const definition = task(name, (_ctx, input: string) => gate.promise.then(() => input), {
    concurrency: limits,
  });
  return { definition, open: () => gate.resolve() };
}

describe.each(['SQLite', 'PostgreSQL'] as const)('client.limits on %s', (kind) => {
  const create = engineStores(kind);

  async function open(logger: Logger = silentLogger): Promise<Perdure> {
    const files = await create();
    const provider = await files.open();
    const perdure = await Perdure.open(provider, { logger });
    onTestFinished(async () => {
      await perdure.close();
      await files.remove();
    });
    return perdure;
  }

  it('lists what workers declare; a definition without shared limits is not declared', async () => {
    const perdure = await open();
    const { limits } = perdure.client;
    await perdure.startWorker({ tasks: [task('plain', () => 1, { concurrency: 3 })] });
    expect(await limits.list()).toEqual({ items: [] });
    await perdure.startWorker({ tasks: [importFile], buildId: 'b1' });
    const declared = {
      global: 4,
      perKey: 1,
      rate: { limit: 600, perMs: 60_000, burst: 5, perKey: false },
    };
    const info = { kind: 'task', name: 'importFile', declaredBy: 'b1', running: 0, waiting: 0 };
    expect(await limits.list()).toEqual({ items: [{ ...info, declared, effective: declared }] });
    expect(await limits.get('plain')).toBeUndefined();
  });

  it('a build with `concurrency: {}` removes the limits of an older one; a build without it does not', async () => {
    const lines: string[] = [];
    const warn = (_: object, message: string) => void lines.push(message);
    const perdure = await open({ ...silentLogger, warn });
    const { limits } = perdure.client;
    const sync = (concurrency?: object) => task('sync', () => 1, { concurrency });
    await perdure.startWorker({ tasks: [sync({ global: 2 })], buildId: 'limited' });
    await expect.poll(async () => (await perdure.client.workers()).length).toBe(1);
    await perdure.startWorker({ tasks: [sync()], buildId: 'silent' });
    expect((await limits.get('sync'))?.effective).toEqual({ global: 2 });
    expect(lines).toEqual([]);
    await perdure.startWorker({ tasks: [sync({})], buildId: 'unlimited' });
    const removed = { declaredBy: 'unlimited', declared: {}, effective: {} };
    expect(await limits.get('sync')).toMatchObject(removed);
    expect(lines).toEqual([expect.stringContaining('those of unlimited, the newest, hold')]);
    await perdure.startWorker({ tasks: [sync({ global: 2 })], buildId: 'limited' });
    expect(await limits.get('sync')).toMatchObject(removed);
  });

  it('set() overrides single figures, null removes one, and reset() returns to the code', async () => {
    const perdure = await open();
    const { client } = perdure;
    await perdure.startWorker({ tasks: [importFile], buildId: 'b1' });
    const by = { actor: 'ada', reason: 'slow' };
    expect(
      await client.limits.set(importFile, { concurrency: { global: 10 }, rate: null }, by),
    ).toMatchObject({ effective: { global: 10, perKey: 1 }, override: { global: 10, rate: null } });
    const changed = await client.limits.set('importFile', { concurrency: { perKey: null } }, by);
    expect(changed.effective).toEqual({ global: 10 });
    const reset = await client.limits.reset({ kind: 'task', name: 'importFile' }, by);
    expect(reset.effective).toEqual(reset.declared);
    expect(reset).not.toHaveProperty('override');
    const { items } = await client.listAudit();
    expect(items.map(({ action, actor, reason }) => [action, actor, reason])).toEqual([
      ['limitsReset', 'ada', 'slow'],
      ['limitsSet', 'ada', 'slow'],
      ['limitsSet', 'ada', 'slow'],
    ]);
  });

  it('a name that two kinds have, or that has no limits yet, needs the kind', async () => {
    const { client } = await open();
    const change = { concurrency: { global: 1 } };
    await expect(client.limits.set('pay', change)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('pass { kind, name }'),
    });
    await client.limits.set({ kind: 'task', name: 'pay' }, change);
    expect(await client.limits.get('pay')).toMatchObject({ kind: 'task' });
    await client.limits.set({ kind: 'activity', name: 'pay' }, change);
    await expect(client.limits.get('pay')).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining('activity and task'),
    });
  });

  it.each([
    ['zero', { concurrency: { global: 0 } }],
    ['a negative number', { concurrency: { perKey: -1 } }],
    ['a fraction', { concurrency: { global: 1.5 } }],
    ['NaN', { concurrency: { global: Number.NaN } }],
    ['a huge number', { concurrency: { global: 1e9 } }],
    ['nothing', {}],
    ['nothing of concurrency', { concurrency: {} }],
    ['an unknown figure', { concurrency: { perWorker: 2 } }],
    ['a rate without a period', { rate: { limit: 1 } }],
    ['a negative burst', { rate: { limit: 1, per: '1s', burst: -1 } }],
    ['a period of 0', { rate: { limit: 1, per: 0 } }],
  ])('set() rejects %s with INVALID_OPTION and changes nothing', async (_, change) => {
    const { client } = await open();
    const target = { kind: 'task', name: 'pay' } as const;
    await expect(client.limits.set(target, change as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    expect(await client.limits.list()).toEqual({ items: [] });
  });

  it('list() and keys() come in pages', async () => {
    const { client } = await open();
    for (const name of ['a', 'b', 'c']) {
      await client.limits.set({ kind: 'task', name }, { concurrency: { global: 1 } });
    }
    const first = await client.limits.list({ limit: 2 });
    expect(first.items.map(({ name }) => name)).toEqual(['a', 'b']);
    const cursor = first.nextCursor;
    const second = await client.limits.list({ limit: 2, cursor });
    expect(second.items.map(({ name }) => name)).toEqual(['c']);
    expect(second).not.toHaveProperty('nextCursor');
    await client.runTasks(
      ['x', 'y', 'y', 'z'].map((key) => ({ task: 'a', options: { key, weight: 2 } })),
    );
    const keys = await client.limits.keys('a', { order: 'key', limit: 2 });
    expect(keys).toMatchObject({
      items: [
        { key: 'x', weight: 2, waiting: 1 },
        { key: 'y', waiting: 2 },
      ],
      nextAfter: 'y',
    });
    expect(await client.limits.keys('a', { after: 'y' })).toMatchObject({ items: [{ key: 'z' }] });
    expect((await client.limits.keys('a')).items[0]).toMatchObject({ key: 'y' });
    await expect(client.limits.keys('a', { order: 'waiting', after: 'x' })).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
  });

  it('why() says which place a run waits for, and a freed place starts it', async () => {
    const perdure = await open();
    const { client } = perdure;
    const { definition, open: release } = gated('sync', { perKey: 1 });
    await perdure.startWorker({ tasks: [definition] });
    const options = { key: 'acme' };
    const first = await client.runTask(definition, '1', { id: 'first', ...options });
    await expect.poll(async () => (await first.status()).status).toBe('running');
    const second = await client.runTask(definition, '2', { id: 'second', ...options });
    const third = await client.runTask(definition, '3', { id: 'third', ...options });
    const why = await client.why('third');
    expect(why.text).toMatch(
      /^Waiting for a place: task `sync` allows 1 at a time for key `acme`, it is in use\. Attempt 1 has been due for .*, with 1 ahead of it\.$/,
    );
    expect(why.short).toBe('Waits for a place of `sync` for key `acme`: 1 of 1 in use');
    expect(why.waits).toMatchObject([
      {
        kind: 'task',
        key: 'acme',
        unclaimed: 'limited',
        limit: { by: 'perKey', max: 1, ahead: 1 },
      },
    ]);
    expect((await client.explain(['third']))[0]?.text).toBe(why.short);
    release();
    expect(await Promise.all([second.result(), third.result()])).toEqual(['2', '3']);
  });

  it('runs that wait for a place or a rate occupy no slot of their worker', async () => {
    const perdure = await open();
    const { client } = perdure;
    const { definition: held, open: release } = gated('held', { global: 1 });
    const rated = task('rated', () => 1, { rate: { limit: 1, per: '1h' } });
    const other = task('other', (_ctx, n: number) => n);
    await client.runTasks(Array.from({ length: 20 }, () => ({ task: rated })));
    const runs = await client.runTasks(
      Array.from({ length: 20 }, (_, n) => ({ task: held, input: `${n}` })),
    );
    await perdure.startWorker({ tasks: [held, rated, other], activityConcurrency: 2 });
    await expect.poll(async () => (await client.limits.get(rated))?.waiting).toBe(19);
    for (let n = 0; n < 5; n += 1) {
      const run = await client.runTask(other, n);
      expect(await run.result()).toBe(n);
    }
    expect(await client.limits.get(held)).toMatchObject({ running: 1, waiting: 19 });
    release();
    await Promise.all(runs.map((run) => run.result()));
  });

  it('an activity of an instance waits for its rate, and why() says until when', async () => {
    const perdure = await open();
    const { client } = perdure;
    const ping = activity('ping', (_ctx, n: number) => n, { rate: { limit: 1, per: '1h' } });
    const twice = orchestration('twice', async (ctx) => {
      await Promise.all([ctx.call(ping, 1, { key: 'a' }), ctx.call(ping, 2, { key: 'b' })]);
    });
    await perdure.startWorker({ orchestrations: [twice], activities: [ping] });
    await client.start(twice, undefined, { id: 'twice' });
    await expect
      .poll(async () => (await client.why('twice')).text)
      .toMatch(
        /^Waiting for its rate: activity `ping` starts 1 per hour, the next one in 60 min\./,
      );
    expect(await client.limits.get(ping)).toMatchObject({ kind: 'activity', waiting: 1 });
    await client.limits.set(ping, { rate: null });
    await client.wait('twice');
  });

  it('runs of a task and its calls by orchestrations share its places', async () => {
    const perdure = await open();
    const { client } = perdure;
    let [running, most] = [0, 0];
    const sync = task(
      'sync',
      async (_ctx, n: number) => {
        running += 1;
        most = Math.max(most, running);
        await new Promise(setImmediate);
        running -= 1;
        return n;
      },
      { concurrency: { global: 2 } },
    );
    const calls = orchestration('calls', (ctx) =>
      Promise.all([1, 2, 3, 4, 5].map((n) => ctx.runTask(sync, n, { key: `key ${n % 2}` }))),
    );
    await perdure.startWorker({ orchestrations: [calls], tasks: [sync] });
    const called = await client.start(calls);
    const runs = await client.runTasks(
      [6, 7, 8, 9].map((n) => ({ task: sync, input: n, options: { key: `key ${n % 2}` } })),
    );
    expect(await Promise.all(runs.map((run) => run.result()))).toEqual([6, 7, 8, 9]);
    expect(await called.result()).toEqual([1, 2, 3, 4, 5]);
    expect(most).toBe(2);
    const { items } = await client.limits.list();
    expect(items).toMatchObject([{ kind: 'task', name: 'sync', running: 0, waiting: 0 }]);
    const change = { concurrency: { global: 3 } };
    expect(await client.limits.set({ kind: 'activity', name: 'task:sync' }, change)).toMatchObject({
      kind: 'task',
      name: 'sync',
      effective: { global: 3 },
    });
  });

  it('a worker warns of another live build with other limits, and says which hold', async () => {
    const lines: { readonly fields: object; readonly message: string }[] = [];
    const warn = (fields: object, message: string) => void lines.push({ fields, message });
    const perdure = await open({ ...silentLogger, warn });
    const limited = (global: number) => task('sync', () => 1, { concurrency: { global } });
    await perdure.startWorker({ tasks: [limited(2)], buildId: 'old' });
    expect(lines).toEqual([]);
    await expect.poll(async () => (await perdure.client.workers()).length).toBe(1);
    await perdure.startWorker({ tasks: [limited(5)], buildId: 'new' });
    const builds = { old: { global: 2 }, new: { global: 5 } };
    expect(lines.map(({ fields }) => fields)).toContainEqual({
      kind: 'task',
      name: 'sync',
      builds,
      holds: 'new',
    });
    lines.length = 0;
    await perdure.startWorker({ tasks: [limited(2)], buildId: 'old' });
    expect(lines.map(({ fields }) => fields)).toContainEqual(
      expect.objectContaining({ name: 'sync', builds, holds: 'new' }),
    );
    expect((await perdure.client.limits.get('sync'))?.effective).toEqual({ global: 5 });
  });
});
