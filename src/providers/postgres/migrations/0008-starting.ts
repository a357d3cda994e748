import type { Migration } from '../../shared/migrations.ts';

/**
 * Adds timeouts of instances, and the keys of external events. Instances without either have no rows here.
 */
export const starting: Migration = {
  number: 8,
  name: 'starting',
  sql: `
CREATE TABLE instance_deadlines (
  instance_key bigint,
  timeout_ms bigint NOT NULL,
  due_at bigint -- NULL: applied. A retry sets it again
);
CREATE INDEX instance_deadlines_due ON instance_deadlines (due_at) WHERE due_at IS NOT NULL;
ALTER TABLE instance_deadlines ADD PRIMARY KEY (instance_key);

CREATE TABLE event_keys (
  instance_key bigint NOT NULL,
  event_key text COLLATE "C" NOT NULL,
  PRIMARY KEY (instance_key, event_key)
);
`,
};
