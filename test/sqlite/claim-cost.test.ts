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

/** What stands in a backlog, as SQL over the number `i` of a row. */
interface Backlog {
  readonly priority?: string;
  /** When it may be claimed, from now; negative: it waits already. */
  readonly delayMs?: string;
  /** 1: the name that is claimed. */
  readonly definition?: string;
}

/** A store on a file with a backlog of task runs, which counts the statements of a claim and the bytes it reads. */
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

/** What this process has read from files so far, pages of the database above all; 0 where the system does not tell. */
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
      // The first claim also reads the schema and the names.
      await claim();
      const { items, ...cost } = await claim();
      expect(items).toHaveLength(claimed);
      costs.push(cost);
    }
    const [few, many] = costs;
    // Where there are fewer of each priority, a claim takes from more of them.
    expect(many?.statements).toBeLessThanOrEqual(few?.statements ?? 0);
    // At most one row of each priority, twice (the look and the claim), and four statements for each run that is claimed.
    expect(many?.statements).toBeLessThan(2 * 201 + 4 * claimed + 20);
    // Five pages for each run at most, where those that are next to each other in the order are far apart in the file.
    expect(many?.bytes).toBeLessThan(5 * 4_096 * claimed);
  },
  60_000,
);

it('a claim of 50 runs with one priority takes fewer than 220 statements', async () => {
  const claim = openWithBacklog(small, {});
  await claim();
  const { statements } = await claim();
  expect(statements).toBeLessThan(4 * claimed + 20);
});
