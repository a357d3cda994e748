import Database from 'better-sqlite3';
import { expect, it, onTestFinished } from 'vitest';
import { FakeClock } from '../../src/testing/fake-clock.ts';
import { newTask } from '../../src/testing/conformance/task-helpers.ts';
import { SqliteFiles } from '../conformance/sqlite-files.ts';

const fetch = { max: 10, lockMs: 60_000, waitMs: 0 };

async function openStore() {
  const files = new SqliteFiles();
  const clock = new FakeClock();
  const provider = await files.create({ clock });
  const db = new Database(files.pathOf(provider), { readonly: true });
  onTestFinished(async () => {
    db.close();
    await provider.close();
    files.remove();
  });
  return { provider, clock, db };
}

it('a claim ends a bounded number of the expired runs of a lane, and the next claims end the others', async () => {
  const { provider, clock, db } = await openStore();
  const expired = db
    .prepare<[], number>(`SELECT count(*) FROM instances WHERE status = 'expired'`)
    .pluck();
  await provider.declareLimits({
    buildId: 'build',
    definitions: [{ kind: 'task', name: 'task', limits: { global: 5 } }],
  });
  const lane = { key: 'k', weight: 1 };
  const runs = Array.from({ length: 3_000 }, (_, n) =>
    newTask(`run ${n}`, { lane, expiresInMs: 100 }),
  );
  await provider.createTasks([...runs, newTask('live', { lane })]);
  await clock.advance(100);
  expect(await provider.fetchWorkItems(fetch)).toEqual([]);
  // 500 of any definition, and 500 of the lanes that the claim reads.
  expect(expired.get()).toBe(1_000);
  const items = await provider.fetchWorkItems({ ...fetch, waitMs: 20_000 });
  expect(items.map(({ instanceId }) => instanceId)).toEqual(['live']);
  expect(expired.get()).toBe(3_000);
});

it('the declarations of the last 1,000 builds of a definition are kept', async () => {
  const { provider, db } = await openStore();
  const declare = (buildId: string) =>
    provider.declareLimits({
      buildId,
      definitions: [{ kind: 'task', name: 'task', limits: { global: 1 } }],
    });
  await declare('first');
  const writer = new Database(db.name);
  writer.exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1200)
    INSERT INTO declared_limits (definition_key, build_id, limits, first_at)
    SELECT (SELECT definition_key FROM limits), 'build ' || i, '{}', 0 FROM n`);
  writer.close();
  await declare('last');
  const builds = db.prepare('SELECT build_id FROM declared_limits').pluck().all();
  expect(builds).toHaveLength(1_000);
  expect(builds).toContain('last');
  expect(builds).not.toContain('first');
});

it('a lane whose expired runs are left for the next claim does not hold up other lanes', async () => {
  const { provider, clock } = await openStore();
  const runs = Array.from({ length: 1_500 }, (_, n) =>
    newTask(`run ${n}`, { lane: { key: 'a', weight: 1 }, expiresInMs: 100 }),
  );
  await provider.createTasks([...runs, newTask('other', { lane: { key: 'b', weight: 1 } })]);
  await clock.advance(100);
  const items = await provider.fetchWorkItems(fetch);
  expect(items.map(({ instanceId }) => instanceId)).toEqual(['other']);
});
