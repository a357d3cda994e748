import type { Migration } from '../../shared/migrations.ts';

/** Adds tags, and indexes for lists. An instance without tags that completes writes to none of them. */
export const lists: Migration = {
  number: 3,
  name: 'lists',
  sql: `
ALTER TABLE instances ADD COLUMN tags text; -- a JSON object of strings, sorted by name
CREATE INDEX instances_ended_otherwise ON instances (listed_as, definition_key, instance_key)
  WHERE listed_as IS NOT NULL AND listed_as <> 'live';
CREATE INDEX instances_leaked ON instances (instance_key) WHERE leaked > 0;
CREATE INDEX instance_locks_blocked_keys ON instance_locks (instance_key) WHERE blocked_build IS NOT NULL;

-- The index of instances.tags.
CREATE TABLE instance_tags (
  name text COLLATE "C" NOT NULL,
  value text COLLATE "C" NOT NULL,
  instance_key bigint NOT NULL,
  PRIMARY KEY (name, value, instance_key)
);
`,
};
