import type { Migration } from '../../shared/migrations.ts';

/** Adds the state of instances. Only instances whose code uses it have rows. */
export const state: Migration = {
  number: 10,
  name: 'state',
  sql: `
CREATE TABLE instance_state (
  instance_key INTEGER NOT NULL,
  key TEXT NOT NULL, -- the empty key counts the changes of the instance
  version INTEGER NOT NULL,
  value TEXT,
  PRIMARY KEY (instance_key, key)
) STRICT;
`,
};
