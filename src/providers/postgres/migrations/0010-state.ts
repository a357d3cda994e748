import type { Migration } from '../../shared/migrations.ts';

/** Adds the state of instances. Only instances whose code uses it have rows. */
export const state: Migration = {
  number: 10,
  name: 'state',
  sql: `
CREATE TABLE instance_state (
  instance_key bigint NOT NULL,
  key text COLLATE "C" NOT NULL, -- the empty key counts the changes of the instance
  version bigint NOT NULL,
  value text,
  PRIMARY KEY (instance_key, key)
);
`,
};
