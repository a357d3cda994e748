import { expect, it } from 'vitest';
import { activity, isolatedActivity } from '../../../src/orchestration/activity.ts';
import { orchestration } from '../../../src/orchestration/orchestration.ts';
import { describeEngine } from '../describe-engine.ts';
import { signalled } from '../signalled.ts';

const module = new URL('../workers/isolated-handlers.ts', import.meta.url);

describeEngine('cancellation edge cases', (open) => {
  it('a handler canceled while its input is validated never starts', async () => {
    const looking = signalled<void>();
    const release = signalled<void>();
    let started = false;
    const schema = {
      '~standard': {
        version: 1 as const,
        vendor: 'test',
        validate: async (value: unknown) => {
          looking.resolve();
          await release.promise;
          return { value: value as number };
        },
      },
    };
    const work = activity(
      'work',
      async (_ctx, _n: number) => {
        started = true;
      },
      { input: schema },
    );
    const run = orchestration('run', async (ctx) => ctx.call(work, 1));
    const { client } = await open({ orchestrations: [run], activities: [work], cancelGrace: 20 });
    const handle = await client.start(run, undefined);
    await looking.promise;
    await handle.cancel();
    await expect(handle.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    release.resolve();
    await new Promise((resolve) => setTimeout(resolve, 10));
    expect(started).toBe(false);
  });

  it('a worker without free slots still ends the canceled work of a dead worker', async () => {
    const finish = signalled<void>();
    const busy = signalled<void>();
    const hold = activity('hold', async () => {
      busy.resolve();
      await finish.promise;
    });
    const lost = activity('lost', async () => undefined);
    const holds = orchestration('holds', async (ctx) => ctx.call(hold));
    const loses = orchestration('loses', async (ctx) => ctx.call(lost));
    const engine = await open({
      orchestrations: [holds, loses],
      activities: [hold],
      activityConcurrency: 1,
    });
    const holding = await engine.client.start(holds, undefined);
    await busy.promise;
    const handle = await engine.client.start(loses, undefined);
    // A worker claimed the item and crashed.
    const until = Date.now() + 1_500;
    const claim = `UPDATE worker_queue SET lock_token = 'dead', locked_until = ${until}, next_at = ${until},
      claims = 1 WHERE lock_token IS NULL`;
    await expect.poll(() => engine.tamper(claim)).toBe(1);
    await handle.cancel();
    expect(await engine.client.wait(handle.id, { timeout: '8s' })).toMatchObject({
      status: 'canceled',
    });
    finish.resolve();
    await holding.result();
  });

  it('an isolated handler canceled before pointOfNoReturn() ends as canceled', async () => {
    const pays = isolatedActivity('pays', { module, exportName: 'pay' });
    const run = orchestration('run', async (ctx) =>
      ctx.call(pays, undefined, { cancellation: 'wait' }),
    );
    const { client } = await open({ orchestrations: [run], activities: [pays] });
    const handle = await client.start(run, undefined);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.cancel();
    expect(await client.wait(handle.id)).toMatchObject({ status: 'canceled' });
  });

  it('terminate({ tree: true }) reaches the children of an ended child', async () => {
    const leaf = orchestration('leaf', async (ctx) => {
      try {
        await ctx.waitFor('never');
      } finally {
        await ctx.shield(() => ctx.sleep('1h'));
      }
    });
    const middle = orchestration('middle', async (ctx) => {
      void ctx.child(leaf, undefined, { id: 'leaf' });
      await ctx.waitFor('go');
    });
    const root = orchestration('root', async (ctx) => {
      await ctx.child(middle, undefined, { id: 'middle' });
      await ctx.waitFor('never');
    });
    const { client } = await open({ orchestrations: [root, middle, leaf] });
    const handle = await client.start(root, undefined);
    await expect.poll(async () => (await client.get('leaf'))?.status).toBe('running');
    await client.raiseEvent('middle', 'go', null);
    await expect.poll(async () => (await client.get('leaf'))?.status).toBe('canceling');
    await handle.terminate({ tree: true });
    expect(await client.get('leaf')).toMatchObject({ status: 'terminated' });
  });

  it('a shield opened inside a timed-out shield ends with it', async () => {
    const run = orchestration('run', async (ctx) =>
      ctx
        .shield(
          async () => {
            try {
              await ctx.sleep('1h');
            } finally {
              await ctx.shield(() => ctx.sleep('1h'));
            }
          },
          { timeout: 20 },
        )
        .catch((error: { trigger: string }) => error.trigger),
    );
    const { client } = await open({ orchestrations: [run] });
    expect(await (await client.start(run, undefined)).result({ timeout: '10s' })).toBe('timeout');
  });

  it('a cancel with a leaked handler completes although the logger throws', async () => {
    const started = signalled<void>();
    const finish = signalled<void>();
    const deaf = activity('deaf', async () => {
      started.resolve();
      await finish.promise;
    });
    const run = orchestration('run', async (ctx) => ctx.call(deaf));
    const fail = (): never => {
      throw new Error('a bad logger');
    };
    const { client } = await open({
      orchestrations: [run],
      activities: [deaf],
      cancelGrace: 20,
      logger: { debug: fail, info: fail, warn: fail, error: fail },
    });
    const handle = await client.start(run, undefined);
    await started.promise;
    await handle.cancel();
    expect(await client.wait(handle.id)).toMatchObject({ status: 'canceled', leaked: 1 });
    finish.resolve();
  });
});
