/** Statements whose cost must not grow with the number of simultaneous runs or of definitions. */
import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import type { ListInstancesParams } from '../../src/providers/contract/instances.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { watchStatements, type SentStatement } from './helpers/statement-log.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

interface Queue {
  readonly provider: Provider;
  /** The number of blocks that a statement reads. It is rolled back. */
  readonly blocksOf: (statement: SentStatement | undefined) => Promise<number>;
}

/** A queue with runs of one of several definitions; `apart` is the time between two runs. */
async function fillQueue(params: {
  readonly definitions: number;
  readonly runs: number;
  readonly apart: number;
}): Promise<Queue> {
  const { open, url } = await temporaryStore();
  const provider = await open({ listen: false });
  const names = Array.from({ length: params.definitions }, (_, index) => `task ${index}`);
  await provider.createTasks(names.map((name) => newTask(name, { name })));
  const client = new pg.Client({ connectionString: url, options: '-c search_path=perdure' });
  await client.connect();
  onTestFinished(() => client.end());
  await client.query(
    `INSERT INTO instances (instance_id, incarnation, definition_key, status, execution_id, history_length,
       input_hash, created_at, priority, failures)
     SELECT 'run ' || n, 'x', (SELECT min(definition_key) FROM definitions WHERE kind = 'task'), 'pending', 1, 0, 'hash', 0,
       0, 0
     FROM generate_series(1, $1::int) AS n`,
    [params.runs],
  );
  await client.query(
    `INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at, claims, created_at)
     SELECT instance_key, 1, 1, definition_key, 0, 1000000 + $1::int * instance_key, 0, 0 FROM instances
     WHERE instance_id LIKE 'run %'`,
    [params.apart],
  );
  await client.query('VACUUM ANALYZE');
  return {
    provider,
    async blocksOf(statement) {
      if (statement === undefined) throw new Error('The statement was not sent.');
      await client.query('BEGIN');
      const { rows } = await client.query<{
        'QUERY PLAN': readonly { Plan: Readonly<Record<string, number>> }[];
      }>(`EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${statement.text}`, [...statement.values]);
      await client.query('ROLLBACK');
      const plan = rows[0]?.['QUERY PLAN'][0]?.Plan;
      return (plan?.['Shared Hit Blocks'] ?? Number.NaN) + (plan?.['Shared Read Blocks'] ?? 0);
    },
  };
}

/** The number of blocks that a claim of ten runs reads. */
async function blocksOfClaim(apart: number): Promise<number> {
  const { provider, blocksOf } = await fillQueue({ definitions: 1, runs: 30_000, apart });
  const sent = watchStatements();
  const fetch = { max: 10, lockMs: 60_000, waitMs: 0, names: [], tasks: ['task 0'] };
  for (let round = 0; round < 2; round += 1) {
    expect(await provider.fetchWorkItems(fetch)).toHaveLength(10);
  }
  const claims = sent().filter(({ name }) => /claim_plainly|move_lapsed_items/.test(name));
  expect(claims.length).toBeGreaterThan(0);
  let most = 0;
  for (const claim of claims) most = Math.max(most, await blocksOf(claim));
  return most;
}

it('a claim reads no more blocks when 30,000 runs are due simultaneously', async () => {
  const apart = await blocksOfClaim(1);
  expect(await blocksOfClaim(0)).toBeLessThan(2 * apart + 100);
}, 60_000);

it.each(['pending', 'running'] as const)(
  'listInstances() of %s tasks reads the queue once for ten definitions',
  async (status) => {
    const queue = await fillQueue({ definitions: 10, runs: 20_000, apart: 1 });
    const sent = watchStatements();
    const blocksOfList = async (filter: ListInstancesParams['filter']): Promise<number> => {
      sent();
      await queue.provider.listInstances({ filter, limit: 10 });
      return queue.blocksOf(sent().find(({ name }) => name.startsWith('perdure_list_')));
    };
    const ofAll = await blocksOfList({ status: [status] });
    expect(await blocksOfList({ status: [status], kind: 'task' })).toBeLessThan(2 * ofAll);
  },
  60_000,
);

it('listDefinitions() does not read all instances for rare definitions', async () => {
  const { provider, blocksOf } = await fillQueue({ definitions: 5, runs: 30_000, apart: 1 });
  const sent = watchStatements();
  expect(await provider.listDefinitions({ afterKey: 0, cap: 500, limit: 10 })).toHaveLength(5);
  const list = sent().find(({ name }) => name === 'perdure_list_definitions');
  expect(await blocksOf(list)).toBeLessThan(2_500);
}, 60_000);
