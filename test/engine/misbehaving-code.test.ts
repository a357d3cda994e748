import { readFile } from 'node:fs/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

// The failures are logged, and Vitest restores the real nextTick while it forwards a console line.
beforeEach(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  vi.spyOn(console, 'error').mockImplementation(() => undefined);
});
afterEach(() => vi.restoreAllMocks());

describeEngine('orchestration code that breaks the rules', (open) => {
  const step = activity('step', async (_ctx, n: number) => n);

  it('awaiting a promise that is not durable fails the instance and names the last operation', async () => {
    const run = orchestration('run', async (ctx) => {
      await ctx.call(step, 1);
      return await readFile(new URL(import.meta.url), 'utf8');
    });
    const { client } = await open({ orchestrations: [run], activities: [step] });
    const handle = await client.start(run, undefined);
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    const info = await client.get(handle.id);
    expect(info?.failure).toMatchObject({ code: 'STRAY_AWAIT' });
    expect(info?.failure?.message).toMatch(/step/);
  });

  it('a context call after a stray await fails the instance despite pending operations', async () => {
    const run = orchestration('run', async (ctx) => {
      const forEver = ctx.waitFor('never');
      const stray = readFile(new URL(import.meta.url)).then(() => ctx.call(step, 1));
      await Promise.race([forEver, stray]);
    });
    const { client } = await open({ orchestrations: [run], activities: [step] });
    const handle = await client.start(run, undefined);
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect((await client.get(handle.id))?.failure).toMatchObject({ code: 'STRAY_AWAIT' });
  });

  it('an operation that is never awaited is logged with its place, or fails the instance', async () => {
    const warnings: unknown[] = [];
    const logger = {
      debug: () => undefined,
      info: () => undefined,
      warn: (fields: object) => void ('operations' in fields && warnings.push(fields)),
      error: () => undefined,
    };
    const careless = orchestration('careless', async (ctx) => {
      void ctx.call(step, 1);
      void ctx.run('mail', () => 'sent');
      await ctx.call(step, 2);
      return 'done';
    });
    const engine = await open();
    const definitions = { orchestrations: [careless], activities: [step] };
    const warning = await engine.startWorker({ ...definitions, logger });
    const { client } = engine;
    const handle = await client.start(careless, undefined, { id: 'warned' });
    expect(await handle.result()).toBe('done');
    const place = expect.stringContaining('misbehaving-code.test.ts:') as unknown;
    await expect.poll(() => warnings).toHaveLength(1);
    expect(warnings).toEqual([
      {
        instanceId: 'warned',
        orchestration: 'careless',
        operations: ['activity "step"', 'step "mail"'],
        places: [place, place],
      },
    ]);
    await warning.stop();
    await engine.startWorker({ ...definitions, logger, onUnawaited: 'fail' });
    const failed = await client.start(careless, undefined, { id: 'failed' });
    await expect(failed.result()).rejects.toMatchObject({
      failure: { code: 'NEVER_AWAITED', stack: place },
    });
  });

  it('an unhandled rejection fails its own instance and no other', async () => {
    const bad = orchestration('bad', async (ctx) => {
      void ctx.call(step, 1).then(() => {
        throw new Error('nobody looks');
      });
      await ctx.waitFor('never');
    });
    const good = orchestration('good', async (ctx) => ctx.waitFor('go'));
    const { client } = await open({ orchestrations: [bad, good], activities: [step] });
    const survivor = await client.start(good, undefined);
    const handle = await client.start(bad, undefined);
    await expect(handle.result()).rejects.toThrow(/nobody looks/);
    await survivor.raiseEvent('go', 'alive');
    expect(await survivor.result()).toBe('alive');
  });

  it.each([
    ['setTimeout', () => setTimeout(() => undefined, 1)],
    ['setInterval', () => setInterval(() => undefined, 1)],
    ['setImmediate', () => setImmediate(() => undefined)],
    ['fetch', () => fetch('http://127.0.0.1:9')],
    ['process.nextTick', () => process.nextTick(() => undefined)],
  ])('%s inside an orchestration fails it with FORBIDDEN_IN_ORCHESTRATION', async (_name, use) => {
    const run = orchestration('run', async () => {
      await Promise.resolve(use());
    });
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run, undefined);
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect((await client.get(handle.id))?.failure).toMatchObject({
      code: 'FORBIDDEN_IN_ORCHESTRATION',
    });
  });

  it('random numbers and ids are distinct and do not break a replay', async () => {
    const run = orchestration('run', async (ctx) => {
      const before = [Math.random(), crypto.randomUUID(), ctx.random(), ctx.uuid()];
      await ctx.call(step, 1);
      await ctx.call(step, 2);
      return { before, again: [Math.random(), performance.now()] };
    });
    const { client } = await open({ orchestrations: [run], activities: [step], warmCacheBytes: 0 });
    const { before } = await (await client.start(run, undefined)).result();
    expect(new Set(before).size).toBe(4);
  });
});

describeEngine('a code change under a running instance', (open) => {
  const one = activity('one', async () => 1);
  const two = activity('two', async () => 2);
  const before = orchestration('changed', async (ctx) => {
    await ctx.call(one);
    await ctx.waitFor('go');
    return 'old code';
  });
  const after = orchestration('changed', async (ctx) => {
    await ctx.call(two);
    await ctx.waitFor('go');
    return 'new code';
  });

  it('an instance whose code changed is blocked until a matching build starts', async () => {
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [before], activities: [one, two] });
    const handle = await engine.client.start(before, undefined);
    await expect
      .poll(async () => (await engine.client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    await worker.stop();
    const wrong = await engine.startWorker({ orchestrations: [after], activities: [one, two] });
    await handle.raiseEvent('go', null);
    await expect.poll(async () => (await engine.client.get(handle.id))?.blocked).toBeTruthy();
    const blocked = await engine.client.get(handle.id);
    expect(blocked).toMatchObject({ status: 'running' });
    expect(blocked?.blocked?.reason).toMatch(/one/);
    await wrong.stop();
    await engine.startWorker({ orchestrations: [before], activities: [one, two] });
    expect(await handle.result()).toBe('old code');
    expect((await engine.client.get(handle.id))?.blocked).toBeFalsy();
  });

  it('onNondeterminism "fail" fails an instance whose code changed', async () => {
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [before], activities: [one, two] });
    const handle = await engine.client.start(before, undefined);
    await expect
      .poll(async () => (await engine.client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    await worker.stop();
    await engine.startWorker({
      orchestrations: [after],
      activities: [one, two],
      onNondeterminism: 'fail',
    });
    await handle.raiseEvent('go', null);
    await expect(handle.result()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
    expect((await engine.client.get(handle.id))?.failure).toMatchObject({ code: 'NONDETERMINISM' });
  });
});
