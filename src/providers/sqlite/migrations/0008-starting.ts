import type { Migration } from '../../shared/migrations.ts';

/**
 * Adds timeouts of instances, and the keys of external events. Instances without either have no rows here.
 */
export const starting: Migration = {
  number: 8,
  name: 'starting',
  sql: `
CREATE TABLE instance_deadlines (
  instance_key INTEGER PRIMARY KEY,
  timeout_ms INTEGER NOT NULL,
  due_at INTEGER -- NULL: applied. A retry sets it again
) STRICT;
CREATE INDEX instance_deadlines_due ON instance_deadlines (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE event_keys (
  instance_key INTEGER NOT NULL,
  event_key TEXT NOT NULL,
  PRIMARY KEY (instance_key, event_key)
) STRICT, WITHOUT ROWID;
`,
};
