import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import type { Limits } from '../../src/providers/contract/limits.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { WorkItem } from '../../src/providers/contract/work-queue.ts';
import {
  newInstance,
  newTurn,
  event,
  workItem,
} from '../../src/testing/conformance/sample-data.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { mostWithin } from '../crash/oracles/limit-ledger.ts';
import { querySql } from './helpers/server.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const fetch = { max: 10, lockMs: 60_000, waitMs: 0 };
const completed = { kind: 'completed', payload: '1' } as const;

async function declare(provider: Provider, limits: Limits, name = 'task'): Promise<void> {
  await provider.declareLimits({
    buildId: 'build',
    definitions: [{ kind: 'task', name, limits }],
  });
}

function laneTask(id: string, key: string, weight = 1) {
  return newTask(id, { lane: { key, weight } });
}

const idsOf = (items: readonly WorkItem[]) => items.map(({ instanceId }) => instanceId);

/** Compares the accounts with the items. Signals that no claim has read count as read. */
async function accounts(url: string) {
  const [row] = await querySql<{
    definitions: number;
    lanes: number;
    places: number;
    held: number;
  }>(
    url,
    `SELECT ((SELECT coalesce(sum(running), 0) FROM perdure.limits)
        - (SELECT coalesce(sum(freed), 0) FROM perdure.lane_signals))::int AS definitions,
      ((SELECT coalesce(sum(running), 0) FROM perdure.lanes)
        - (SELECT coalesce(sum(freed), 0) FROM perdure.lane_signals))::int AS lanes,
      (SELECT count(*) FROM perdure.places)::int AS places,
      (SELECT count(*) FROM perdure.worker_queue WHERE lane IS NOT NULL AND lock_token IS NOT NULL)::int AS held`,
  );
  return row;
}

it('runs that were queued before their task was limited are claimed within the limit', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open();
  await provider.createTasks(Array.from({ length: 20 }, (_, n) => newTask(`early ${n}`)));
  const [running] = await provider.fetchWorkItems({ ...fetch, max: 1 });
  await declare(provider, { global: 3 });
  await provider.createTasks([newTask('late')]);
  const claimed = await provider.fetchWorkItems(fetch);
  expect(idsOf(claimed)).toEqual(['early 1', 'early 2']);
  expect(await accounts(url)).toEqual({ definitions: 3, lanes: 3, places: 3, held: 3 });
  await provider.ackWorkItems([{ lockToken: running?.lockToken ?? '', outcome: completed }]);
  expect(idsOf(await provider.fetchWorkItems(fetch))).toEqual(['early 3']);
});

it('an activity that another process limited is not claimed at its insert', async () => {
  const { open } = await temporaryStore();
  const [one, other] = [await open(), await open()];
  const start = (id: string) =>
    newInstance(id, {
      firstTurn: newTurn({
        events: [event('turn')],
        workItems: [workItem(1, { claimMs: 60_000 })],
      }),
    });
  await one.createInstances([start('first')]);
  const [before] = await one.createInstances([start('second')]);
  expect(before).toMatchObject({ claimed: [{ operation: 1 }] });
  await other.declareLimits({
    buildId: 'build',
    definitions: [{ kind: 'activity', name: 'activity', limits: { global: 3 } }],
  });
  const [after] = await one.createInstances([start('third'), start('fourth')]);
  expect(after).toMatchObject({ kind: 'created', claimed: [] });
  // Two places are in use by activities that were claimed before.
  expect(idsOf(await one.fetchWorkItems(fetch))).toEqual(['third']);
});

it('an ack in one process wakes a fetch of another that waits for the place', async () => {
  const { open } = await temporaryStore();
  const [one, other] = [await open({ pollMs: 60_000 }), await open({ pollMs: 60_000 })];
  await declare(one, { perKey: 1 });
  await one.createTasks([laneTask('a', 'k'), laneTask('b', 'k')]);
  const [held] = await one.fetchWorkItems(fetch);
  expect(held?.instanceId).toBe('a');
  const waiting = other.fetchWorkItems({ ...fetch, waitMs: 20_000 });
  await new Promise((resolve) => setTimeout(resolve, 200));
  await one.ackWorkItems([{ lockToken: held?.lockToken ?? '', outcome: completed }]);
  expect(idsOf(await waiting)).toEqual(['b']);
});

it('unlimited and limited tasks do not starve each other', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  await declare(provider, { global: 1_000 }, 'limited');
  const many = (name: string) =>
    Array.from({ length: 60 }, (_, n) => newTask(`${name} ${n}`, { name, priority: 0 }));
  await provider.createTasks([...many('limited'), ...many('plain')]);
  const names: string[] = [];
  for (let round = 0; round < 4; round += 1) {
    const claimed = await provider.fetchWorkItems(fetch);
    expect(claimed).toHaveLength(10);
    names.push(...claimed.map(({ name }) => name));
  }
  expect(names.filter((name) => name === 'limited')).toHaveLength(20);
});

