import { expect, test } from 'vitest';
import { CanceledError, orchestration, task } from '../../src/index.ts';
import { signalled } from '../engine/signalled.ts';
import { describeRemote } from './describe-remote.ts';

const double = task('double', (_ctx, number: number) => Promise.resolve(number * 2));
const count = task('count', async (ctx, to: number) => {
  for (let number = 1; number <= to; number += 1) await ctx.emit(number);
  return to;
});

/** A task that runs until it is canceled, with promises for its start and its abort reason. */
function endless() {
  const started = signalled<void>();
  const stopped = signalled<unknown>();
  const definition = task('endless', async (ctx) => {
    started.resolve();
    await ctx.canceled();
    stopped.resolve(ctx.signal.reason);
    ctx.throwIfCanceled();
  });
  return { definition, started, stopped };
}

describeRemote('a job over HTTP', (open) => {
  test('result() of a job over HTTP returns its output', async () => {
    const { client } = await open({ tasks: [double] });
    await using job = client.submit(double, 21);
    expect(await job.result()).toBe(42);
  });

  test('close() over HTTP cancels the job and aborts its handler', async () => {
    const { definition, started, stopped } = endless();
    const { client } = await open({ tasks: [definition] });
    const job = client.submit(definition);
    await started.promise;
    job.close();
    job.close();
    expect(await stopped.promise).toBeInstanceOf(CanceledError);
    await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CLOSED' });
    expect((await client.wait(job.id)).status).toBe('canceled');
  });

  test('close() during a broken connection still cancels the job', async () => {
    const { definition, started, stopped } = endless();
    const { client, proxy } = await open({ tasks: [definition] });
    const job = client.submit(definition);
    await started.promise;
    proxy.shut();
    job.close();
    await proxy.refusal();
    proxy.open();
    expect(await stopped.promise).toBeInstanceOf(CanceledError);
  });

  test('a stream over repeatedly broken connections yields every chunk in order', async () => {
    const { client, proxy } = await open({ tasks: [count] });
    const job = client.submit(count, 600);
    const seen: number[] = [];
    for await (const number of job.stream<number>()) {
      seen.push(number);
      if (number % 40 === 0) proxy.cut();
    }
    expect(seen).toEqual(Array.from({ length: 600 }, (_, index) => index + 1));
    expect(await job.result()).toBe(600);
  });

  test('leaving a stream over HTTP stops its handler', async () => {
    const ended = signalled<unknown>();
    const forever = task('forever', async (ctx) => {
      try {
        for (let number = 0; ; number += 1) await ctx.emit(number);
      } finally {
        ended.resolve(ctx.signal.reason);
      }
    });
    const { client } = await open({ tasks: [forever] });
    const job = client.submit(forever);
    for await (const number of job.stream<number>()) if (number === 3) break;
    expect(await ended.promise).toBeInstanceOf(CanceledError);
  });

  test('40 concurrent streams use fewer than 40 connections', async () => {
    const { client, proxy } = await open({ tasks: [count] });
    const jobs = Array.from({ length: 40 }, () => client.submit(count, 30));
    const sums = await Promise.all(
      jobs.map(async (job) => {
        let sum = 0;
        for await (const number of job.stream<number>()) sum += number;
        return sum;
      }),
    );
    expect(sums).toEqual(jobs.map(() => 465));
    expect(proxy.connections).toBeLessThan(40);
  });

  test('jobs over repeatedly cut connections run once and return one result each', async () => {
    let runs = 0;
    const counted = task('counted', (_ctx, number: number) => {
      runs += 1;
      return Promise.resolve(number);
    });
    const { client, proxy } = await open({ tasks: [counted] });
    const numbers = Array.from({ length: 200 }, (_, index) => index);
    let requests = 0;
    // Of every four requests one is cut before it arrives and one before its response.
    proxy.intercept(
      () => (['pass', 'cutAnswer', 'pass', 'cut'] as const)[requests++ % 4] ?? 'pass',
    );
    const results = await Promise.all(
      numbers.map((number) => client.submit(counted, number).result()),
    );
    expect(results).toEqual(numbers);
    expect(runs).toBe(numbers.length);
    expect(requests).toBeGreaterThan(8);
  });
});

describeRemote('a session over HTTP', (open) => {
  test('a graceful shutdown over HTTP drains the session and rejects new jobs', async () => {
    const slow = orchestration('slow', async (ctx) => {
      await ctx.waitFor('go');
      return 'done';
    });
    const { client } = await open({ orchestrations: [slow] });
    const session = await client.openSession({ label: 'drain' });
    const job = session.submit(slow);
    await expect.poll(async () => (await client.get(job.id))?.status).toBe('running');
    const ended = session.shutdown('graceful');
    await expect(session.submit(slow).result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    expect((await client.sessions.get('drain')).state).not.toBe('ended');
    await client.raiseEvent(job.id, 'go');
    expect(await job.result()).toBe('done');
    await ended;
    expect((await client.sessions.get('drain')).state).toBe('ended');
  });

  test('a session renews its lease after a connection loss shorter than the lease', async () => {
    const { client, proxy } = await open({ tasks: [double] });
    const session = await client.openSession({ idleTimeout: '5s' });
    const { expiresAt } = await session.info();
    proxy.shut();
    await proxy.refusal();
    proxy.open();
    await expect
      .poll(async () => (await session.info()).expiresAt, { timeout: 10_000 })
      .toBeGreaterThan(expiresAt);
    expect(await session.submit(double, 2).result()).toBe(4);
    await session.close();
  });

  test('another client can list and shut down a session by its label', async () => {
    const { definition, started } = endless();
    const { client, connect } = await open({ tasks: [definition] });
    const session = await client.openSession({ label: 'mine' });
    const job = session.submit(definition);
    await started.promise;
    const other = await connect();
    expect((await other.sessions.jobs('mine')).items.map(({ id }) => id)).toEqual([job.id]);
    await other.sessions.shutdown('mine', 'forceful');
    await expect(job.result()).rejects.toMatchObject({ code: 'OPERATION_CANCELED' });
    await expect(session.submit(definition).result()).rejects.toMatchObject({
      code: 'SESSION_CLOSED',
    });
  });

  test('client.close() over HTTP cancels its jobs', async () => {
    const { definition, started, stopped } = endless();
    const { client, perdure } = await open({ tasks: [definition] });
    const job = client.submit(definition);
    await started.promise;
    await client.close();
    expect(await stopped.promise).toBeInstanceOf(CanceledError);
    expect((await perdure.client.wait(job.id)).status).toBe('canceled');
  });
});
