import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { activity, orchestration, Perdure, task } from '../../src/index.ts';
import { systemClock } from '../../src/model/clock.ts';
import { StoreClock } from '../../src/providers/postgres/driver/store-clock.ts';
import { createMigratedDatabase } from './helpers/migrated-database.ts';
import { runSql, type TestDatabase } from './helpers/server.ts';
import { startTcpProxy } from './helpers/tcp-proxy.ts';

const hourMs = 3_600_000;

let database: TestDatabase;
const opened: Perdure[] = [];

beforeEach(async () => {
  database = await createMigratedDatabase();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await Promise.all(opened.splice(0).map((perdure) => perdure.close()));
  await database.drop();
});

async function open(url = database.url): Promise<Perdure> {
  const perdure = await Perdure.open(url);
  opened.push(perdure);
  return perdure;
}

/** Makes the process estimate the database clock as `ms` ahead of its own. */
function skewEstimate(ms: number): void {
  vi.spyOn(StoreClock.prototype, 'now').mockImplementation(() => systemClock.now() + ms);
}

const work = task('work', (_ctx, _input: string) => undefined);

/** The times of a run, relative to its creation. */
async function timesOf(perdure: Perdure, id: string) {
  const info = await perdure.client.get(id);
  const { createdAt, task: run } = info ?? {};
  const since = (time: number | undefined) =>
    time === undefined ? undefined : time - (createdAt ?? 0);
  return { runAt: since(run?.runAt), expiresAt: since(run?.expiresAt) };
}

describe.each([hourMs, -hourMs])('with a clock estimate that is off by %d ms', (ms) => {
  it('delays and expiries of tasks and jobs count from the database clock', async () => {
    const perdure = await open();
    skewEstimate(ms);
    const { client } = perdure;
    await client.runTask(work, 'a', { id: 'a', delay: '10m', expiresIn: '1m' });
    await client.runTask(work, 'b', { id: 'b', expiresIn: '2m' });
    client.submit(work, 'c', { id: 'c', delay: '3m', expiresIn: '4m' });
    await expect.poll(() => client.get('c'), { timeout: 20_000 }).toBeDefined();
    expect(await timesOf(perdure, 'a')).toEqual({ runAt: 600_000, expiresAt: 660_000 });
    expect(await timesOf(perdure, 'b')).toEqual({ runAt: undefined, expiresAt: 120_000 });
    expect(await timesOf(perdure, 'c')).toEqual({ runAt: 180_000, expiresAt: 420_000 });
  });

  it('first ticks and ticks after a pause are planned by the database clock', async () => {
    const { client } = await open();
    skewEstimate(ms);
    const every = { every: '10m', task: work, input: 'x' } as const;
    const { nextAt, createdAt } = await client.schedules.put('often', every);
    expect(nextAt).toBe(createdAt + 600_000);
    expect(await client.schedules.put('often', every)).toMatchObject({ nextAt });
    const cron = await client.schedules.put('hourly', { cron: '@hourly', task: work, input: 'x' });
    expect(cron.nextAt).toBe((Math.floor(cron.createdAt / hourMs) + 1) * hourMs);
    await client.schedules.pause('hourly');
    await client.schedules.resume('hourly');
    const resumed = await client.schedules.get('hourly');
    expect(resumed?.nextAt).toBe((Math.floor((resumed?.updatedAt ?? 0) / hourMs) + 1) * hourMs);
  });

  it('sleeps and wait timeouts last their full duration', async () => {
    const perdure = await open();
    skewEstimate(ms);
    const step = activity('step', () => undefined);
    const naps = orchestration('naps', async (ctx) => {
      await ctx.sleep(300);
      await ctx.call(step);
      await ctx.sleep(300);
      await ctx.waitFor('never', { timeout: 300 }).catch(() => undefined);
    });
    await perdure.startWorker({ orchestrations: [naps], activities: [step] });
    const before = performance.now();
    const handle = await perdure.client.start(naps);
    await handle.result({ timeout: '60s' });
    expect(performance.now() - before).toBeGreaterThanOrEqual(890);
  });

  it('a schedule with an interval of one second starts its task', async () => {
    const perdure = await open();
    skewEstimate(ms);
    await perdure.startWorker({ tasks: [work] });
    await perdure.client.schedules.put('soon', { every: '1s', task: work, input: 'x' });
    const isThere = async () => (await perdure.client.list({ idPrefix: 'soon@' })).items.length;
    await expect.poll(isThere, { timeout: 20_000 }).toBeGreaterThan(0);
  });
});

it('delays and expiries shorter than the round trip count from the creation', async () => {
  const proxy = await startTcpProxy(database.url);
  try {
    const perdure = await open(proxy.url);
    proxy.slow(150);
    await perdure.client.runTask(work, 'a', { id: 'a', delay: 40, expiresIn: 60 });
    await perdure.client.runTask(work, 'b', { id: 'b', expiresIn: 50 });
    expect(await timesOf(perdure, 'a')).toEqual({ runAt: 40, expiresAt: 100 });
    expect(await timesOf(perdure, 'b')).toEqual({ runAt: undefined, expiresAt: 50 });
  } finally {
    proxy.slow(0);
    await Promise.all(opened.splice(0).map((perdure) => perdure.close()));
    await proxy.close();
  }
});

/**
 * Simulates a failover to a server whose clock is `ms` ahead: new connections call another `statement_timestamp()`, and the
 * existing connections are terminated.
 */
async function failOver(ms: number): Promise<void> {
  const name = new URL(database.url).pathname.slice(1);
  await runSql(
    database.url,
    `CREATE SCHEMA IF NOT EXISTS other_server;
     CREATE OR REPLACE FUNCTION other_server.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
       AS $$ SELECT pg_catalog.statement_timestamp() + ${ms} * interval '1 millisecond' $$;
     ALTER DATABASE ${name} SET search_path = other_server, pg_catalog, public;
     SELECT pg_terminate_backend(pid) FROM pg_stat_activity
       WHERE datname = current_database() AND pid <> pg_backend_pid();`,
  );
}

it('workers continue after a failover to a server whose clock is one hour behind', async () => {
  const perdure = await open();
  const started = Promise.withResolvers<void>();
  const finish = Promise.withResolvers<void>();
  let runs = 0;
  const slow = activity('slow', async () => {
    runs += 1;
    started.resolve();
    await finish.promise;
    return 'done';
  });
  const story = orchestration('story', async (ctx) => {
    const result = await ctx.call(slow);
    await ctx.sleep(300);
    return result;
  });
  const ended = task('ended', () => 'fresh');
  const leases = { activityLease: '2s', orchestrationLease: '2s' } as const;
  const definitions = { orchestrations: [story], activities: [slow], tasks: [ended], ...leases };
  await perdure.startWorker(definitions);
  await perdure.startWorker(definitions);
  const handle = await perdure.client.start(story);
  await started.promise;
  await failOver(-hourMs);
  // Longer than a lease: the other worker would claim the activity if its lease were not renewed.
  await delay(3_000);
  const fresh = await perdure.client.runTask(ended, undefined, { delay: 200 });
  expect(await fresh.result({ timeout: '30s' })).toBe('fresh');
  finish.resolve();
  expect(await handle.result({ timeout: '30s' })).toBe('done');
  expect(runs).toBe(1);
});
