import type { Migration } from '../../shared/migrations.ts';

/** Adds the registry of workers. A worker belongs to a row of `processes`, if its host can check processes. */
export const workers: Migration = {
  number: 4,
  name: 'workers',
  sql: `
CREATE TABLE workers (
  worker_id TEXT NOT NULL PRIMARY KEY,
  process_id TEXT NOT NULL, -- prefix of the lock tokens of its claims
  name TEXT NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  build_id TEXT NOT NULL,
  activity_slots INTEGER NOT NULL,
  orchestration_slots INTEGER NOT NULL,
  in_use INTEGER NOT NULL,
  leaked INTEGER NOT NULL,
  heartbeat_ms INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  died_at INTEGER, -- when another process of its host took its process over
  definitions TEXT NOT NULL
) STRICT;
`,
};