it.each([
  ['a declaration', { limit: 20, perMs: 1_000, burst: 10, perKey: false }],
  ['a changed rate', { limit: 40, perMs: 2_000, burst: 10, perKey: false }],
])('%s that waits for a lock gives no tokens of a rate back', async (_, changed) => {
  const rate = { limit: 20, perMs: 1_000, burst: 10, perKey: false };
  const { url, open } = await temporaryStore();
  const [worker, other] = [await open(), await open()];
  await declare(worker, { global: 1 }, 'first');
  await declare(worker, { rate });
  await worker.createTasks(Array.from({ length: 200 }, (_, n) => newTask(`run ${n}`)));
  const times: number[] = [];
  const claimFor = async (ms: number) => {
    for (const end = performance.now() + ms; performance.now() < end;) {
      const items = await worker.fetchWorkItems({ ...fetch, max: 100 });
      times.push(...items.map(({ nowMs }) => nowMs));
    }
  };
  // A declaration locks the rows of its definitions by key. It waits for the first one, and then locks that of the rate.
  const blocker = new pg.Client({ connectionString: url });
  await blocker.connect();
  await blocker.query(
    'BEGIN; SELECT FROM perdure.limits ORDER BY definition_key LIMIT 1 FOR UPDATE',
  );
  const declared = other.declareLimits({
    buildId: 'build',
    definitions: [
      { kind: 'task', name: 'first', limits: { global: 1 } },
      { kind: 'task', name: 'task', limits: { rate: changed } },
    ],
  });
  await claimFor(600);
  await blocker.query('COMMIT');
  await declared;
  await claimFor(500);
  await blocker.end();
  expect(times.length).toBeGreaterThan(20);
  expect(mostWithin(times, 1_000)).toBeLessThanOrEqual(rate.limit + rate.burst);
});

/** A connection with an open transaction. */
async function openBlocker(url: string) {
  const blocker = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
  await blocker.connect();
  onTestFinished(() => blocker.end());
  await blocker.query('BEGIN');
  const waiting = `SELECT FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()`;
  const untilLockWait = async (): Promise<void> => {
    await expect.poll(async () => (await blocker.query(waiting)).rows).toHaveLength(1);
  };
  return { blocker, untilLockWait };
}

it.each([
  ['global limit', { global: 10 }, 'global_limit'],
  ['limit per key', { perKey: 10 }, 'key_limit'],
])(
  'a %s of an orchestration that is lowered while a claim waits for its row holds for the claim',
  async (_, limits, column) => {
    const { url, open } = await temporaryStore();
    const provider = await open({ listen: false });
    await provider.declareLimits({
      buildId: 'build',
      definitions: [{ kind: 'orchestration', name: 'sample', limits }],
    });
    // The first claim learns that there are limits.
    expect(await provider.fetchOrchestrationItems(fetch)).toEqual([]);
    await provider.createInstances(Array.from({ length: 6 }, (_, n) => newInstance(`i ${n}`)));
    const { blocker, untilLockWait } = await openBlocker(url);
    await blocker.query(`UPDATE limits SET ${column} = 1`);
    const claiming = provider.fetchOrchestrationItems(fetch);
    await untilLockWait();
    await blocker.query('COMMIT');
    expect(await claiming).toHaveLength(1);
  },
);

