import type { Migration } from '../../shared/migrations.ts';

/** Adds updates and awakeables. They have tables of their own, so that instances without them cost nothing more. */
export const updates: Migration = {
  number: 9,
  name: 'updates',
  sql: `
CREATE TABLE updates (
  instance_key INTEGER NOT NULL,
  update_key TEXT NOT NULL,
  seq INTEGER NOT NULL, -- 1, 2, 3, … within the instance
  name TEXT NOT NULL,
  input_hash TEXT NOT NULL,
  requested_at INTEGER NOT NULL,
  outcome TEXT CHECK (outcome IN ('completed', 'failed', 'rejected', 'interrupted')), -- NULL: no reply yet
  reply TEXT,
  failure TEXT,
  UNIQUE (instance_key, update_key)
) STRICT;
CREATE UNIQUE INDEX updates_by_seq ON updates (instance_key, seq);
CREATE INDEX updates_open ON updates (instance_key) WHERE outcome IS NULL;

CREATE TABLE awakeables (
  token_hash TEXT PRIMARY KEY,
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  operation INTEGER NOT NULL,
  answer_key TEXT -- NULL: not answered
) STRICT, WITHOUT ROWID;
CREATE INDEX awakeables_by_operation ON awakeables (instance_key, execution_id, operation);
`,
};
