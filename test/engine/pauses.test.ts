import { expect, it } from 'vitest';
import { activity } from '../../src/orchestration/activity.ts';
import { orchestration } from '../../src/orchestration/orchestration.ts';
import { task } from '../../src/tasks/task.ts';
import { describeEngine } from './describe-engine.ts';
import { signalled } from './signalled.ts';

/** An activity that waits for `release` in its first attempt, and counts its starts by argument. */
function heldStep() {
  const started = signalled<void>();
  const release = signalled<void>();
  const starts: number[] = [];
  const step = activity('step', async (_, place: number) => {
    starts.push(place);
    if (place !== 1) return;
    started.resolve();
    await release.promise;
  });
  return { step, starts, started: started.promise, release: release.resolve };
}

describeEngine('pause and resume', (open) => {
  it('pause() lets a running activity end and starts nothing after it until resume()', async () => {
    const { step, starts, started, release } = heldStep();
    const run = orchestration('run', async (ctx) => {
      await ctx.call(step, 1);
      await ctx.call(step, 2);
      return 'done';
    });
    const { client } = await open({ orchestrations: [run], activities: [step] });
    const handle = await client.start(run);
    await started;
    const paused = { found: true, status: 'running', paused: true } as const;
    expect(await handle.pause({ reason: 'deploy', actor: 'ops' })).toEqual({
      ...paused,
      changed: true,
    });
    expect(await handle.pause({ reason: 'other' })).toEqual({ ...paused, changed: false });
    release();
    await expect.poll(async () => (await client.running(handle.id)).length).toBe(0);
    expect(await handle.status()).toMatchObject({ paused: { reason: 'deploy', actor: 'ops' } });
    // A second instance shows that the worker is not blocked.
    await (await client.start(run)).result();
    expect(starts).toEqual([1, 1, 2]);
    expect(await handle.resume()).toMatchObject({ changed: true, paused: false });
    expect(await handle.result()).toBe('done');
    expect(starts).toEqual([1, 1, 2, 2]);
    const { items } = await client.listAudit();
    expect(items.map(({ action }) => action)).toEqual(['resume', 'pause']);
  });

  it('a timer and an event of a paused instance are applied after resume()', async () => {
    const run = orchestration('run', async (ctx) => {
      const event = ctx.waitFor('go');
      await ctx.sleep(20);
      return event;
    });
    const other = orchestration('other', async (ctx) => ctx.sleep(40));
    const { client } = await open({ orchestrations: [run, other] });
    const handle = await client.start(run);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.pause();
    await handle.raiseEvent('go', 7);
    await (await client.start(other)).result();
    expect((await handle.status()).status).toBe('running');
    await handle.resume();
    expect(await handle.result()).toBe(7);
  });

  it('cancel() of a paused instance runs its clean-up code and ends it', async () => {
    const undone = signalled<void>();
    const undo = activity('undo', async () => undone.resolve());
    const run = orchestration('run', async (ctx) => {
      try {
        await ctx.waitFor('never');
      } finally {
        await ctx.shield(() => ctx.call(undo));
      }
    });
    const { client } = await open({ orchestrations: [run], activities: [undo] });
    const handle = await client.start(run);
    await expect.poll(async () => (await handle.status()).status).toBe('running');
    await handle.pause();
    expect(await handle.cancel({ wait: true })).toMatchObject({ status: 'canceled' });
    await undone.promise;
    expect(await handle.status()).not.toHaveProperty('paused');
  });

  it('pause({ name }) stops an orchestration, its activities and a task for every worker', async () => {
    const starts: string[] = [];
    const step = activity('step', async () => void starts.push('step'));
    const run = orchestration('run', async (ctx) => ctx.call(step));
    const job = task('job', async () => void starts.push('job'));
    const probe = task('probe', async () => 1);
    const definitions = { orchestrations: [run], activities: [step], tasks: [job, probe] };
    const { client } = await open(definitions);
    expect(await client.pause({ name: 'run', kind: 'orchestration' }, { reason: 'bad' })).toEqual({
      found: false,
      changed: true,
      status: null,
      paused: true,
    });
    await client.pause({ name: 'job' });
    const instance = await client.start(run);
    const jobRun = await client.runTask(job);
    expect(await (await client.runTask(probe)).result()).toBe(1);
    expect([(await instance.status()).status, (await jobRun.status()).status]).toEqual([
      'pending',
      'pending',
    ]);
    expect(starts).toEqual([]);
    const listed = await client.pausedDefinitions();
    expect(listed.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      'activity job',
      'orchestration job',
      'orchestration run',
      'task job',
    ]);
    await client.pause({ name: 'step', kind: 'activity' });
    await client.resume({ name: 'run' });
    await expect.poll(async () => (await instance.status()).status).toBe('running');
    expect(await (await client.runTask(probe)).result()).toBe(1);
    expect(starts).toEqual([]);
    await client.resume({ name: 'step' });
    await instance.result();
    await client.resume({ name: 'job' });
    await jobRun.result();
    expect(starts).toEqual(['step', 'job']);
    expect(await client.pausedDefinitions()).toEqual([]);
  });

  it.each([{}, { concurrency: { global: 3 } }])(
    'pause({ name }) of a task with options %j stops its calls by orchestrations, and why() names it',
    async (options) => {
      const runs: string[] = [];
      const job = task('job', (_ctx, by: string) => void runs.push(by), options);
      const calls = orchestration('calls', (ctx) => ctx.runTask(job, 'call'));
      const probe = task('probe', () => 1);
      const { client } = await open({ orchestrations: [calls], tasks: [job, probe] });
      for (const target of [{ name: 'job' }, { name: 'job', kind: 'task' } as const]) {
        runs.length = 0;
        await client.pause(target, { actor: 'ada' });
        const instance = await client.start(calls);
        await expect.poll(async () => (await client.get(instance.id))?.pending?.length).toBe(1);
        // Claimed after the call, by the same worker.
        expect(await (await client.runTask(probe)).result()).toBe(1);
        expect(runs).toEqual([]);
        const { text, waits } = await client.why(instance.id);
        expect(text).toContain('Task `job` was paused by `ada`');
        expect(text).toContain('Waiting for task `job`: attempt 1 is paused.');
        expect(waits).toContainEqual(
          expect.objectContaining({ kind: 'activity', unclaimed: 'paused' }),
        );
        const listed = await client.pausedDefinitions();
        expect(listed.filter(({ name }) => name !== 'job')).toEqual([]);
        expect((await client.systemMetrics()).pausedDefinitions).toBe(listed.length);
        await client.resume(target);
        await instance.result();
        expect(runs).toEqual(['call']);
        expect(await client.pausedDefinitions()).toEqual([]);
      }
    },
  );

  it('pause() of an unknown or ended instance changes nothing; bad arguments reject', async () => {
    const run = orchestration('run', async () => 1);
    const { client } = await open({ orchestrations: [run] });
    const handle = await client.start(run);
    await handle.result();
    const none = { changed: false, paused: false };
    expect(await handle.pause()).toEqual({ found: true, status: 'completed', ...none });
    expect(await client.pause('unknown')).toEqual({ found: false, status: null, ...none });
    expect(await client.resume('unknown')).toEqual({ found: false, status: null, ...none });
    for (const bad of [
      () => client.pause(''),
      () => client.pause({ name: '' }),
      () => client.pause({ name: 'x', kind: 'flow' as never }),
      () => client.pause({ name: 'x', knid: 'task' } as never),
      () => client.pause({ name: 'x' }, { tree: true }),
      () => client.pause('x', { why: 1 } as never),
    ]) {
      await expect(bad()).rejects.toMatchObject({ code: /^INVALID_/ });
    }
  });

  it('nothing starts while an instance is paused, and nothing is lost over many pauses', async () => {
    const ledger: { readonly id: string; readonly place: number }[] = [];
    const isPaused = new Set<string>();
    const violations: string[] = [];
    const step = activity('step', async (ctx, place: number) => {
      const id = ctx.instanceId;
      if (isPaused.has(id)) violations.push(`${id} ${place}`);
      ledger.push({ id, place });
      return place;
    });
    const run = orchestration('run', async (ctx) => {
      for (let place = 0; place < 8; place++) {
        await ctx.call(step, place);
        await ctx.sleep(1);
      }
      return 'done';
    });
    const { client, startWorker } = await open({ orchestrations: [run], activities: [step] });
    await startWorker({ orchestrations: [run], activities: [step] });
    const ids = Array.from({ length: 6 }, (_, index) => `i${index}`);
    const handles = await Promise.all(ids.map((id) => client.start(run, undefined, { id })));
    for (let round = 0; round < 4; round++) {
      for (const { id } of handles) {
        if (!(await client.pause(id)).paused) continue;
        // A claim made before the pause may start its handler: wait until none is held.
        await expect
          .poll(async () => (await client.running(id)).filter((one) => one.state === 'running'))
          .toEqual([]);
        isPaused.add(id);
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
      for (const id of isPaused) {
        isPaused.delete(id);
        await client.resume(id);
      }
    }
    expect(await Promise.all(handles.map((one) => one.result()))).toEqual(ids.map(() => 'done'));
    expect(violations).toEqual([]);
    for (const id of ids) {
      const places = ledger.filter((one) => one.id === id).map(({ place }) => place);
      expect(places).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    }
  });
});