it('enqueues, acks and stops do not wait for a transaction that holds the limits of their definition (L8)', async () => {
  const { url, open } = await temporaryStore();
  const [worker, other] = [await open({ listen: false }), await open({ listen: false })];
  await worker.declareLimits({
    buildId: 'build',
    definitions: [
      { kind: 'task', name: 'task', limits: { global: 5, perKey: 5 } },
      { kind: 'orchestration', name: 'sample', limits: { global: 5 } },
    ],
  });
  const runs = ['acked', 'retried', 'abandoned', 'canceled', 'terminated'];
  await worker.createTasks(runs.map((id) => laneTask(id, 'k')));
  await worker.createInstances([newInstance('instance')]);
  const tokens = new Map(
    (await worker.fetchWorkItems(fetch)).map((item) => [item.instanceId, item.lockToken]),
  );
  expect([...tokens.keys()]).toEqual(runs);
  const tokenOf = (id: string) => tokens.get(id) ?? '';
  const [first] = await worker.fetchOrchestrationItems(fetch);
  const { blocker } = await openBlocker(url);
  await blocker.query('SELECT FROM limits FOR UPDATE');
  const calls: Record<string, Promise<unknown>> = {
    'an enqueue with a key': worker.createTasks([laneTask('keyed', 'new')]),
    'an enqueue without a key': worker.createTasks([newTask('plain')]),
    'an enqueue of a process that knows no limits': other.createTasks([laneTask('other', 'k')]),
    'an ack': worker.ackWorkItems([{ lockToken: tokenOf('acked'), outcome: completed }]),
    'a retry': worker.retryWorkItems([
      { lockToken: tokenOf('retried'), delayMs: 5, failure: '{"name":"Error","message":"no"}' },
    ]),
    'an abandon': worker.abandonWorkItems([
      { lockToken: tokenOf('abandoned'), delayMs: 5, giveBackClaim: true },
    ]),
    'a cancel': worker.requestCancel([
      { instanceId: 'canceled', reason: 'x', actor: null, cleanupMs: 0 },
    ]),
    'a terminate': worker.terminate([
      { instanceId: 'terminated', reason: 'x', actor: null, tree: true },
    ]),
    'a start': other.createInstances([newInstance('waits')]),
    'the end of an instance': worker.ackOrchestrationItems([
      {
        lockToken: first?.lockToken ?? '',
        messageKeys: first?.messages.map(({ messageKey }) => messageKey) ?? [],
        turn: newTurn({
          events: [event('end')],
          outcome: { status: 'completed', payload: null },
        }),
      },
    ]),
  };
  const pending = new Set(Object.keys(calls));
  const settled = Object.entries(calls).map(([name, call]) =>
    call.then(() => pending.delete(name)),
  );
  await expect.poll(() => [...pending], { timeout: 20_000 }).toEqual([]);
  await blocker.query('ROLLBACK');
  await Promise.all(settled);
});

it('the first run with a key of a definition waits for a transaction that enqueues another first one', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open({ listen: false });
  await provider.createTasks([newTask('plain')]);
  const { blocker, untilLockWait } = await openBlocker(url);
  await blocker.query(`INSERT INTO limits (definition_key, declared, effective)
    SELECT definition_key, '{}', '{}' FROM definitions WHERE kind = 'task'`);
  const creating = provider.createTasks([laneTask('keyed', 'k')]);
  await untilLockWait();
  await blocker.query('COMMIT');
  expect(await creating).toMatchObject([{ kind: 'created' }]);
  await blocker.query('BEGIN; SELECT FROM limits FOR UPDATE');
  expect(await provider.createTasks([laneTask('later', 'l')])).toMatchObject([{ kind: 'created' }]);
});

it('the declarations of the last 1,000 builds of a definition are kept', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open({ listen: false });
  await declare(provider, { global: 1 });
  await querySql(
    url,
    `INSERT INTO perdure.declared_limits (definition_key, build_id, limits, first_at)
     SELECT (SELECT definition_key FROM perdure.limits), 'build ' || n, '{}', 0 FROM generate_series(1, 1200) AS n`,
  );
  const definitions = [{ kind: 'task', name: 'task', limits: { global: 1 } }] as const;
  await provider.declareLimits({ buildId: 'last', definitions });
  const rows = await querySql<{ build: string }>(
    url,
    'SELECT build_id AS build FROM perdure.declared_limits',
  );
  const builds = rows.map(({ build }) => build);
  expect(builds).toHaveLength(1_000);
  expect(builds).toContain('last');
  expect(builds).not.toContain('build');
});

it('claims delete the lanes of an orchestration whose instances have ended or were stopped', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open({ listen: false });
  await provider.declareLimits({
    buildId: 'build',
    definitions: [{ kind: 'orchestration', name: 'sample', limits: { global: 20, perKey: 1 } }],
  });
  const start = (id: string, key: string) => newInstance(id, { lane: { key, weight: 1 } });
  const keys = Array.from({ length: 30 }, (_, n) => `key ${n}`);
  await provider.createInstances(
    keys.flatMap((key) => [start(`${key} a`, key), start(`${key} b`, key)]),
  );
  const begun = await provider.fetchOrchestrationItems({ ...fetch, max: 100 });
  expect(begun).toHaveLength(20);
  const lanes = () => querySql<{ lane: string }>(url, 'SELECT lane FROM perdure.lanes');
  expect(await lanes()).toHaveLength(30);
  const stop = { reason: 'x', actor: null, tree: true };
  await provider.terminate(
    keys.flatMap((key) => ['a', 'b'].map((name) => ({ ...stop, instanceId: `${key} ${name}` }))),
  );
  expect(await provider.fetchOrchestrationItems(fetch)).toEqual([]);
  expect(await lanes()).toEqual([]);
  await provider.createInstances([start('later', 'key 1')]);
  expect(await provider.fetchOrchestrationItems(fetch)).toHaveLength(1);
  expect(await lanes()).toEqual([{ lane: 'key 1' }]);
});

