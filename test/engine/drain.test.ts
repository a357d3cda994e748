import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { activity, orchestration, Perdure, silentLogger, task } from 'perdure';
import { createDatabase } from '../postgres/helpers/server.ts';

const echo = activity('echo', (_ctx, n: number) => Promise.resolve(n));
const chain = orchestration('chain', async (ctx, n: number) => {
  let sum = 0;
  for (let step = 0; step < 3; step += 1) sum += await ctx.call(echo, n);
  return sum;
});
const sleeper = orchestration('sleeper', (ctx) => ctx.sleep('1h'));
const square = task('square', (_ctx, n: number) => Promise.resolve(n * n));
const slow = task('slow', (ctx) => delay(60_000, undefined, { signal: ctx.signal }));
const definitions = {
  orchestrations: [chain, sleeper],
  activities: [echo],
  tasks: [square, slow],
  shutdownGrace: 50,
};

describe.each(['SQLite', 'PostgreSQL'] as const)('worker.drain() on %s', (kind) => {
  async function newStore(): Promise<string> {
    if (kind === 'PostgreSQL') {
      const database = await createDatabase();
      onTestFinished(() => database.drop());
      return database.url;
    }
    const folder = mkdtempSync(join(tmpdir(), 'perdure-drain-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    return join(folder, 'store.db');
  }

  async function open(store: string): Promise<Perdure> {
    const perdure = await Perdure.open(store, { logger: silentLogger });
    onTestFinished(() => perdure.close());
    return perdure;
  }

  it('runs all due work of its definitions, leaves the rest, and stops', async () => {
    const store = await newStore();
    const { client } = await open(store);
    const chains = await Promise.all([1, 2, 3].map((n) => client.start(chain, n)));
    const squares = await client.runTasks([
      { task: square, input: 4 },
      { task: square, input: 5 },
    ]);
    const sleeping = await client.start(sleeper);
    const foreign = await client.runTask('of-another-worker');
    const later = await client.runTask(square, 6, { delay: '1h' });

    const worker = await (await open(store)).startWorker(definitions);
    expect(await worker.drain({ maxMs: 30_000 })).toEqual({ isDrained: true });
    await worker.stopped;
    const statuses = async (handles: readonly { status(): Promise<{ status: string }> }[]) =>
      Promise.all(handles.map(async (handle) => (await handle.status()).status));
    expect(await statuses([...chains, ...squares])).toEqual(Array(5).fill('completed'));
    expect(await statuses([sleeping, foreign, later])).toEqual(['running', 'pending', 'pending']);
    expect(await client.workers()).toEqual([]);
  });

  it('stops when the time is up, and hands running work back', async () => {
    const store = await newStore();
    const { client } = await open(store);
    const run = await client.runTask(slow);
    const worker = await (await open(store)).startWorker(definitions);
    expect(await worker.drain({ maxMs: 300 })).toEqual({ isDrained: false });
    const [queue] = await client.queues();
    expect(queue).toMatchObject({ name: 'slow', claimed: 0 });
    await run.cancel();
  });
});

it.each([0, -1, Number.NaN, Infinity, '5s'])('drain() rejects maxMs %s', async (maxMs) => {
  const perdure = await Perdure.open(':memory:', { logger: silentLogger });
  onTestFinished(() => perdure.close());
  const worker = await perdure.startWorker({ tasks: [square] });
  await expect(worker.drain({ maxMs: maxMs as number })).rejects.toMatchObject({
    code: 'INVALID_INPUT',
  });
});
