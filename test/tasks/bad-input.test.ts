import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { Perdure, task, type ErrorCode, type RunTaskOptions } from '../../src/index.ts';
import { engineStores, type EngineStore } from '../engine/engine-store.ts';

describe.each(['SQLite', 'PostgreSQL'] as const)('invalid input for tasks (%s)', (kind) => {
  const newStore = engineStores(kind);
  let store: EngineStore;
  let perdure: Perdure;
  beforeEach(async () => {
    store = await newStore();
    perdure = await Perdure.open(await store.open());
  });
  afterEach(async () => {
    await perdure.close();
    await store.remove();
  });

  const work = task('work', (_ctx, _n: number) => undefined);

  async function expectNothingCreated(): Promise<void> {
    expect((await perdure.client.list()).items).toEqual([]);
    expect((await perdure.client.schedules.list()).items).toEqual([]);
  }

  it.each<[string, object, ErrorCode]>([
    ['a negative priority', { priority: -1 }, 'INVALID_OPTION'],
    ['a priority above 100', { priority: 101 }, 'INVALID_OPTION'],
    ['a fractional priority', { priority: 0.5 }, 'INVALID_OPTION'],
    ['an expiry in the past', { expiresAt: Date.now() - 1 }, 'INVALID_INPUT'],
    ['an expiry of 0', { expiresIn: 0 }, 'INVALID_INPUT'],
    ['an expiry before the start', { delay: '2h', expiresAt: Date.now() + 1_000 }, 'INVALID_INPUT'],
    ['both delay and runAt', { delay: 1, runAt: new Date() }, 'INVALID_INPUT'],
    ['both expiresIn and expiresAt', { expiresIn: 1, expiresAt: new Date() }, 'INVALID_INPUT'],
    ['an invalid date', { runAt: new Date(Number.NaN) }, 'INVALID_INPUT'],
    ['a negative delay', { delay: -5 }, 'INVALID_DURATION'],
    ['a dedupe key of 10 KB', { dedupeKey: 'k'.repeat(10_240) }, 'INVALID_ID'],
    ['an empty dedupe key', { dedupeKey: '' }, 'INVALID_ID'],
    ['headers that are not an object', { headers: ['a'] }, 'INVALID_OPTION'],
    ['a header that is not a string', { headers: { a: 1 } }, 'INVALID_OPTION'],
    ['an id of 10 KB', { id: 'i'.repeat(10_240) }, 'INVALID_ID'],
    ['an unknown option', { prioriy: 1 }, 'INVALID_OPTION'],
  ])('runTask() rejects %s and creates nothing', async (_what, options, code) => {
    const { client } = perdure;
    await expect(client.runTask(work, 1, options as RunTaskOptions)).rejects.toMatchObject({
      code,
    });
    await expectNothingCreated();
  });

  it('runTask() rejects what is not a task and input that is not serializable', async () => {
    const { client } = perdure;
    for (const no of [undefined, null, 7, {}, { kind: 'activity', name: 'a' }]) {
      await expect(client.runTask(no as unknown as string)).rejects.toMatchObject({
        code: 'INVALID_INPUT',
      });
    }
    await expect(client.runTask('')).rejects.toMatchObject({ code: 'INVALID_NAME' });
    await expect(client.runTask('work', 1n)).rejects.toMatchObject({ code: 'NOT_SERIALIZABLE' });
    await expectNothingCreated();
  });

  it('runTask() rejects input that violates its schema and creates nothing', async () => {
    const checked = task('checked', () => undefined, { input: z.object({ n: z.number() }) });
    const { client } = perdure;
    const wrong = { n: 'one' } as unknown as { n: number };
    await expect(client.runTask(checked, wrong)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
    await expectNothingCreated();
  });

  it('one invalid request in runTasks() rejects the batch and creates nothing', async () => {
    const { client } = perdure;
    const good = { task: work, input: 1 };
    const batch = [good, { ...good, options: { priority: -1 } }, good];
    await expect(client.runTasks(batch)).rejects.toMatchObject({ code: 'INVALID_OPTION' });
    await expect(client.runTasks('no' as unknown as [])).rejects.toMatchObject({
      code: 'INVALID_INPUT',
    });
    await expectNothingCreated();
  });

  it('runTasks() with a taken id rejects, and the other runs are created', async () => {
    const { client } = perdure;
    await client.runTask(work, 1, { id: 'taken' });
    const batch = [
      { task: work, input: 2, options: { id: 'taken' } },
      { task: work, input: 3, options: { id: 'free' } },
    ];
    await expect(client.runTasks(batch)).rejects.toMatchObject({ code: 'INSTANCE_ALREADY_EXISTS' });
    expect(await client.get('free')).toMatchObject({ status: 'pending' });
  });

  it('startWorker() rejects what is not a task and two tasks of one name', async () => {
    await expect(perdure.startWorker({ tasks: [{} as typeof work] })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    });
    await expect(perdure.startWorker({ tasks: [work, work] })).rejects.toMatchObject({
      code: 'ALREADY_REGISTERED',
    });
  });

  it('cancel() of an invalid id rejects; of an unknown id it changes nothing', async () => {
    const { client } = perdure;
    const run = await client.runTask(work, 1, { id: 'one' });
    for (const id of ['', 'i'.repeat(10_240), 7 as unknown as string]) {
      await expect(client.cancel(id)).rejects.toMatchObject({ code: 'INVALID_ID' });
    }
    expect(await client.cancel('onE')).toEqual({ found: false, changed: false, status: null });
    expect(await run.status()).toMatchObject({ status: 'pending' });
  });

  it('runTask() and schedules.list() of a closed client reject with CLOSED', async () => {
    const { client } = perdure;
    await perdure.close();
    await expect(client.runTask(work, 1)).rejects.toMatchObject({ code: 'CLOSED' });
    await expect(client.schedules.list()).rejects.toMatchObject({ code: 'CLOSED' });
  });
});

it.each<[string, () => unknown]>([
  ['a missing handler', () => task('t', undefined as never)],
  ['an unknown option', () => task('t', () => 1, { retries: 3 } as object)],
  ['a negative priority', () => task('t', () => 1, { priority: -1 })],
  ['an expiry of 0', () => task('t', () => 1, { expiresIn: 0 })],
  ['a concurrency of 0', () => task('t', () => 1, { concurrency: 0 })],
  ['a condition that is not a function', () => task('t', () => 1, { condition: true as never })],
  ['onFail without a handler', () => task('t', () => 1, { onFail: {} as never })],
  ['onFail that is not an object', () => task('t', () => 1, { onFail: 1 as never })],
  [
    'a circuit breaker of 0 failures',
    () => task('t', () => 1, { circuitBreaker: { failures: 0 } }),
  ],
  ['an invalid schema', () => task('t', () => 1, { input: {} as never })],
  ['a retry policy of 0 attempts', () => task('t', () => 1, { retry: { maxAttempts: 0 } })],
])('task() with %s throws INVALID_OPTION', (_what, define) => {
  expect(define).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }));
});
