import type { Migration } from '../../shared/migrations.ts';

// Rows are short-lived: vacuum by the number of dead rows, without cost delay.
const shortLived = `WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0)`;

/** Jobs have their own table, so that runs without a job have no extra cost. */
export const jobs: Migration = {
  number: 2,
  name: 'jobs',
  sql: `
CREATE TABLE sessions (
  session_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id text COLLATE "C" NOT NULL UNIQUE,
  label text COLLATE "C",
  owner text,
  state text COLLATE "C" NOT NULL CHECK (state IN ('open', 'draining', 'closing', 'ended')),
  lease_ms bigint NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  ended_at bigint,
  end_reason text CHECK (end_reason IN ('shutdown', 'goodbye', 'expired')),
  variables text NOT NULL,
  due_at bigint NOT NULL, -- when it is due: its lease expires, it must be settled, or it is to be deleted
  CHECK ((state = 'ended') = (ended_at IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX sessions_by_due_at ON sessions (due_at);
CREATE INDEX sessions_by_label ON sessions (label, session_key) WHERE label IS NOT NULL;

-- A row exists while a caller may want the reply, or until a worker has disposed of it.
CREATE TABLE jobs (
  instance_key bigint,
  session_key bigint NOT NULL,
  is_task boolean NOT NULL,
  name text COLLATE "C" NOT NULL,
  disposable boolean NOT NULL,
  abandoned_at bigint,
  check_at bigint, -- of an abandoned job whose run continued: when to check whether it has ended
  dispose_at bigint, -- when its late result may be claimed
  attempts integer NOT NULL DEFAULT 0,
  last_seq bigint NOT NULL DEFAULT 0, -- last number of its stream
  waiting_chunks bigint NOT NULL DEFAULT 0,
  waiting_bytes bigint NOT NULL DEFAULT 0
) ${shortLived};
CREATE INDEX jobs_by_session ON jobs (session_key, instance_key);
CREATE INDEX jobs_not_abandoned ON jobs (session_key) WHERE abandoned_at IS NULL;
CREATE INDEX jobs_to_check ON jobs (check_at) WHERE check_at IS NOT NULL;
CREATE INDEX jobs_to_dispose ON jobs (dispose_at) WHERE dispose_at IS NOT NULL;
ALTER TABLE jobs ADD PRIMARY KEY (instance_key); -- last, as in migration 0001

CREATE TABLE chunks (
  instance_key bigint NOT NULL,
  seq bigint NOT NULL,
  bytes bigint NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (instance_key, seq)
) ${shortLived};
`,
};
