/** Seed cases about the cancel of many activities, with statements counted at the driver; docs/seed-tests.md maps them. */
import { setImmediate } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { activity, orchestration, Perdure, type Provider } from 'perdure';
import { openSqlite } from 'perdure/sqlite';
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

/** Resolves after 50 event-loop turns without a statement. */
async function noMoreStatements(): Promise<void> {
  let seen = statements;
  for (let quiet = 0; quiet < 50; quiet++) {
    await setImmediate();
    if (statements !== seen) quiet = 0;
    seen = statements;
  }
}

interface Canceled {
  readonly statements: number;
  readonly ms: number;
  /** The number of activities that started. */
  readonly ran: number;
}

/** Schedules `count` activities, of which `running` start, and cancels all of them. */
async function cancelMany(count: number, running: number): Promise<Canceled> {
  const allRun = Promise.withResolvers<void>();
  // Handlers end after the count, so that their acks are not counted.
  const mayEnd = Promise.withResolvers<void>();
  let ran = 0;
  const hold = activity('hold', async (ctx) => {
    ran += 1;
    if (ran === running) allRun.resolve();
    await ctx.canceled();
    await mayEnd.promise;
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
  // A concurrent fetch may still release items that exceed the free slots.
  await noMoreStatements();
  const [before, begun] = [statements, performance.now()];
  expect(await handle.cancel()).toMatchObject({ changed: true, status: 'canceling' });
  const canceled = { statements: statements - before, ms: performance.now() - begun };
  mayEnd.resolve();
  expect(await env.client.wait(handle.id)).toMatchObject({ status: 'canceled' });
  return { ...canceled, ran };
}

it('canceling 2,000 mostly queued activities takes as many statements as canceling 40', async () => {
  const few = await cancelMany(40, 20);
  const many = await cancelMany(2_000, 20);
  expect(many.statements).toBe(few.statements);
  expect(many.ran).toBe(20);
  expect(many.ms).toBeLessThan(2_000);
});

it('canceling 2,000 running activities takes as many statements as canceling 40', async () => {
  const few = await cancelMany(40, 40);
  const many = await cancelMany(2_000, 2_000);
  expect(many.statements).toBe(few.statements);
  expect(many.ms).toBeLessThan(2_000);
});

/** Records the number of statements of each ack of turns with cancels. */
function watchAcks(provider: Provider): { provider: Provider; acks: number[] } {
  const acks: number[] = [];
  const watched: Provider = {
    ...provider,
    async ackOrchestrationItems(items) {
      const before = statements;
      const results = await provider.ackOrchestrationItems(items);
      if (items.some(({ turn }) => turn.activityCancels.length > 0)) acks.push(statements - before);
      return results;
    },
  };
  return { provider: watched, acks };
}

/** Cancels `count` activities in one turn, as losers of a race. Returns the statements of its ack. */
async function loseRace(count: number): Promise<number> {
  const { provider, acks } = watchAcks(await openSqlite({ path: ':memory:' }));
  await using perdure = await Perdure.open(provider);
  const wide = orchestration('wide', async (ctx) => {
    const many = Array.from({ length: count }, () => ctx.call('unregistered'));
    await ctx.race([...many, ctx.waitFor('go')]);
    await ctx.waitFor('end');
  });
  await perdure.startWorker({ orchestrations: [wide] });
  const handle = await perdure.client.start(wide);
  await handle.raiseEvent('go', null);
  await expect.poll(() => acks.length).toBe(1);
  await handle.raiseEvent('end', null);
  await handle.result();
  const left = await provider.fetchWorkItems({ max: 1, lockMs: 1_000, waitMs: 0 });
  expect(left).toEqual([]);
  return acks[0] ?? 0;
}

it('a turn that cancels 2,000 activities takes no statement per activity', async () => {
  const few = await loseRace(40);
  const many = await loseRace(2_000);
  expect(few).toBeGreaterThan(0);
  // Events and messages are inserted in batches of some hundreds.
  expect(many).toBeLessThan(few + 20);
});
