import type { Migration } from '../../shared/migrations.ts';

/**
 * Adds timeouts of instances, and the keys of external events. Instances without either have no rows here. A completed
 * execution can be followed by another start; the table is rebuilt to change its check.
 */
export const starting: Migration = {
  number: 14,
  name: 'starting',
  sql: `
ALTER TABLE instances ADD COLUMN cancel_cause TEXT; -- NULL: a request

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

CREATE TABLE ended_executions (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  definition_key INTEGER NOT NULL,
  status TEXT NOT NULL
    CHECK (status IN ('continuedAsNew', 'completed', 'failed', 'canceled', 'terminated', 'expired')),
  history_length INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  failure TEXT, -- of an execution that was retried
  reason TEXT, -- why it was canceled or terminated
  PRIMARY KEY (instance_key, execution_id)
) STRICT, WITHOUT ROWID;
INSERT INTO ended_executions SELECT instance_key, execution_id, definition_key, status, history_length, started_at,
  ended_at, failure, reason FROM executions;
DROP TABLE executions;
ALTER TABLE ended_executions RENAME TO executions;
`,
};
