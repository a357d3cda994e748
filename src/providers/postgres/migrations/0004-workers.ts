import type { Migration } from '../../shared/migrations.ts';

/** Adds the registry of workers. A worker belongs to a row of `processes`, if its host can check processes. */
export const workers: Migration = {
  number: 4,
  name: 'workers',
  // No index on last_seen_at: a heartbeat then updates its row in place. The table has a row per worker.
  sql: `
CREATE TABLE workers (
  worker_id text COLLATE "C" PRIMARY KEY,
  process_id text COLLATE "C" NOT NULL, -- prefix of the lock tokens of its claims
  name text COLLATE "C" NOT NULL,
  host text NOT NULL,
  pid integer NOT NULL,
  build_id text NOT NULL,
  activity_slots bigint NOT NULL,
  orchestration_slots bigint NOT NULL,
  in_use bigint NOT NULL,
  leaked bigint NOT NULL,
  heartbeat_ms bigint NOT NULL,
  started_at bigint NOT NULL,
  last_seen_at bigint NOT NULL,
  died_at bigint, -- when another process of its host took its process over
  definitions text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
`,
};
