import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Limits } from '../../src/providers/contract/limits.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import type { WorkItem } from '../../src/providers/contract/work-queue.ts';
import { event, newInstance, newTurn } from '../../src/testing/conformance/sample-data.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { querySql, runSql } from './helpers/server.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const fetch = { max: 10, lockMs: 60_000, waitMs: 0 };
const completed = { kind: 'completed', payload: '1' } as const;
const idsOf = (items: readonly WorkItem[]) => items.map(({ instanceId }) => instanceId);

const itemTriggers = ['lane_item_updated', 'lane_items_deleted', 'lane_items_inserted'];
const instanceTriggers = ['limited_instance_changed', 'limited_instance_deleted'];

async function triggers(url: string): Promise<readonly string[]> {
  const rows = await querySql<{ name: string }>(
    url,
    'SELECT tgname AS name FROM pg_trigger WHERE NOT tgisinternal ORDER BY tgname',
  );
  return rows.map(({ name }) => name);
}

function declare(
  provider: Provider,
  limits: Limits,
  { kind = 'task', name = 'task' }: { kind?: 'task' | 'orchestration'; name?: string } = {},
) {
  return provider.declareLimits({ buildId: 'build', definitions: [{ kind, name, limits }] });
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Resolves when a statement of another connection waits for a lock. */
async function untilLockWait(client: pg.Client, statement: string): Promise<void> {
  for (;;) {
    const { rowCount } = await client.query(
      `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()
         AND query LIKE '%' || $1 || '%'`,
      [statement],
    );
    if (rowCount !== 0) return;
  }
}

/** The places that are counted, after the signals that no claim has read yet, and the items that hold one. */
async function places(url: string) {
  const [row] = await querySql<{ counted: number; places: number; held: number }>(
    url,
    `SELECT ((SELECT coalesce(sum(running), 0) FROM perdure.limits)
        - (SELECT coalesce(sum(freed), 0) FROM perdure.lane_signals))::int AS counted,
      (SELECT count(*) FROM perdure.places)::int AS places,
      (SELECT count(*) FROM perdure.worker_queue WHERE lane IS NOT NULL AND lock_token IS NOT NULL)::int AS held`,
  );
  return row;
}

function laneTask(id: string, key: string, weight = 1) {
  return newTask(id, { lane: { key, weight } });
}

/** Begins a transaction of the application, in which no triggers are added. */
async function begin(url: string, provider: Provider) {
  const client = await connect(url);
  await client.query('BEGIN');
  const { createTasks } = provider.within?.(client) ?? provider;
  return { createTasks, commit: () => client.query('COMMIT') };
}

async function ackAll(provider: Provider, items: readonly WorkItem[]): Promise<void> {
  await provider.ackWorkItems(items.map(({ lockToken }) => ({ lockToken, outcome: completed })));
}

it('a store without limits has no triggers', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open();
  await provider.createTasks([newTask('a')]);
  await provider.createInstances([newInstance('b')]);
  await declare(provider, {});
  expect(idsOf(await provider.fetchWorkItems(fetch))).toEqual(['a']);
  expect(await triggers(url)).toEqual([]);
});

it('the first limit of a task adds the triggers of items only', async () => {
  const { url, open } = await temporaryStore();
  await declare(await open(), { global: 1 });
  expect(await triggers(url)).toEqual(itemTriggers);
});

it('the first limit of an orchestration adds the triggers of instances only', async () => {
  const { url, open } = await temporaryStore();
  await declare(await open(), { global: 1 }, { kind: 'orchestration', name: 'hello' });
  expect(await triggers(url)).toEqual(instanceTriggers);
});

it('a limit that an operator sets adds the triggers', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open();
  await provider.setLimits({ kind: 'task', name: 'task', override: { global: 1 } });
  expect(await triggers(url)).toEqual(itemTriggers);
});

it('stores that set the first limits concurrently add the triggers once', async () => {
  const { url, open } = await temporaryStore();
  const stores = await Promise.all(Array.from({ length: 4 }, () => open()));
  await Promise.all(stores.map((store, n) => declare(store, { global: n + 1 }, { name: `t${n}` })));
  expect(await triggers(url)).toEqual(itemTriggers);
  const listed = await stores[0]?.listLimits({ limit: 10 });
  expect(listed?.records).toHaveLength(4);
});

