import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, type TestContext } from 'vitest';
import { createDatabase } from '../postgres/helpers/server.ts';
import { root, runProgram, withoutLogLines } from './run-program.ts';

const examples = globSync('examples/*.ts', { cwd: root }).sort();

/** Returns the expected output from the last comment of an example. */
function expectedOutput(source: string): string {
  const comment = source.split('\n// Output:\n')[1];
  if (comment === undefined) throw new Error('The example does not end with its output.');
  return comment.replaceAll(/^\/\/ ?/gm, '');
}

function createFolder({ onTestFinished }: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-example-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

it('examples/ contains exactly the expected programs', () => {
  expect(examples).toEqual(
    [
      'agent-with-streaming',
      'api-rate-per-customer',
      'attached-work',
      'bank-transfer',
      'batch-insert',
      'cancel-a-task',
      'cancel-from-outside',
      'child-orchestrations',
      'continue-as-new',
      'debounced-search-index',
      'fan-out-fan-in',
      'flow-with-failures',
      'flow',
      'hello',
      'multi-tenant-encryption',
      'one-import-per-tenant',
      'order',
      'polling-with-state',
      'race',
      'retention',
      'retries',
      'saga-with-steps',
      'saga',
      'schedules',
      'start-in-a-transaction',
      'start-with-drizzle',
      'start-with-kysely',
      'tasks',
      'testing-with-skipped-time',
      'timeout-with-cleanup',
      'timers-and-events',
      'versioned-upgrade',
      'webhook',
    ].map((name) => `examples/${name}.ts`),
  );
});

/** Every example on its default store, and on PostgreSQL if it accepts a store argument. */
const runs = examples.flatMap((example) => {
  const source = readFileSync(join(root, example), 'utf8');
  const output = expectedOutput(source);
  const takesStore = source.includes('process.argv[2]');
  const needsPostgres = source.includes(`from 'pg'`);
  const stores = [
    ...(needsPostgres ? [] : ['its default store']),
    ...(takesStore ? ['PostgreSQL'] : []),
  ];
  return stores.map((store) => ({ example, output, store }));
});

it('more than three examples also run on PostgreSQL', () => {
  expect(runs.filter(({ store }) => store === 'PostgreSQL').length).toBeGreaterThan(3);
});

// Examples wait for timers, and their output depends on the order of these timers, so few run at a time.
const limit = limitConcurrency(2);

it.concurrent.for(runs)(
  '$example prints the output in its last comment on $store',
  { timeout: 180_000 },
  (run, context) =>
    limit(async () => {
      const result = await runProgram(run.example, {
        cwd: createFolder(context),
        args: await argumentsFor(run.store, context),
      });
      const stderr = withoutLogLines(result.stderr);
      expect({ ...result, stderr }).toEqual({ code: 0, stdout: run.output, stderr: '' });
    }),
);

async function argumentsFor(
  store: string,
  { onTestFinished }: TestContext,
): Promise<readonly string[]> {
  if (store !== 'PostgreSQL') return [];
  const database = await createDatabase();
  onTestFinished(() => database.drop());
  return [database.url];
}

/** Returns a function that runs at most `max` calls at a time, in order. */
function limitConcurrency(max: number): (work: () => Promise<void>) => Promise<void> {
  const lanes = Array.from({ length: max }, () => Promise.resolve());
  let count = 0;
  return (work) => {
    const lane = count++ % max;
    const done = (lanes[lane] ?? Promise.resolve()).then(work);
    lanes[lane] = done.catch(() => undefined);
    return done;
  };
}

it('examples/hello.ts run twice on one file prints the same output', async (context) => {
  const folder = createFolder(context);
  for (let run = 0; run < 2; run += 1) {
    const { stdout } = await runProgram('examples/hello.ts', { cwd: folder });
    expect(stdout).toBe('Hello, World!\n');
  }
});
