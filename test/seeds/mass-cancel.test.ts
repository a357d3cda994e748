/** Cases of the seed documents about the cancel of many activities at once, counted at the driver. */
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { activity, orchestration } from 'perdure';
import { createTestEnvironment } from 'perdure/testing';

type Method = (this: unknown, ...args: unknown[]) => unknown;

const db = new Database(':memory:');
const prototype = Object.getPrototypeOf(db.prepare('SELECT 1')) as Record<string, Method>;
db.close();

const methods = ['run', 'get', 'all', 'iterate'] as const;
let statements = 0;
let originals: readonly (Method | undefined)[] = [];

beforeEach(() => {
  originals = methods.map((name) => prototype[name]);
  for (const name of methods) {
    const method = prototype[name];
    prototype[name] = function counted(...args) {
      statements += 1;
      return method?.apply(this, args);
    };
  }
});
afterEach(() => {
  methods.forEach((name, index) => Object.assign(prototype, { [name]: originals[index] }));
});

interface Cancelled {
  readonly statements: number;
  readonly ms: number;
  /** Activities that were started after all. */
  readonly ran: number;
}

/** Schedules activities, and cancels all of them: those that a worker runs, and those that wait for it. */
async function cancelMany(count: number, running: number): Promise<Cancelled> {
  const allRun = Promise.withResolvers<void>();
  let ran = 0;
  const hold = activity('hold', async (ctx) => {
    ran += 1;
    if (ran === running) allRun.resolve();
    await ctx.canceled();
    ctx.throwIfCanceled();
  });
  const wide = orchestration('wide', async (ctx) => {
    await ctx.all(Array.from({ length: count }, () => ctx.call(hold)));
  });
  await using env = await createTestEnvironment({
    orchestrations: [wide],
    activities: [hold],
    activityConcurrency: running,
    alwaysReplay: false,
  });
  const handle = await env.client.start(wide);
  await allRun.promise;
  const [before, begun] = [statements, performance.now()];
  expect(await handle.cancel()).toMatchObject({ changed: true, status: 'canceling' });
  const cancelled = { statements: statements - before, ms: performance.now() - begun };
  expect(await env.client.wait(handle.id)).toMatchObject({ status: 'canceled' });
  return { ...cancelled, ran };
}

it('cancelling 2,000 activities, most of them queued, takes the statements of cancelling 40', async () => {
  const few = await cancelMany(40, 20);
  const many = await cancelMany(2_000, 20);
  expect(many.statements).toBe(few.statements);
  expect(many.ran).toBe(20);
  expect(many.ms).toBeLessThan(2_000);
});

it('cancelling 2,000 activities, all of them running, takes the statements of cancelling 40', async () => {
  const few = await cancelMany(40, 40);
  const many = await cancelMany(2_000, 2_000);
  expect(many.statements).toBe(few.statements);
  expect(many.ms).toBeLessThan(2_000);
});
