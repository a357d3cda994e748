import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  activity,
  event,
  orchestration,
  Perdure,
  silentLogger,
  task,
  type Middleware,
} from '../../src/index.ts';
import { serve } from '../../src/server.ts';
import { testOptions } from '../../src/testing.ts';
import { createEncodedStore, storeKinds } from '../encoding/encoded-store.ts';

const pauses = { timeout: 20_000 };

describe.each(storeKinds)('middleware on %s', (kind) => {
  async function open(...middleware: readonly Middleware[]): Promise<Perdure> {
    const perdure = await (await createEncodedStore(kind)).open();
    for (const one of middleware) perdure.use(one);
    return perdure;
  }

  /** Records when it is entered and left. */
  function recorder(log: string[], name: string): Middleware {
    const around = async (call: { readonly kind: string }, next: () => Promise<unknown>) => {
      log.push(`${name} > ${call.kind}`);
      try {
        return await next();
      } finally {
        log.push(`${name} < ${call.kind}`);
      }
    };
    return { client: around, activity: around, task: around };
  }

  it('runs in the order of use() around client, activity and task', async () => {
    const log: string[] = [];
    const perdure = await open(recorder(log, 'outer'), recorder(log, 'inner'));
    const act = activity('act', async () => log.push('act'));
    const work = task('work', async () => log.push('work'));
    const calls = orchestration('calls', async (ctx) => ctx.call(act));
    await perdure.startWorker({ orchestrations: [calls], activities: [act], tasks: [work] });
    const handle = await perdure.client.start(calls);
    await handle.result();
    const around = (kinds: string, inside: readonly string[]) => [
      `outer > ${kinds}`,
      `inner > ${kinds}`,
      ...inside,
      `inner < ${kinds}`,
      `outer < ${kinds}`,
    ];
    expect(log.filter((line) => !line.includes('start'))).toEqual(around('activity', ['act']));
    expect(log.filter((line) => line.includes('start'))).toEqual(around('start', []));
    log.length = 0;
    await (await perdure.client.runTask(work)).result();
    expect(log.filter((line) => !line.includes('start'))).toEqual(around('task', ['work']));
  });

  it('describes the call to the middleware', async () => {
    const seen: unknown[] = [];
    const perdure = await open({
      client: (call, next) => {
        seen.push(call);
        return next();
      },
      orchestration: (call, next) => {
        const { isReplaying, ...others } = call;
        if (!isReplaying) seen.push(others);
        return next();
      },
      activity: (call, next) => {
        const { signal, ...others } = call;
        seen.push({ ...others, isAborted: signal.aborted });
        return next();
      },
      task: (call, next) => {
        const { kind, name, instanceId, attempt, input, headers } = call;
        seen.push({ kind, name, instanceId, attempt, input, headers });
        return next();
      },
    });
    const act = activity('act', async (_ctx, n: number) => n + 1);
    const calls = orchestration('calls', async (ctx, n: number) => ctx.call(act, n));
    const work = task('work', async (_ctx, _input: string) => 'done');
    await perdure.startWorker({ orchestrations: [calls], activities: [act], tasks: [work] });
    const { client } = perdure;
    expect(await (await client.start(calls, 1, { id: 'c' })).result()).toBe(2);
    const headers = { tenant: 'seven' };
    await (await client.runTask(work, 'in', { id: 't', headers })).result();
    expect(seen).toEqual([
      { kind: 'start', name: 'calls', instanceId: 'c' },
      {
        kind: 'orchestration',
        name: 'calls',
        version: '1',
        instanceId: 'c',
        executionId: 1,
        input: 1,
        headers: {},
      },
      {
        kind: 'activity',
        name: 'act',
        instanceId: 'c',
        orchestration: 'calls',
        attempt: 1,
        input: 1,
        headers: {},
        isAborted: false,
      },
      { kind: 'start', name: 'work', instanceId: 't' },
      { kind: 'task', name: 'work', instanceId: 't', attempt: 1, input: 'in', headers },
    ]);
  });

  it('an error of activity middleware is retried like an error of the handler', async () => {
    let attempts = 0;
    const perdure = await open({
      activity: async (_call, next) => {
        attempts += 1;
        if (attempts === 1) throw new Error('no connection');
        return `${String(await next())} through middleware`;
      },
    });
    const act = activity('act', async () => 'result', {
      retry: { maxAttempts: 2, initialDelay: 1 },
    });
    const calls = orchestration('calls', async (ctx) => ctx.call(act));
    await perdure.startWorker({ orchestrations: [calls], activities: [act] });
    const handle = await perdure.client.start(calls);
    expect(await handle.result()).toBe('result through middleware');
    expect(attempts).toBe(2);
  });

  it('an error of client middleware rejects the call and sends nothing', async () => {
    const perdure = await open({
      client: (call, next) => {
        if (call.kind === 'start') throw new Error('not allowed');
        return next();
      },
    });
    await expect(perdure.client.start('any', 1, { id: 'x' })).rejects.toThrow('not allowed');
    expect(await perdure.client.get('x')).toBeUndefined();
  });

  it('client middleware runs around jobs, and next() resolves once the job is stored', async () => {
    const log: unknown[] = [];
    const perdure = await open({
      client: async ({ kind, name, instanceId }, next) => {
        log.push([kind, name, instanceId]);
        await next();
        log.push((await perdure.client.get('j'))?.name);
      },
    });
    const work = task('work', async (_ctx, n: number) => n + 1);
    await perdure.startWorker({ tasks: [work] });
    const job = perdure.client.submit(work, 1, { id: 'j' });
    expect(await job.result()).toBe(2);
    expect(log.slice(0, 1)).toEqual([['start', 'work', 'j']]);
    await expect.poll(() => log).toEqual([['start', 'work', 'j'], 'work']);
  });

  it('an error of client middleware rejects a job: unsent before next(), canceled after it', async () => {
    let isLate = false;
    const perdure = await open({
      client: async (_call, next) => {
        if (isLate) await next();
        throw new Error('not allowed');
      },
    });
    const endless = task('endless', (ctx) => ctx.canceled());
    await perdure.startWorker({ tasks: [endless] });
    const early = perdure.client.submit(endless, undefined, { id: 'early' });
    await expect(early.result()).rejects.toThrow('not allowed');
    expect(await perdure.client.get('early')).toBeUndefined();
    isLate = true;
    const late = perdure.client.submit(endless, undefined, { id: 'late' });
    await expect(late.result()).rejects.toThrow('not allowed');
    await expect(late.result()).rejects.toThrow('not allowed');
    await expect.poll(async () => (await perdure.client.get('late'))?.status).toBe('canceled');
  });

  it('client middleware that does not call next() rejects the job', async () => {
    const perdure = await open({ client: () => undefined });
    await using session = await perdure.client.openSession();
    const job = session.submit('work', 1, { kind: 'task', id: 'j' });
    await expect(job.result()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await session.shutdown('graceful');
    expect(await perdure.client.get('j')).toBeUndefined();
  });

  it('client middleware that does not call next() rejects every call, and sends nothing', async () => {
    let isSkipping = false;
    const perdure = await open({ client: (_call, next) => (isSkipping ? undefined : next()) });
    const { client } = perdure;
    await client.start('any', 1, { id: 'live' });
    await client.schedules.put('daily', { every: '1d', task: 'work' });
    isSkipping = true;
    const calls = [
      client.start('any', 1, { id: 'x' }),
      client.runTask('work', 1, { id: 'y' }),
      client.runTasks([{ task: 'work', input: 1, options: { id: 'z' } }]),
      client.raiseEvent('live', 'go'),
      client.update('live', 'add', 1),
      client.cancel('live'),
      client.schedules.put('hourly', { every: '1h', task: 'work' }),
      client.schedules.trigger('daily'),
      client.schedules.backfill('daily', { from: 0, to: 1 }),
    ];
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({
        code: 'INVALID_INPUT',
        message: expect.stringContaining('did not call next()') as unknown,
      });
    }
    expect((await client.list()).items.map(({ id }) => id)).toEqual(['live']);
    expect((await client.get('live'))?.status).toBe('pending');
    expect(await client.schedules.get('hourly')).toBeUndefined();
  });

  it('client middleware that returns undefined after next() keeps the result of the call', async () => {
    const perdure = await open({
      client: async (_call, next) => {
        await next();
      },
    });
    const { client } = perdure;
    expect((await client.start('any', 1, { id: 'x' })).id).toBe('x');
    expect((await client.runTask('work', 1, { id: 'y' })).id).toBe('y');
    expect(await client.cancel('x')).toMatchObject({ found: true });
  });

  it('the middleware of a server runs around jobs of remote clients', async () => {
    const names: unknown[] = [];
    const perdure = await open({
      client: (call, next) => {
        names.push(call.name);
        if (call.name === 'forbidden') throw new Error('not allowed');
        return next();
      },
    });
    const work = task('work', async (_ctx, n: number) => n + 1);
    await perdure.startWorker({ tasks: [work] });
    await using server = await serve(perdure, { port: 0 });
    await using remote = await Perdure.connect(server.url);
    expect(await remote.client.submit(work, 1).result()).toBe(2);
    const refused = remote.client.submit('forbidden', 1, { kind: 'task', id: 'f' });
    await expect(refused.result()).rejects.toMatchObject({ code: expect.any(String) as string });
    expect(await perdure.client.get('f')).toBeUndefined();
    expect(names).toEqual(['work', 'forbidden']);
  });

  it('orchestration middleware runs with every replay and leaves the history as it is', async () => {
    const go = event<number>('go');
    const runs: boolean[] = [];
    const double = activity('double', async (_ctx, n: number) => 2 * n);
    const waits = orchestration('waits', async (ctx) => {
      const first = await ctx.call(double, 4);
      return first + (await ctx.waitFor(go));
    });
    const definitions = { orchestrations: [waits], activities: [double] };
    const store = await createEncodedStore(kind);
    const plain = await store.open();
    await plain.startWorker(definitions);
    const without = await plain.client.start(waits, undefined, { id: 'without' });
    await expect.poll(async () => (await plain.client.why('without')).waits[0]?.kind).toBe('event');
    await plain.client.raiseEvent('without', go, 1);
    await without.result();
    await plain.close();

    const perdure = await store.open();
    perdure.use({
      orchestration: async (call, next) => {
        runs.push(call.isReplaying);
        return Number(await next()) + 100;
      },
    });
    // Without warm copies, every turn replays the history.
    const cold = { warmCacheBytes: 0, ...testOptions({ alwaysReplay: true }) };
    await perdure.startWorker({ ...definitions, ...cold });
    const handle = await perdure.client.start(waits, undefined, { id: 'with' });
    await expect.poll(async () => (await perdure.client.why('with')).waits[0]?.kind).toBe('event');
    await perdure.client.raiseEvent('with', go, 1);
    expect(await handle.result()).toBe(109);
    expect(runs.filter((isReplaying) => isReplaying).length).toBeGreaterThan(0);
    const kindsOf = async (id: string) =>
      (await perdure.client.history(id)).items.map(({ event: { kind: one } }) => one);
    expect(await kindsOf('with')).toEqual(await kindsOf('without'));
  });

  it('orchestration middleware that uses a timer is rejected like orchestration code', async () => {
    const perdure = await open({
      orchestration: async (_call, next) => {
        await new Promise((resolve) => setTimeout(resolve, 5));
        return next();
      },
    });
    const simple = orchestration('simple', async () => 'done');
    await perdure.startWorker({ orchestrations: [simple], onNondeterminism: 'fail' });
    const { client } = perdure;
    await client.start(simple, undefined, { id: 's' }).catch(() => undefined);
    await expect
      .poll(async () => {
        const info = await client.get('s');
        return info?.blocked?.code ?? info?.failure?.code;
      }, pauses)
      .toBe('FORBIDDEN_IN_ORCHESTRATION');
  });
});

