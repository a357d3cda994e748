import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/model/clock.ts';
import { listQuery } from '../../src/providers/sqlite/list-query.ts';
import { migrate } from '../../src/providers/sqlite/migrate.ts';
import { Store } from '../../src/providers/sqlite/store.ts';

function plan(db: Database.Database, sql: string): string {
  const steps = db.prepare<unknown[], { detail: string }>(`EXPLAIN QUERY PLAN ${sql}`);
  const names = [...sql.matchAll(/:(\w+)/g)].map(([, name]) => [name, 0]);
  const count = sql.split('?').length - 1;
  const values = names.length > 0 ? [Object.fromEntries(names)] : Array(count).fill(0);
  return steps
    .all(...values)
    .map(({ detail }) => detail)
    .join('; ');
}

it('no statement of the store reads a whole table or sorts what it has read', async () => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const prepare = db.prepare.bind(db);
  const prepared: string[] = [];
  db.prepare = (sql: string) => {
    prepared.push(sql);
    return prepare(sql);
  };
  const store = new Store({ db, clock: systemClock, pollMs: 5, busyTimeoutMs: 100 });
  const statements = prepared.filter((sql) =>
    /^\s*(SELECT|UPDATE|DELETE|INSERT[^]*SELECT)/.test(sql),
  );
  expect(statements.length).toBeGreaterThan(30);
  db.prepare = prepare;
  const bad = statements
    .map((sql) => ({ sql, plan: plan(db, sql) }))
    // A subquery, in brackets, ends at its own limit; json_each reads a list that the caller gave.
    .filter(({ plan }) => /SCAN (?!\(|json_each)|TEMP B-TREE/.test(plan));
  expect(bad).toEqual([]);
  await store.close();
});

it.each([
  [{ status: ['running'] }, 'instances_by_status'],
  [{ status: ['failed'], createdBefore: 5 }, 'instances_by_status'],
  [{ name: 'a' }, 'instances_by_definition'],
  [{ parentInstanceId: 'p' }, 'instances_by_parent'],
] as const)('a page of instances by %j comes from an index, in order', (filter, index) => {
  const db = new Database(':memory:');
  migrate(db, 0);
  const query = listQuery({ filter, limit: 10 }, 'name' in filter ? [1] : undefined);
  const shown = plan(db, query?.keys ?? '');
  expect(shown).toContain(index);
  expect(shown).not.toContain('TEMP B-TREE');
  db.close();
});