it('the first limit waits for an ack that is under way, and counts the items that are still claimed', async () => {
  const { url, open } = await temporaryStore();
  const [one, other] = [await open(), await open()];
  await one.createTasks(['a', 'b', 'c', 'd'].map((id) => newTask(id)));
  const held = await one.fetchWorkItems({ ...fetch, max: 2 });
  const client = await connect(url);
  // The ack has locked the table of items, and waits for this row.
  await client.query(`BEGIN; SELECT FROM perdure.instances WHERE instance_id = 'a' FOR UPDATE`);
  const acking = ackAll(one, held.slice(0, 1));
  const watcher = await connect(url);
  await untilLockWait(watcher, 'UPDATE');
  const declaring = declare(other, { global: 2 });
  await untilLockWait(watcher, 'add_lane_triggers');
  await client.query('COMMIT');
  await Promise.all([acking, declaring]);
  // One place is in use by the item that was claimed before.
  const next = await other.fetchWorkItems(fetch);
  expect(idsOf(next)).toEqual(['c']);
  await ackAll(one, [...held.slice(1), ...next]);
  await ackAll(one, await one.fetchWorkItems(fetch));
  expect(await places(url)).toEqual({ counted: 0, places: 0, held: 0 });
});

it('other transactions continue while a long one delays the first limit', async () => {
  const { url, open } = await temporaryStore();
  const [one, other] = [await open(), await open()];
  await one.createTasks([newTask('a'), newTask('b', { name: 'plain' })]);
  const client = await connect(url);
  await client.query(
    `BEGIN; UPDATE perdure.worker_queue SET heartbeat = NULL WHERE instance_key = (
       SELECT instance_key FROM perdure.instances WHERE instance_id = 'a')`,
  );
  const declaring = declare(other, { global: 1 });
  await untilLockWait(await connect(url), 'add_lane_triggers');
  // It is enqueued after the first attempt to lock the table has ended.
  await one.createTasks([newTask('c', { name: 'plain' })]);
  expect(await triggers(url)).toEqual([]);
  await client.query('COMMIT');
  await declaring;
  expect(await triggers(url)).toEqual(itemTriggers);
});

it('a run with a key adds the triggers of items', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open();
  await provider.createTasks([laneTask('a', 'k')]);
  expect(await triggers(url)).toEqual(itemTriggers);
});

it('a worker that starts later claims runs with keys by their weights', async () => {
  const { url, open } = await temporaryStore();
  const enqueuing = await open();
  const ids = (key: string) => Array.from({ length: 8 }, (_, n) => `${key}${n}`);
  const transaction = await begin(url, enqueuing);
  await transaction.createTasks(ids('a').map((id) => laneTask(id, 'a')));
  await transaction.createTasks(ids('b').map((id) => laneTask(id, 'b', 3)));
  await transaction.createTasks([
    newTask('late', { runAt: Date.now() + 3_600_000, lane: { key: 'c', weight: 2 } }),
  ]);
  await transaction.commit();
  expect(await triggers(url)).toEqual([]);
  await enqueuing.close();
  const worker = await open();
  const claimed = await worker.fetchWorkItems({ ...fetch, max: 8 });
  expect(claimed.filter(({ instanceId }) => instanceId.startsWith('b'))).toHaveLength(6);
  expect(await triggers(url)).toEqual(itemTriggers);
  expect(await places(url)).toEqual({ counted: 8, places: 8, held: 8 });
  await ackAll(worker, claimed);
  await ackAll(worker, await worker.fetchWorkItems({ ...fetch, max: 20 }));
  expect(await places(url)).toEqual({ counted: 0, places: 0, held: 0 });
});

it('a run with a key in an open transaction of the application is claimed after its commit', async () => {
  const { url, open } = await temporaryStore();
  const provider = await open();
  const waiting = provider.fetchWorkItems({ ...fetch, waitMs: 20_000 });
  const transaction = await begin(url, provider);
  await transaction.createTasks([newTask('plain'), laneTask('a', 'k')]);
  await transaction.commit();
  const first = idsOf(await waiting);
  const rest =
    first.length === 2 ? [] : idsOf(await provider.fetchWorkItems({ ...fetch, waitMs: 20_000 }));
  expect([...first, ...rest].toSorted()).toEqual(['a', 'plain']);
  expect(await triggers(url)).toEqual(itemTriggers);
});

