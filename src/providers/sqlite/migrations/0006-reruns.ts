import type { Migration } from '../../shared/migrations.ts';

/** Adds retries and forks: an earlier execution can have ended in any way. The table is rebuilt to change its check. */
export const reruns: Migration = {
  number: 6,
  name: 'reruns',
  sql: `
ALTER TABLE instances ADD COLUMN forked_from TEXT;

CREATE TABLE ended_executions (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  definition_key INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('continuedAsNew', 'failed', 'canceled', 'terminated', 'expired')),
  history_length INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL,
  failure TEXT, -- of an execution that was retried
  reason TEXT, -- why it was canceled or terminated
  PRIMARY KEY (instance_key, execution_id)
) STRICT, WITHOUT ROWID;
INSERT INTO ended_executions (instance_key, execution_id, definition_key, status, history_length, started_at, ended_at)
  SELECT instance_key, execution_id, definition_key, status, history_length, started_at, ended_at FROM executions;
DROP TABLE executions;
ALTER TABLE ended_executions RENAME TO executions;
`,
};
