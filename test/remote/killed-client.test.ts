import { fork } from 'node:child_process';
import { once } from 'node:events';
import { expect, onTestFinished, test } from 'vitest';
import { task } from '../../src/index.ts';
import { describeRemote } from './describe-remote.ts';

const jobs = 50;
const leaseMs = 5_000;

describeRemote('a killed client process', (open) => {
  test('all 50 jobs of a killed client stop within 2 s of its lease', async () => {
    let started = 0;
    const stops: number[] = [];
    const allStarted = Promise.withResolvers<void>();
    const allStopped = Promise.withResolvers<void>();
    const endless = task('endless', async (ctx) => {
      started += 1;
      if (started === jobs) allStarted.resolve();
      await ctx.canceled();
      stops.push(performance.now());
      if (stops.length === jobs) allStopped.resolve();
      ctx.throwIfCanceled();
    });
    const { perdure, server, token } = await open({ tasks: [endless], activityConcurrency: jobs });
    const options = JSON.stringify({ url: server.url, token, jobs });
    const program = fork(new URL('./client-program.ts', import.meta.url), [options]);
    const exited = once(program, 'exit');
    onTestFinished(async () => {
      program.kill('SIGKILL');
      await exited;
    });
    await Promise.race([allStarted.promise, exited]);
    expect(started).toBe(jobs);

    const killedAt = performance.now();
    program.kill('SIGKILL');
    await allStopped.promise;
    const lastMs = Math.max(...stops) - killedAt;
    expect(lastMs).toBeLessThan(leaseMs + 2_000);
    await expect
      .poll(async () => (await perdure.client.sessions.get('doomed')).state, { timeout: 5_000 })
      .toBe('ended');
    expect(await perdure.client.sessions.get('doomed')).toMatchObject({
      end: 'expired',
      openJobs: 0,
    });
    const { items } = await perdure.client.list({ status: 'canceled' });
    expect(items).toHaveLength(jobs);
  });
});
