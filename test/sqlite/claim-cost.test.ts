import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { migrate } from '../../src/providers/sqlite/migrations/migrate.ts';
import { Store } from '../../src/providers/sqlite/store.ts';
import { createWorkQueue } from '../../src/providers/sqlite/queues/work-queue.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

const small = 3_000;
const large = 300_000;
const claimed = 50;

/** The columns of a backlog, as SQL over the row number `i`. */
interface Backlog {
  readonly priority?: string;
  /** The time until the run can be claimed; negative if it is due. */
  readonly delayMs?: string;
  /** The definition key; 1 is the claimed name. */
  readonly definition?: string;
}

/** A store on a file with a backlog of task runs. Returns a claim that counts its statements and the bytes it reads. */
function openWithBacklog(rows: number, backlog: Backlog) {
  const directory = mkdtempSync(join(tmpdir(), 'perdure-claims-'));
  let statements = 0;
  const db = new Database(join(directory, 'store.db'), { verbose: () => void (statements += 1) });
  migrate(db, 0);
  const clock = new FakeClock();
  const { priority = '0', delayMs = '-1', definition = '1' } = backlog;
  db.exec(`
    INSERT INTO definitions VALUES (1, 'task', 'task', ''), (2, 'task', 'foreign', ''), (3, 'activity', 'foreign', '');
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})
    INSERT INTO instances (instance_key, instance_id, incarnation, definition_key, status, execution_id,
                           history_length, input_hash, created_at, priority, failures)
    SELECT i, 'run ' || i, 'x', ${definition}, 'pending', 1, 0, 'h', 0, 0, 0 FROM n;
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${rows})
    INSERT INTO worker_queue (instance_key, execution_id, operation, definition_key, priority, next_at, claims,
                              failures, created_at)
    SELECT i, 1, 1, ${definition}, ${priority}, ${clock.now()} + ${delayMs}, 0, 0, 0 FROM n;
    PRAGMA cache_size = 500; PRAGMA wal_checkpoint(TRUNCATE);`);
  const store = new Store({ db, clock, pollMs: 5, busyTimeoutMs: 100 });
  onTestFinished(async () => {
    await store.close();
    rmSync(directory, { recursive: true, force: true });
  });
  const queue = createWorkQueue(store);
  return async () => {
    const before = { statements, bytes: bytesRead() };
    const params = { max: claimed, lockMs: 60_000, waitMs: 0, names: [], tasks: ['task'] };
    const items = await queue.fetchWorkItems(params);
    const cost = { statements: statements - before.statements, bytes: bytesRead() - before.bytes };
    return { items, ...cost };
  };
}

/** The number of bytes that this process has read from files; 0 if the system does not report it. */
function bytesRead(): number {
  if (!existsSync('/proc/self/io')) return 0;
  return Number(/rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);
}

const backlogs: Readonly<Record<string, Backlog>> = {
  'claimable runs': {},
  'runs of 201 priorities': { priority: 'i % 201 - 100' },
  'runs of 201 priorities, the higher half delayed': {
    priority: 'i % 201 - 100',
    delayMs: 'iif(i % 201 > 100, 60000, -1)',
  },
  'runs, all but 100 delayed': { delayMs: 'iif(i <= 100, -1, 60000 + i)' },
  'runs, all but 100 of other names': { definition: 'iif(i <= 100, 1, 2)', priority: '5' },
};

it.each(Object.entries(backlogs))(
  'a claim costs the same with 3,000 and 300,000 %s',
  async (_, backlog) => {
    const costs = [];
    for (const rows of [small, large]) {
      const claim = openWithBacklog(rows, backlog);
      // The first claim also reads the schema and the definitions.
      await claim();
      const { items, ...cost } = await claim();
      expect(items).toHaveLength(claimed);
      costs.push(cost);
    }
    const [few, many] = costs;
    // A small backlog has fewer runs per priority, so a claim reads more priorities.
    expect(many?.statements).toBeLessThanOrEqual(few?.statements ?? 0);
    // At most one row per priority for the query and for the claim, and four statements per claimed run.
    expect(many?.statements).toBeLessThan(2 * 201 + 4 * claimed + 20);
    // At most six pages per run, because runs that are adjacent in order may be far apart in the file: the item, its run,
    // two of the index, and both neighbors of a full page, which the claimed item no longer fits. And a few pages of small
    // tables that every claim reads.
    expect(many?.bytes).toBeLessThan(4_096 * (6 * claimed + 10));
  },
  60_000,
);

it('a claim of 50 runs with one priority takes fewer than 220 statements', async () => {
  const claim = openWithBacklog(small, {});
  await claim();
  const { statements } = await claim();
  expect(statements).toBeLessThan(4 * claimed + 20);
});
