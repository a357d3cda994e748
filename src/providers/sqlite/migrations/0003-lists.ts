import type { Migration } from '../../shared/migrations.ts';

/** Adds tags, and indexes for lists. An instance without tags that completes writes to none of them. */
export const lists: Migration = {
  number: 3,
  name: 'lists',
  sql: `
ALTER TABLE instances ADD COLUMN tags TEXT; -- a JSON object of strings, sorted by name
CREATE INDEX instances_ended_otherwise ON instances (status, definition_key)
  WHERE ended_at IS NOT NULL AND status <> 'completed';
CREATE INDEX instances_leaked ON instances (instance_key) WHERE leaked > 0;
CREATE INDEX instance_locks_blocked_keys ON instance_locks (instance_key) WHERE blocked_build IS NOT NULL;

-- The index of instances.tags.
CREATE TABLE instance_tags (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  PRIMARY KEY (name, value, instance_key)
) STRICT, WITHOUT ROWID;
`,
};
