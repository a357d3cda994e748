import assert from 'node:assert/strict';
import type Database from 'better-sqlite3';

/** Queries that return rows only if an invariant of `providers/rules/limits.ts` is broken. */
const violations: Readonly<Record<string, string>> = {
  'L1: an unflagged item with a valid token has a place': `
    SELECT item_key FROM worker_queue
    WHERE lane IS NOT NULL AND cancel_requested = 0 AND locked_until > :now AND place = 0`,
  'L1: a place belongs to an item with a token and a lane': `
    SELECT item_key FROM worker_queue WHERE place = 1 AND (lock_token IS NULL OR lane IS NULL)`,
  'L2: running of a lane is the number of its places': `
    SELECT definition_key, lane, running FROM lanes WHERE running <> (
      SELECT count(*) FROM worker_queue AS item
      WHERE abs(item.limit_key) = lanes.definition_key AND item.lane = lanes.lane AND place = 1)
    + (SELECT count(*) FROM instance_places AS begun
      WHERE begun.definition_key = lanes.definition_key AND begun.lane = lanes.lane AND has_begun = 1)`,
  'L2: a lane with places exists': `
    SELECT item_key FROM worker_queue AS item WHERE place = 1 AND NOT EXISTS (
      SELECT 1 FROM lanes WHERE lanes.definition_key = abs(item.limit_key) AND lanes.lane = item.lane)`,
  'L3: running of a definition is the number of its places': `
    SELECT definition_key, running FROM limits WHERE running <> (
      SELECT count(*) FROM worker_queue AS item
      WHERE abs(item.limit_key) = limits.definition_key AND place = 1)
    + (SELECT count(*) FROM instance_places AS begun
      WHERE begun.definition_key = limits.definition_key AND has_begun = 1)`,
  'L6: a lane with a trusted item that waits knows of it': `
    SELECT item_key FROM worker_queue AS item
    WHERE lane IS NOT NULL AND place = 0 AND cancel_requested = 0 AND claims <= 1 AND definition_key > 0
      AND NOT EXISTS (SELECT 1 FROM lanes
        WHERE lanes.definition_key = item.limit_key AND lanes.lane = item.lane
          AND (more = 1 OR wake_at <= max(item.next_at, :now)))`,
  'L7: a lane with due items that is not ready waits for a place or a time': `
    SELECT lanes.definition_key, lane FROM lanes JOIN limits USING (definition_key)
    WHERE more = 1 AND ready = 0 AND wake_at IS NULL
      AND (effective ->> '$.perKey' IS NULL OR lanes.running < effective ->> '$.perKey')`,
};

/** Prepares the queries, and returns a function that throws if the rows break an invariant. */
export function prepareSqliteInvariants(db: Database.Database): (now: number) => void {
  const queries = Object.entries(violations).map(([invariant, sql]) => ({
    invariant,
    query: db.prepare(sql),
  }));
  return (now) => {
    for (const { invariant, query } of queries) assert.deepEqual(query.all({ now }), [], invariant);
  };
}

/** Throws if the rows break an invariant. */
export function checkSqliteInvariants(db: Database.Database, now: number): void {
  prepareSqliteInvariants(db)(now);
}