/** Acks, abandons, retries, cancels, terminates, deletes and pauses at random. */
async function disturb(provider: Provider, ids: readonly string[], random: () => number) {
  const id = ids[Math.floor(random() * ids.length)] ?? '';
  const stop = { instanceId: id, reason: 'x', actor: null };
  const action = Math.floor(random() * 5);
  if (action === 0) await provider.requestCancel([{ ...stop, cleanupMs: 0 }]);
  if (action === 1) await provider.terminate([{ ...stop, tree: true }]);
  if (action === 2) await provider.pauseInstances([{ ...stop, tree: false }]);
  if (action === 3) await provider.resumeInstances([{ ...stop, tree: false }]);
  if (action === 4) await provider.renewWorkItemLocks([], 1);
}

async function work(provider: Provider, random: () => number): Promise<number> {
  const items = await provider.fetchWorkItems({ ...fetch, lockMs: random() < 0.2 ? 30 : 60_000 });
  const settle = items.map(async ({ lockToken, cancel }) => {
    const kind = random();
    if (cancel !== null || kind < 0.7)
      return provider.ackWorkItems([
        { lockToken, outcome: cancel === null ? completed : { kind: 'canceled', leaked: false } },
      ]);
    if (kind < 0.8)
      return provider.abandonWorkItems([{ lockToken, delayMs: 5, giveBackClaim: true }]);
    if (kind < 0.9)
      return provider.retryWorkItems([
        { lockToken, delayMs: 5, failure: '{"name":"Error","message":"no"}' },
      ]);
    return undefined;
  });
  await Promise.all(settle);
  return items.length;
}

it('four stores keep the limits of keys under acks, cancels, deletions, pauses and cut connections', async () => {
  const { url, open } = await temporaryStore();
  const stores = await Promise.all(Array.from({ length: 4 }, () => open()));
  const [first] = stores as [Provider];
  await declare(first, { global: 12, perKey: 2 });
  const ids = Array.from({ length: 240 }, (_, n) => `run ${n}`);
  await first.createTasks(ids.map((id, n) => laneTask(id, `key ${n % 12}`)));
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  const stop = new AbortController();
  const breaches: unknown[] = [];
  const watch = async () => {
    while (!stop.signal.aborted) {
      const { rows } = await admin.query<{ places: number; most: number }>(
        `SELECT coalesce(sum(n), 0)::int AS places, coalesce(max(n), 0)::int AS most FROM (
           SELECT count(*) AS n FROM perdure.worker_queue
           WHERE lane IS NOT NULL AND locked_until > extract(epoch FROM clock_timestamp()) * 1000
             AND cancel_requested_at IS NULL
           GROUP BY lane) AS held`,
      );
      for (const row of rows) if (row.places > 12 || row.most > 2) breaches.push(row);
    }
  };
  const cut = async () => {
    while (!stop.signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve, 150));
      await admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1`,
      );
    }
  };
  const random = Math.random;
  const errors: unknown[] = [];
  const run = async (store: Provider) => {
    while (!stop.signal.aborted) {
      try {
        await work(store, random);
        if (random() < 0.3) await disturb(store, ids, random);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  const running = [watch(), cut(), ...stores.map(run)];
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  stop.abort();
  await Promise.all(running);
  expect(breaches).toEqual([]);
  expect(errors.filter((error) => /deadlock/.test(String(error)))).toEqual([]);
  await first.resumeInstances(ids.map((instanceId) => ({ instanceId, tree: false })));
  await admin.query(
    'UPDATE perdure.worker_queue SET locked_until = 1 WHERE lock_token IS NOT NULL',
  );
  const deadline = performance.now() + 15_000;
  for (;;) {
    const items = await first.fetchWorkItems({ ...fetch, max: 100 });
    await first.ackWorkItems(
      items.map(({ lockToken, cancel }) => ({
        lockToken,
        outcome: cancel === null ? completed : { kind: 'canceled', leaked: false },
      })),
    );
    const { rows } = await admin.query('SELECT FROM perdure.worker_queue');
    if (rows.length === 0) break;
    expect(performance.now()).toBeLessThan(deadline);
  }
  await first.fetchWorkItems(fetch);
  expect(await accounts(url)).toEqual({ definitions: 0, lanes: 0, places: 0, held: 0 });
  await admin.end();
}, 60_000);