it('the first limit, set while four stores claim and ack, is not exceeded', async () => {
  const { url, open } = await temporaryStore();
  const stores = await Promise.all(Array.from({ length: 4 }, () => open()));
  const [first] = stores as [Provider];
  await first.createTasks(Array.from({ length: 240 }, (_, n) => newTask(`run ${n}`)));
  let left = 240;
  const declared = Promise.withResolvers<void>();
  // The items that were claimed after the declaration, until their ack is sent.
  const held = new Set<string>();
  let isDeclared = false;
  let most = 0;
  const run = async (store: Provider) => {
    while (left > 0) {
      const isLimited = isDeclared;
      const items = await store.fetchWorkItems({ ...fetch, max: 5, waitMs: 100 });
      if (isLimited) for (const { lockToken } of items) held.add(lockToken);
      most = Math.max(most, held.size);
      // Other stores claim meanwhile.
      await store.listLimits({ limit: 1 });
      if (left < 200) declared.resolve();
      for (const { lockToken } of items) held.delete(lockToken);
      await ackAll(store, items);
      left -= items.length;
    }
  };
  const running = stores.map(run);
  await declared.promise;
  await declare(first, { global: 3 });
  isDeclared = true;
  await Promise.all(running);
  await first.fetchWorkItems(fetch);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(3);
  expect(await places(url)).toEqual({ counted: 0, places: 0, held: 0 });
});

describe('a claim and a start that commit after the first limit of an orchestration', () => {
  const sample = { kind: 'orchestration', name: 'sample' } as const;
  const orchestrations = { max: 10, lockMs: 60_000, waitMs: 0 };

  async function running(provider: Provider): Promise<number | undefined> {
    return (await provider.listLimits({ limit: 1, only: sample })).records[0]?.running;
  }

  /** Expects that limits are not stored while a claim or start is open, in more time than that takes. */
  async function expectToWait(setting: Promise<unknown>, provider: Provider, url: string) {
    let isSet = false;
    void setting.then(() => (isSet = true));
    const isOpened = 'SELECT FROM perdure.limits WHERE declared_by IS NULL AND override IS NULL';
    while ((await querySql(url, isOpened)).length === 0) expect(isSet).toBe(false);
    for (let count = 0; count < 50; count += 1) await running(provider);
    expect(isSet).toBe(false);
  }

  it('the claim counts before the limit holds, and no other instance begins', async () => {
    const { url, open } = await temporaryStore();
    const [one, other] = [await open(), await open()];
    await one.createInstances(['a', 'b', 'c'].map((id) => newInstance(id)));
    const client = await connect(url);
    // A claim of another process that has read the limits, and commits later.
    await client.query(`BEGIN;
      SELECT FROM perdure.instance_locks FOR UPDATE;
      UPDATE perdure.instance_locks SET lock_token = 'secret', claims = 1,
        locked_until = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 60000,
        next_at = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 60000
      WHERE instance_key = (SELECT instance_key FROM perdure.instances WHERE instance_id = 'a')`);
    const setting = other.setLimits({ ...sample, override: { global: 1 } });
    await expectToWait(setting, other, url);
    await client.query('COMMIT');
    await setting;
    expect(await running(one)).toBe(1);
    expect(await one.fetchOrchestrationItems(orchestrations)).toEqual([]);
    expect(await other.fetchOrchestrationItems(orchestrations)).toEqual([]);
  });

  it('the start with a first turn counts before the limit holds', async () => {
    const { url, open } = await temporaryStore();
    const [one, other] = [await open(), await open()];
    // Another limit has added the triggers, so that only the count waits for the start.
    await declare(one, { global: 1 }, { kind: 'orchestration', name: 'hello' });
    const client = await connect(url);
    await client.query('BEGIN');
    const within = one.within?.(client) ?? one;
    await within.createInstances([
      newInstance('a', { firstTurn: newTurn({ events: [event('begun')] }) }),
    ]);
    const setting = other.setLimits({ ...sample, override: { global: 1 } });
    await expectToWait(setting, other, url);
    await client.query('COMMIT');
    await setting;
    expect(await running(one)).toBe(1);
    await one.createInstances([newInstance('b')]);
    expect(await other.fetchOrchestrationItems(orchestrations)).toEqual([]);
  });

  it('four stores that claim and start meanwhile keep the limit after it is set', async () => {
    const { url, open } = await temporaryStore();
    const stores = await Promise.all(Array.from({ length: 4 }, () => open()));
    const [first] = stores as [Provider];
    const firstTurn = newTurn({ events: [event('begun')] });
    const over = new AbortController();
    let number = 0;
    const startAndClaim = async (store: Provider) => {
      while (!over.signal.aborted) {
        const id = `run ${number++}`;
        await store.createInstances([newInstance(id, number % 2 === 0 ? { firstTurn } : {})]);
        await store.fetchOrchestrationItems({ ...orchestrations, max: 1 });
      }
    };
    const busy = stores.map(startAndClaim);
    await first.fetchOrchestrationItems({ ...orchestrations, waitMs: 20_000 });
    await first.setLimits({ ...sample, override: { global: 1 } });
    const counted = await running(first);
    over.abort();
    await Promise.all(busy);
    expect(await running(first)).toBe(counted);
    const begun = await querySql(
      url,
      `SELECT FROM perdure.instances LEFT JOIN perdure.instance_locks USING (instance_key)
       WHERE status <> 'pending' OR lock_token IS NOT NULL`,
    );
    expect(begun).toHaveLength(counted ?? 0);
    expect(await first.fetchOrchestrationItems(orchestrations)).toEqual([]);
  });
});

