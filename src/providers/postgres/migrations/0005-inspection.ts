import type { Migration } from '../../shared/migrations.ts';

/** Adds what operators read: details of blocked instances, the holder of a turn, the time of a heartbeat, and a limit of attempts. */
export const inspection: Migration = {
  number: 5,
  name: 'inspection',
  sql: `
ALTER TABLE instance_locks
  ADD COLUMN blocked_details text, -- JSON: code, worker, event and commands
  ADD COLUMN claimed_by text, -- name of the last worker that claimed it, if known
  ADD COLUMN claimed_at bigint;
ALTER TABLE worker_queue
  ADD COLUMN heartbeat_at bigint,
  ADD COLUMN max_attempts bigint; -- limit of the worker that failed last; NULL: none or unknown
`,
};
