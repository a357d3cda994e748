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
  const connect = async () => {
    const client = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
    await client.connect();
    onTestFinished(() => client.end());
    return client;
  };
  const [blocker, reader] = [await connect(), await connect()];
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
