import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

const tasks = Array.from({ length: 6_500 }, (_, index) => newTask(`task ${index}`));

/** Claims all due runs and returns their ids. */
async function claimAll(provider: Provider): Promise<readonly string[]> {
  const ids: string[] = [];
  for (;;) {
    const items = await provider.fetchWorkItems({
      max: 1_000,
      lockMs: 60_000,
      waitMs: 0,
      names: [],
      tasks: ['task'],
    });
    if (items.length === 0) return ids;
    ids.push(...items.map(({ instanceId }) => instanceId));
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

it('thousands of tasks of one call are claimed in list order, whichever transaction commits first', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  const results = await provider.createTasks(tasks);
  expect(results.map(({ kind }) => kind)).toEqual(tasks.map(() => 'created'));
  expect(await claimAll(provider)).toEqual(tasks.map(({ instanceId }) => instanceId));
});

it('a taken id in the first of thousands of tasks keeps the order of the others', async () => {
  const { open } = await temporaryStore();
  const provider = await open();
  await provider.createTasks([newTask('task 500', { name: 'other' })]);
  const results = await provider.createTasks(tasks);
  expect(results.flatMap(({ kind }, index) => (kind === 'created' ? [] : [[index, kind]]))).toEqual(
    [[500, 'conflict']],
  );
  const created = tasks.filter(({ instanceId }) => instanceId !== 'task 500');
  expect(await claimAll(provider)).toEqual(created.map(({ instanceId }) => instanceId));
});

it('the delay of a task counts from its transaction, also if it shares one with an older page', async () => {
  const { open, url } = await temporaryStore();
  const provider = await open({ answerTimeoutMs: 60_000 });
  await provider.createTasks([newTask('known')]);
  const [blocker, reader] = [await connect(url), await connect(url)];
  const readNumber = async (sql: string): Promise<number> => {
    const { rows } = await reader.query<{ value: number }>(`SELECT (${sql})::float8 AS value`);
    return rows[0]?.value ?? 0;
  };
  await blocker.query('BEGIN');
  await blocker.query('LOCK TABLE instances IN SHARE MODE');
  const waiting = `SELECT count(*) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND datname = current_database()`;
  const calls = [provider.createTasks(tasks.slice(0, 2_000))];
  await expect.poll(() => readNumber(waiting)).toBe(2);
  // Both transactions are under way, so these pages wait. Their times are those of now.
  calls.push(provider.createTasks(tasks.slice(2_000, 3_001)));
  await delay(1_000);
  const calledAt = await readNumber('extract(epoch FROM clock_timestamp()) * 1000');
  calls.push(provider.createTasks([newTask('delayed', { delayMs: 60_000 })]));
  await delay(100);
  await blocker.query('COMMIT');
  await Promise.all(calls);
  const runAt = await readNumber(`SELECT run_at FROM instances WHERE instance_id = 'delayed'`);
  expect(runAt - Math.floor(calledAt)).toBeGreaterThanOrEqual(60_000);
});

it('the last of several debounced tasks of one call decides the input, also from another page', async () => {
  const { open, url } = await temporaryStore();
  const provider = await open({ answerTimeoutMs: 60_000 });
  await provider.createTasks([newTask('known')]);
  const debounced = (requestKey: string) =>
    newTask(requestKey, {
      payload: JSON.stringify(requestKey),
      delayMs: 60_000,
      debounce: { key: 'key', requestKey },
    });
  const [blocker, reader] = [await connect(url), await connect(url)];
  // The first page waits for a transaction that may take one of its ids.
  await blocker.query('BEGIN');
  await blocker.query(`INSERT INTO instances (created_at, definition_key, execution_id, history_length, status,
      instance_id, incarnation, input_hash)
    VALUES (1, 1, 1, 0, 'pending', 'task 5', 'other', 'hash')`);
  const creating = provider.createTasks([
    debounced('first'),
    ...tasks.slice(0, 999),
    debounced('second'),
  ]);
  const waiting = `SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()`;
  await expect.poll(async () => (await reader.query(waiting)).rows).not.toHaveLength(0);
  await delay(500);
  await blocker.query('ROLLBACK');
  await creating;
  const { rows } = await reader.query(
    `SELECT instance_id, input FROM instances WHERE instance_id IN ('first', 'second')`,
  );
  expect(rows).toEqual([{ instance_id: 'first', input: '"second"' }]);
});
