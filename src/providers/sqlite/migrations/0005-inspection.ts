import type { Migration } from '../../shared/migrations.ts';

/** Adds what operators read: details of blocked instances, the holder of a turn, the time of a heartbeat, and a limit of attempts. */
export const inspection: Migration = {
  number: 5,
  name: 'inspection',
  sql: `
ALTER TABLE instance_locks ADD COLUMN blocked_details TEXT; -- JSON: code, worker, event and commands
ALTER TABLE instance_locks ADD COLUMN claimed_by TEXT; -- name of the last worker that claimed it, if known
ALTER TABLE instance_locks ADD COLUMN claimed_at INTEGER;
ALTER TABLE worker_queue ADD COLUMN heartbeat_at INTEGER;
ALTER TABLE worker_queue ADD COLUMN max_attempts INTEGER; -- limit of the worker that failed last; NULL: none or unknown
`,
};
