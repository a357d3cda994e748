import type { Migration } from '../../shared/migrations.ts';

/** Adds sessions and jobs. Jobs have their own table, so that other runs cost nothing more. */
export const jobs: Migration = {
  number: 2,
  name: 'jobs',
  sql: `
CREATE TABLE sessions (
  session_key INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id TEXT NOT NULL UNIQUE,
  label TEXT,
  owner TEXT,
  state TEXT NOT NULL CHECK (state IN ('open', 'draining', 'closing', 'ended')),
  lease_ms INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ended_at INTEGER,
  end_reason TEXT CHECK (end_reason IN ('shutdown', 'goodbye', 'expired')),
  variables TEXT NOT NULL,
  due_at INTEGER NOT NULL, -- when it is due: its lease expires, it must be settled, or it is to be deleted
  CHECK ((state = 'ended') = (ended_at IS NOT NULL))
) STRICT;
CREATE INDEX sessions_by_due_at ON sessions (due_at);
CREATE INDEX sessions_by_label ON sessions (label) WHERE label IS NOT NULL;

-- A row exists while a caller may want the reply, or until a worker has disposed of it.
CREATE TABLE jobs (
  instance_key INTEGER PRIMARY KEY,
  session_key INTEGER NOT NULL,
  is_task INTEGER NOT NULL,
  name TEXT NOT NULL,
  disposable INTEGER NOT NULL,
  abandoned_at INTEGER,
  check_at INTEGER, -- of an abandoned job whose run continued: when to check whether it has ended
  dispose_at INTEGER, -- when its late result may be claimed
  attempts INTEGER NOT NULL DEFAULT 0,
  last_seq INTEGER NOT NULL DEFAULT 0, -- last number of its stream
  waiting_chunks INTEGER NOT NULL DEFAULT 0,
  waiting_bytes INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX jobs_by_session ON jobs (session_key);
CREATE INDEX jobs_not_abandoned ON jobs (session_key) WHERE abandoned_at IS NULL;
CREATE INDEX jobs_to_check ON jobs (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX jobs_to_dispose ON jobs (is_task, name, dispose_at) WHERE dispose_at IS NOT NULL;

CREATE TABLE chunks (
  instance_key INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  payload TEXT NOT NULL,
  PRIMARY KEY (instance_key, seq)
) STRICT, WITHOUT ROWID;
`,
};
