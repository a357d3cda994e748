import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { event, orchestration, Perdure, silentLogger } from '../../src/index.ts';
import { launchChromium } from '../browser/launch-chromium.ts';
import { createDatabase } from '../postgres/helpers/server.ts';
import { startDashboard } from './dashboard-server.ts';
import { instancePath } from './drive-page.ts';

const steps = 20;
const next = event<number>('next');
const progress = orchestration('progress', async (ctx, count: number) => {
  ctx.setCustomStatus({ step: 0 });
  for (let step = 1; step <= count; step += 1) {
    await ctx.waitFor(next);
    ctx.setCustomStatus({ step });
  }
  await ctx.waitFor(next);
});

async function newFile(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'perdure-live-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, 'store.db');
}

async function newDatabase(): Promise<string> {
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

/** Starts a worker in another process. */
async function startOtherProcess(store: string, heartbeat?: string): Promise<ChildProcess> {
  const program = new URL('../server/helpers/other-worker-program.ts', import.meta.url);
  const worker = fork(program, [store, ...(heartbeat === undefined ? [] : [heartbeat])]);
  onTestFinished(async () => {
    if (worker.connected) worker.disconnect();
    if (worker.exitCode === null && worker.signalCode === null) await once(worker, 'exit');
  });
  await once(worker, 'message');
  return worker;
}

/** Opens a page in a browser. */
async function openPage(perdure: Perdure, path: string): Promise<Page> {
  const server = await startDashboard(perdure, { port: 0, tokens: [] });
  onTestFinished(() => server.close());
  const browser = await launchChromium();
  onTestFinished(() => browser.close());
  const page = await browser.newPage();
  await page.goto(server.url + path);
  return page;
}

/** Returns the times from a committed step until the page shows it, in milliseconds. */
async function measure(perdure: Perdure, page: Page, id: string): Promise<readonly number[]> {
  const times: number[] = [];
  const custom = page.getByLabel('custom status');
  await custom.filter({ hasText: /"step": 0/ }).waitFor();
  for (let step = 1; step <= steps; step += 1) {
    const sentAt = performance.now();
    await perdure.client.raiseEvent(id, next, step);
    await custom.filter({ hasText: new RegExp(`"step": ${step}\\b`) }).waitFor();
    times.push(performance.now() - sentAt);
  }
  return times.toSorted((a, b) => a - b);
}

describe.each([
  ['SQLite', newFile],
  ['PostgreSQL', newDatabase],
] as const)('a change of an instance reaches an open page (A6, %s)', (kind, newStore) => {
  test.each([
    ['the same process', 500],
    ['another process', 1_200],
  ] as const)('from a worker in %s', async (where, boundMs) => {
    const store = await newStore();
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    if (where === 'another process') await startOtherProcess(store);
    else await perdure.startWorker({ orchestrations: [progress], shutdownGrace: 200 });
    await perdure.client.start('progress', steps, { id: 'one' });
    const page = await openPage(perdure, instancePath('one', 'state'));
    const times = await measure(perdure, page, 'one');
    const p95 = times[Math.floor(times.length * 0.95) - 1] ?? Infinity;
    console.info(`A6 ${kind} ${where}: p50 ${times[steps / 2]} ms, p95 ${p95} ms`);
    // The machine that runs the tests is busy: the bound itself is checked by the benchmark.
    expect(p95).toBeLessThan(boundMs * 3);
  });
});

describe.each([
  ['SQLite', newFile],
  ['PostgreSQL', newDatabase],
] as const)('the page of workers (A16, %s)', (kind, newStore) => {
  test('shows a worker that was killed as gone within three heartbeats, and others as alive', async () => {
    const store = await newStore();
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    await perdure.startWorker({ name: 'busy', orchestrations: [progress], shutdownGrace: 200 });
    // Ten times faster than the default: the bound is 35 s with heartbeats of 10 s.
    const worker = await startOtherProcess(store, '1s');
    const page = await openPage(perdure, 'workers');
    const rows = page.getByRole('row');
    const killed = rows.filter({ hasText: `-${worker.pid}` });
    await killed.filter({ hasText: 'Alive' }).waitFor();
    const killedAt = performance.now();
    worker.kill('SIGKILL');
    await killed.filter({ hasText: /Stale|Died/ }).waitFor({ timeout: 15_000 });
    const ms = performance.now() - killedAt;
    console.info(`A16 ${kind}: ${Math.round(ms)} ms`);
    // Three heartbeats, the interval at which the page reads, and some for a busy machine.
    expect(ms).toBeLessThan(10_000);
    expect(await rows.filter({ hasText: 'busy' }).innerText()).toContain('Alive');
  });
});
