import assert from 'node:assert/strict';

type Query = (sql: string) => Promise<readonly unknown[]> | readonly unknown[];

/** Freed places that no claim has read yet. Only PostgreSQL has signals. */
function unread(signals: 'signals' | undefined, which: string): string {
  if (signals === undefined) return '0';
  return `coalesce((SELECT sum(freed) FROM lane_signals AS signal
    WHERE signal.definition_key = own.definition_key ${which}), 0)`;
}

/**
 * Throws if the places of instances break an invariant of `providers/rules/limits.ts`. The search path names the schema.
 */
export async function checkBeginInvariants(query: Query, signals?: 'signals'): Promise<void> {
  const violations: Readonly<Record<string, string>> = {
    'L1: a place belongs to an instance that has not ended': `
      SELECT instance_key FROM instance_places WHERE NOT EXISTS (
        SELECT 1 FROM instances WHERE instances.instance_key = instance_places.instance_key AND ended_at IS NULL)`,
    'L2: running of a lane is the number of its places': `
      SELECT definition_key, lane, running FROM lanes AS own
      WHERE running - ${unread(signals, 'AND signal.lane = own.lane')} <> (
        SELECT count(*) FROM instance_places AS place
        WHERE place.definition_key = own.definition_key AND place.lane = own.lane AND has_begun = ${signals ? 'TRUE' : '1'})`,
    'L3: running of a definition is the number of its places': `
      SELECT definition_key, running FROM limits AS own
      WHERE running - ${unread(signals, '')} <> (
        SELECT count(*) FROM instance_places AS place
        WHERE place.definition_key = own.definition_key AND has_begun = ${signals ? 'TRUE' : '1'})`,
    'L6: a lane with an instance that waits knows of it': `
      SELECT instance_key FROM instance_places AS place WHERE has_begun = ${signals ? 'FALSE' : '0'} AND NOT EXISTS (
        SELECT 1 FROM lanes AS own WHERE own.definition_key = place.definition_key AND own.lane = place.lane
          AND more = ${signals ? 'TRUE' : '1'})`,
  };
  for (const [invariant, sql] of Object.entries(violations)) {
    assert.deepEqual(await query(sql), [], invariant);
  }
}