it('a role that may only write rows can set the first limit', async () => {
  const { url, open } = await temporaryStore();
  const role = `app_${Math.random().toString(36).slice(2)}`;
  await runSql(
    url,
    `CREATE ROLE ${role} LOGIN PASSWORD 'only-for-tests';
     GRANT USAGE ON SCHEMA perdure TO ${role};
     GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA perdure TO ${role};
     GRANT USAGE ON ALL SEQUENCES IN SCHEMA perdure TO ${role}`,
  );
  onTestFinished(() => runSql(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`));
  const asRole = Object.assign(new URL(url), { username: role, password: 'only-for-tests' }).href;
  const provider = await open({ url: asRole, migrate: false });
  await declare(provider, { global: 1 });
  await declare(provider, { global: 1 }, { kind: 'orchestration', name: 'hello' });
  await provider.createTasks([newTask('a'), newTask('b')]);
  expect(idsOf(await provider.fetchWorkItems(fetch))).toEqual(['a']);
  expect(await triggers(url)).toEqual([...itemTriggers, ...instanceTriggers]);
  await provider.close();
});

describe('broken triggers', () => {
  it('without the triggers, no run of a limited task is claimed', async () => {
    const { url, open } = await temporaryStore();
    await runSql(
      url,
      `CREATE OR REPLACE FUNCTION perdure.add_lane_triggers() RETURNS boolean LANGUAGE sql AS 'SELECT TRUE'`,
    );
    const provider = await open();
    await declare(provider, { global: 1 });
    await provider.createTasks([newTask('a')]);
    expect(await provider.fetchWorkItems(fetch)).toEqual([]);
  });

  it('without the trigger of deletions, an ack keeps its place', async () => {
    const { url, open } = await temporaryStore();
    const provider = await open();
    await declare(provider, { global: 1 });
    await runSql(url, 'DROP TRIGGER lane_items_deleted ON perdure.worker_queue');
    await provider.createTasks([newTask('a'), newTask('b')]);
    await ackAll(provider, await provider.fetchWorkItems(fetch));
    expect(await places(url)).toEqual({ counted: 1, places: 1, held: 0 });
    expect(await provider.fetchWorkItems(fetch)).toEqual([]);
  });

  it('without the signals of earlier items, runs with keys wait forever', async () => {
    const { url, open } = await temporaryStore();
    const enqueuing = await open();
    const transaction = await begin(url, enqueuing);
    await transaction.createTasks([laneTask('a', 'k')]);
    await transaction.commit();
    await runSql(
      url,
      `SELECT perdure.add_lane_triggers(); DELETE FROM perdure.lane_signals WHERE lane = 'k'`,
    );
    expect(await enqueuing.fetchWorkItems(fetch)).toEqual([]);
  });
});
