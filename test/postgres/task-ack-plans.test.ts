import pg from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { watchStatements } from './helpers/statement-log.ts';
import { temporaryStore } from './helpers/temporary-store.ts';

it('the first acks of a connection do not scan the table of instances', async () => {
  const { open, url } = await temporaryStore();
  const provider = await open();
  await provider.createTasks(
    Array.from({ length: 20_000 }, (_, index) => newTask(`task ${index}`)),
  );
  const items = await provider.fetchWorkItems({
    max: 500,
    lockMs: 60_000,
    waitMs: 0,
    names: [],
    tasks: ['task'],
  });
  const sent = watchStatements();
  await provider.ackWorkItems(
    items.map(({ lockToken }) => ({ lockToken, outcome: { kind: 'completed', payload: null } })),
  );
  const acks = sent().filter(({ name }) => name === 'perdure_end_runs_plainly');
  expect(acks).toHaveLength(1);
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  // PostgreSQL plans a statement with values like the first executions of a prepared one.
  const [{ text, values } = { text: '', values: [] }] = acks;
  const { rows } = await client.query({ text: `EXPLAIN ${text}`, values: [...values] });
  const plan = rows.map((row: { readonly 'QUERY PLAN': string }) => row['QUERY PLAN']).join('\n');
  expect(plan).toContain('Tid Scan on instances');
  expect(plan).not.toContain('Seq Scan on instances');
});
