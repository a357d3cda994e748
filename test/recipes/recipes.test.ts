import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NestFactory } from '@nestjs/core';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import { orchestration, Perdure, task } from 'perdure';
import { createOrdersRoute, invoke, perdureModule } from './recipes.ts';

const order = orchestration('order', async (_ctx, item: string) => `sent ${item}`);
const square = task('square', (_ctx, n: number) => Promise.resolve(n * n));
const definitions = { orchestrations: [order], tasks: [square] };
let store = '';

beforeEach(() => {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-recipes-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  store = join(folder, 'store.db');
});

it('NestJS: the module provides a client, runs a worker, and closes the store on shutdown', async () => {
  const app = await NestFactory.createApplicationContext(perdureModule(store, definitions), {
    logger: false,
  });
  const perdure = app.get(Perdure);
  expect(await (await perdure.client.start(order, 'tea')).result()).toBe('sent tea');
  await app.close();
  await expect(perdure.client.start(order, 'tea')).rejects.toMatchObject({ code: 'CLOSED' });
});

it('serverless: each invocation works on what is due, and then ends', async () => {
  await using perdure = await Perdure.open(store);
  const runs = await perdure.client.runTasks([
    { task: square, input: 3 },
    { task: square, input: 4 },
  ]);
  expect(await invoke(store, definitions)).toBe('nothing left to do');
  expect(await Promise.all(runs.map((run) => run.result()))).toEqual([9, 16]);
  expect(await perdure.client.workers()).toEqual([]);
});

it('Next.js: the route starts an order and reads it', async () => {
  await using perdure = await Perdure.open(store);
  await perdure.startWorker(definitions);
  const { GET, POST } = createOrdersRoute(perdure);
  const url = 'http://localhost/api/orders';
  const body = JSON.stringify({ id: '7', item: 'tea' });
  expect((await POST(new Request(url, { method: 'POST', body }))).status).toBe(202);
  // A repeated request is the same order.
  expect((await POST(new Request(url, { method: 'POST', body }))).status).toBe(202);
  await perdure.client.wait('order-7');
  const read = await GET(new Request(`${url}?id=7`));
  expect(await read.json()).toEqual({ id: '7', status: 'completed', output: 'sent tea' });
  expect((await GET(new Request(`${url}?id=8`))).status).toBe(404);
});
