import assert from 'node:assert/strict';
import type pg from 'pg';

/** Freed places that no claim has read yet, of a row of `limits` or `lanes`. */
const unread = (which: string) =>
  `coalesce((SELECT sum(freed) FROM lane_signals AS signal WHERE ${which}), 0)`;
const ofDefinition = 'signal.definition_key = lim.definition_key';
const ofLane = 'signal.definition_key = own.definition_key AND signal.lane = own.lane';

/** Queries that return rows only if an invariant of `providers/rules/limits.ts` is broken. */
const violations: Readonly<Record<string, string>> = {
  'L1: an unflagged item with a valid token has a place': `
    SELECT item_key FROM worker_queue AS item
    WHERE lane IS NOT NULL AND NOT cancel_requested AND locked_until > $1
      AND NOT EXISTS (SELECT FROM places WHERE places.item_key = item.item_key)`,
  'L1: a place belongs to an item with a token and a lane': `
    SELECT item_key FROM places WHERE NOT EXISTS (
      SELECT FROM worker_queue AS item WHERE item.item_key = places.item_key
        AND lock_token IS NOT NULL AND item.lane = places.lane
        AND abs(item.limit_key) = places.definition_key)`,
  'L2: running of a lane is the number of its places and of unread signals': `
    SELECT definition_key, lane, running FROM lanes AS own
    WHERE running - ${unread(ofLane)} <> (SELECT count(*) FROM places AS place
      WHERE place.definition_key = own.definition_key AND place.lane = own.lane)`,
  'L2: a lane with places exists': `
    SELECT item_key FROM places AS place WHERE NOT EXISTS (SELECT FROM lanes AS own
      WHERE own.definition_key = place.definition_key AND own.lane = place.lane)
      AND NOT EXISTS (SELECT FROM lane_signals AS signal WHERE freed < 0
        AND signal.definition_key = place.definition_key AND signal.lane = place.lane)`,
  'L3: running of a definition is the number of its places and of unread signals': `
    SELECT definition_key, running FROM limits AS lim
    WHERE running - ${unread(ofDefinition)} <> (SELECT count(*) FROM places AS place
      WHERE place.definition_key = lim.definition_key)`,
  'L6: a lane with a trusted item that is due knows of it': `
    SELECT item_key FROM worker_queue AS item
    WHERE lane IS NOT NULL AND lock_token IS NULL AND NOT cancel_requested AND NOT suspect AND NOT delayed
      AND definition_key > 0 AND (expires_at IS NULL OR expires_at > $1)
      AND NOT EXISTS (SELECT FROM lanes AS own
        WHERE own.definition_key = item.limit_key AND own.lane = item.lane AND more)
      AND NOT EXISTS (SELECT FROM lane_signals AS signal
        WHERE signal.definition_key = item.limit_key AND signal.lane = item.lane AND due)`,
  'L7: a lane with due items that is not ready waits for a place or a time': `
    SELECT own.definition_key, lane FROM lanes AS own JOIN limits AS lim USING (definition_key)
    WHERE more AND NOT ready AND wake_at IS NULL AND (key_limit IS NULL OR own.running < key_limit)`,
};

// One query: the model runs it after each operation.
const all = Object.entries(violations)
  .map(
    ([invariant, sql]) =>
      `SELECT '${invariant}' AS invariant, to_json(one) AS row FROM (${sql}) AS one`,
  )
  .join(' UNION ALL ');

/** Throws if the rows break an invariant. The search path of the connection names the schema of the store. */
export async function checkPostgresInvariants(client: pg.Client, now: number): Promise<void> {
  const { rows } = await client.query<{ readonly invariant: string; readonly row: unknown }>({
    name: 'invariants',
    text: all,
    values: [now],
  });
  const [first] = rows;
  if (first === undefined) return;
  const ofFirst = rows.filter(({ invariant }) => invariant === first.invariant);
  assert.deepEqual(ofFirst, [], first.invariant);
}