describe('middleware', () => {
  it('carries an AsyncLocalStorage into activities and orchestrations', async () => {
    const tenant = new AsyncLocalStorage<string>();
    const perdure = await Perdure.open(':memory:', { logger: silentLogger });
    onTestFinished(() => perdure.close());
    const withTenant = (call: { readonly instanceId: string }, next: () => Promise<unknown>) =>
      tenant.run(call.instanceId.split('/')[0] ?? '', next);
    perdure.use({ activity: withTenant, orchestration: withTenant });
    const who = activity('who', async () => tenant.getStore());
    const asks = orchestration('asks', async (ctx) => {
      const first = await ctx.call(who);
      return [first, tenant.getStore()];
    });
    await perdure.startWorker({ orchestrations: [asks], activities: [who] });
    const ids = ['a/1', 'b/1', 'a/2'];
    const results = await Promise.all(
      ids.map(async (id) => (await perdure.client.start(asks, undefined, { id })).result()),
    );
    expect(results).toEqual([
      ['a', 'a'],
      ['b', 'b'],
      ['a', 'a'],
    ]);
  });

  it('next() called twice rejects', async () => {
    const perdure = await Perdure.open(':memory:', { logger: silentLogger });
    onTestFinished(() => perdure.close());
    let runs = 0;
    perdure.use({
      task: async (_call, next) => {
        await next();
        return next();
      },
    });
    const work = task('work', async () => (runs += 1));
    await perdure.startWorker({ tasks: [work] });
    const run = await perdure.client.runTask(work);
    await expect(run.result()).rejects.toMatchObject({ failure: { code: 'INVALID_INPUT' } });
    expect(runs).toBe(1);
  });

  it('use() rejects other values, and calls after startWorker()', async () => {
    const perdure = await Perdure.open(':memory:', { logger: silentLogger });
    onTestFinished(() => perdure.close());
    const bad: readonly unknown[] = [{ activities: () => 1 }, { activity: 1 }, 'x', null];
    for (const middleware of bad) {
      expect(() => perdure.use(middleware as never)).toThrow(
        expect.objectContaining({ code: 'INVALID_OPTION' }),
      );
    }
    await perdure.startWorker({});
    expect(() => perdure.use({})).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
  });
});
