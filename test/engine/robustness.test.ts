import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { ProviderError } from '../../src/model/failures/errors.ts';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { describeEngine } from './describe-engine.ts';

describeEngine('robustness', (open) => {
  const step = activity('step', async (_ctx, n: number) => n);

  it('a client call inside an orchestration fails it, and the worker continues', async () => {
    const inner = orchestration('inner', async (ctx) => ctx.call(step, 1));
    const engine = await open();
    const outer = orchestration('outer', async () => {
      await engine.client.start(inner, undefined);
    });
    await engine.startWorker({ orchestrations: [inner, outer], activities: [step] });
    const handle = await engine.client.start(outer, undefined);
    await expect(handle.result()).rejects.toMatchObject({
      failure: { code: 'FORBIDDEN_IN_ORCHESTRATION' },
    });
    expect(await (await engine.client.start(inner, undefined)).result()).toBe(1);
  });

  it('start() that rejects for a taken id does not affect the existing instance', async () => {
    const healthy = orchestration('healthy', async (ctx) => ctx.waitFor('go'));
    const strays = orchestration('strays', async (ctx) => {
      void ctx.waitFor('never');
      await readFile(new URL(import.meta.url));
      await ctx.sleep(1);
    });
    const { client } = await open({ orchestrations: [healthy, strays] });
    const handle = await client.start(healthy, undefined, { id: 'x' });
    await expect(client.start(strays, undefined, { id: 'x' })).rejects.toMatchObject({
      code: 'INSTANCE_ALREADY_EXISTS',
    });
    await readFile(new URL(import.meta.url));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await handle.raiseEvent('go', 'fine');
    expect(await handle.result()).toBe('fine');
  });

  it('a blocked build with a stray await cannot fail the instance after a rollback', async () => {
    const good = orchestration('job', async (ctx) => {
      await ctx.call(step, 1);
      return await ctx.waitFor('go');
    });
    const bad = orchestration('job', async (ctx) => {
      void ctx.sleep(1_000);
      await readFile(new URL(import.meta.url));
      await ctx.sleep(1);
    });
    const engine = await open();
    const first = await engine.startWorker({ orchestrations: [good], activities: [step] });
    const handle = await engine.client.start(good, undefined);
    await expect
      .poll(async () => (await engine.client.history(handle.id)).items.at(-1)?.event.kind)
      .toBe('eventAwaited');
    await first.stop();
    const second = await engine.startWorker({ orchestrations: [bad], activities: [step] });
    await handle.raiseEvent('go', 'good');
    await expect.poll(async () => (await handle.status()).blocked).toBeTruthy();
    await new Promise((resolve) => setTimeout(resolve, 20));
    await second.stop();
    await engine.startWorker({ orchestrations: [good], activities: [step] });
    expect(await handle.result()).toBe('good');
  });

  it.each(['null', '{"retry":{}}', 'not json'])(
    'undecodable options of a work item (%s) fail only that activity',
    async (damage) => {
      const run = orchestration('run', async (ctx, n: number) =>
        ctx.call(step, n).catch((error: Error) => (error.cause as { code: string }).code),
      );
      const engine = await open({ orchestrations: [run] });
      const handles = [await engine.client.start(run, 1), await engine.client.start(run, 2)];
      await expect
        .poll(() => engine.tamper('UPDATE worker_queue SET heartbeat = heartbeat'))
        .toBe(2);
      await engine.tamper(`UPDATE worker_queue SET options = '${damage}' WHERE item_key = 1`);
      await engine.startWorker({ activities: [step] });
      expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([
        'UNDECODABLE',
        2,
      ]);
    },
  );

  it('a handlerLeaked hook that throws occupies no slot', async () => {
    let release: () => void;
    const never = new Promise<void>((resolve) => (release = resolve));
    const deaf = activity('deaf', async () => never);
    const run = orchestration('run', async (ctx) =>
      ctx.call(deaf, undefined, { attemptTimeout: 5 }).catch(() => 'gave up'),
    );
    const { client } = await open({
      orchestrations: [run],
      activities: [deaf],
      activityConcurrency: 1,
      cancelGrace: 5,
      hooks: {
        handlerLeaked: () => {
          throw new Error('a bad hook');
        },
      },
    });
    expect(await (await client.start(run, undefined)).result()).toBe('gave up');
    expect(await (await client.start(run, undefined)).result()).toBe('gave up');
    release!();
  });

  it('a retryable ProviderError thrown by an activity is retried', async () => {
    const asks = activity('asks', async (ctx) => {
      if (ctx.attempt === 1) {
        throw new ProviderError({ operation: 'x', message: 'away', retryable: true });
      }
      return ctx.attempt;
    });
    const run = orchestration('run', async (ctx) =>
      ctx.call(asks, undefined, { retry: { maxAttempts: 2, initialDelay: 1 } }),
    );
    const { client } = await open({ orchestrations: [run], activities: [asks] });
    expect(await (await client.start(run, undefined)).result()).toBe(2);
  });

  it('a worker without free slots leaves further work to others', async () => {
    let finish: () => void;
    const finished = new Promise<void>((resolve) => (finish = resolve));
    const started: number[] = [];
    const hold = activity('hold', async (_ctx, n: number) => {
      started.push(n);
      await finished;
      return n;
    });
    const run = orchestration('run', async (ctx, n: number) => ctx.call(hold, n));
    const busy = await open({ orchestrations: [run], activities: [hold], activityConcurrency: 1 });
    const idle = await busy.reopen();
    await idle.startWorker({ activities: [hold], activityConcurrency: 1 });
    const handles = [await busy.client.start(run, 1), await busy.client.start(run, 2)];
    await expect.poll(() => started.length).toBe(2);
    finish!();
    expect(await Promise.all(handles.map((handle) => handle.result()))).toEqual([1, 2]);
  });

  it('work claimed by start() is released if the worker stops at that moment', async () => {
    let runs = 0;
    const count = activity('count', async () => {
      runs += 1;
      return runs;
    });
    const run = orchestration('run', async (ctx) => ctx.call(count));
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [run], activities: [count] });
    const starting = engine.client.start(run, undefined, { id: 'edge' });
    await worker.stop();
    await starting;
    await engine.startWorker({ orchestrations: [run], activities: [count] });
    expect(await engine.client.handle('edge').result({ timeout: '10s' })).toBe(1);
  });

  it('a row without its definition affects no other instance', async () => {
    const waits = orchestration('waits', async (ctx) => ctx.waitFor('go'));
    const engine = await open();
    for (const id of ['bad', 'good']) await engine.client.start(waits, undefined, { id });
    await engine.tamper(`UPDATE instances SET definition_key = 999 WHERE instance_id = 'bad'`);
    await engine.startWorker({ orchestrations: [waits] });
    await engine.client.raiseEvent('good', 'go', 'fine');
    expect(await engine.client.handle('good').result()).toBe('fine');
    expect((await engine.client.list()).items.length).toBe(2);
  });

  it('deterministicGlobals: false allows setTimeout() after another worker forbade it', async () => {
    const looks = orchestration('looks', async () => typeof setTimeout(() => undefined, 0));
    const engine = await open();
    const other = await engine.startWorker({ orchestrations: [looks] });
    await expect((await engine.client.start(looks, undefined)).result()).rejects.toMatchObject({
      failure: { code: 'FORBIDDEN_IN_ORCHESTRATION' },
    });
    await other.stop();
    await engine.startWorker({ orchestrations: [looks], deterministicGlobals: false });
    expect(await (await engine.client.start(looks, undefined)).result()).toBe('object');
  });

  it('a stopped worker leaves no timer', async () => {
    const run = orchestration('run', async (ctx) => ctx.call(step, 3));
    const before = timers();
    const engine = await open();
    const worker = await engine.startWorker({ orchestrations: [run], activities: [step] });
    expect(await (await engine.client.start(run, undefined)).result()).toBe(3);
    await worker.stop();
    await engine.perdure.close();
    expect(timers()).toBeLessThanOrEqual(before);
  });
});

function timers(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
}
