import type { Migration } from '../../shared/migrations.ts';

/**
 * The initial schema. Rows join by integer keys, without foreign keys: a check per insert would slow the hot path, and only
 * this provider writes. The columns of the queues are named as in the contract.
 */
export const initial: Migration = {
  number: 1,
  name: 'initial',
  sql: `
CREATE TABLE definitions (
  definition_key INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('orchestration', 'activity', 'task')),
  name TEXT NOT NULL,
  version TEXT NOT NULL, -- '' until a version is chosen
  UNIQUE (kind, name, version)
) STRICT;

CREATE TABLE instances (
  instance_key INTEGER PRIMARY KEY AUTOINCREMENT, -- never reused, even after a delete
  instance_id TEXT NOT NULL UNIQUE,
  incarnation TEXT NOT NULL,
  definition_key INTEGER NOT NULL,
  status TEXT NOT NULL,
  execution_id INTEGER NOT NULL,
  history_length INTEGER NOT NULL,
  last_turn TEXT,
  input_hash TEXT NOT NULL,
  parent_instance_id TEXT,
  parent_execution_id INTEGER,
  parent_operation INTEGER,
  cancellation TEXT, -- of a child: what happens to it when its parent ends
  buffered_events INTEGER NOT NULL DEFAULT 0, -- received, not yet awaited by the code
  has_children INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  execution_started_at INTEGER,
  ended_at INTEGER,
  completed_at INTEGER,
  failed_at INTEGER,
  canceled_at INTEGER,
  terminated_at INTEGER,
  skipped_at INTEGER,
  expired_at INTEGER,
  cancel_requested_at INTEGER,
  cancel_reason TEXT,
  cancel_actor TEXT,
  cancel_cause TEXT, -- NULL: a request
  terminate_reason TEXT,
  terminate_actor TEXT,
  closing_reason TEXT, -- the code has ended as canceled; the status follows when its last work has stopped
  cleanup_skipped INTEGER NOT NULL DEFAULT 0,
  leaked INTEGER NOT NULL DEFAULT 0,
  custom_status TEXT,
  custom_status_version INTEGER NOT NULL DEFAULT 0, -- incremented each time it is set
  output TEXT, -- of an orchestration: a large one is only in its last event
  failure TEXT,
  paused_at INTEGER,
  paused_reason TEXT,
  paused_actor TEXT,
  paused_tree INTEGER, -- 1: children that a turn under way starts are paused too
  forked_from TEXT,
  headers TEXT, -- trace context and headers of the start, as JSON
  tags TEXT, -- a JSON object of strings, sorted by name
  limited INTEGER, -- of an orchestration: 1 if it has or had a row in instance_places or run_lanes
  -- Task runs only. A row with a priority is a task run.
  priority INTEGER,
  input TEXT,
  options TEXT,
  run_at INTEGER,
  expires_at INTEGER,
  dedupe_key TEXT,
  failures INTEGER,
  on_fail TEXT, -- 'ready' until the run fails, then the state of its onFail handler
  on_fail_options TEXT,
  on_fail_failure TEXT,
  -- Exactly one end time beside ended_at, and the one of the status. CASE, because IN lists
  -- cost 4 µs per insert and update.
  CHECK (CASE status
    WHEN 'pending' THEN ended_at IS NULL
    WHEN 'running' THEN ended_at IS NULL
    WHEN 'canceling' THEN ended_at IS NULL
    WHEN 'completed' THEN completed_at IS NOT NULL
    WHEN 'failed' THEN failed_at IS NOT NULL
    WHEN 'canceled' THEN canceled_at IS NOT NULL
    WHEN 'terminated' THEN terminated_at IS NOT NULL
    WHEN 'skipped' THEN skipped_at IS NOT NULL
    WHEN 'expired' THEN expired_at IS NOT NULL
    ELSE FALSE
  END),
  CHECK ((completed_at IS NOT NULL) + (failed_at IS NOT NULL) + (canceled_at IS NOT NULL)
    + (terminated_at IS NOT NULL) + (skipped_at IS NOT NULL) + (expired_at IS NOT NULL) = (ended_at IS NOT NULL))
) STRICT;
CREATE INDEX instances_by_definition ON instances (definition_key);
CREATE INDEX instances_by_parent ON instances (parent_instance_id) WHERE parent_instance_id IS NOT NULL;
-- Completed instances need no entry: their lists read the newest rows.
CREATE INDEX instances_by_status ON instances (status) WHERE status <> 'completed';
CREATE INDEX instances_ended_otherwise ON instances (status, definition_key)
  WHERE ended_at IS NOT NULL AND status <> 'completed';
-- Ends without a worker, for the counts by minute.
CREATE INDEX instances_stopped ON instances (coalesce(canceled_at, terminated_at, expired_at))
  WHERE coalesce(canceled_at, terminated_at, expired_at) IS NOT NULL;
CREATE INDEX instances_ended ON instances (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX instances_leaked ON instances (instance_key) WHERE leaked > 0;
CREATE INDEX instances_paused ON instances (instance_key, paused_at) WHERE paused_at IS NOT NULL;

-- Executions before the current one: continued as new, retried or replaced. The current one is read from its instance,
-- which saves two writes per run.
CREATE TABLE executions (
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

CREATE TABLE history (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  event_id INTEGER NOT NULL,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  data TEXT NOT NULL,
  payload TEXT, -- a large one is in large_payloads
  payload_event INTEGER, -- of a large payload: the event that it is stored under
  PRIMARY KEY (instance_key, execution_id, event_id)
) STRICT, WITHOUT ROWID;

-- Payloads of events above 768 characters, each once per turn. With a rowid: a table without one moves a row above 1 KB to
-- a page of its own.
CREATE TABLE large_payloads (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  event_id INTEGER NOT NULL,
  payload TEXT NOT NULL,
  UNIQUE (instance_key, execution_id, event_id)
) STRICT;

-- One row per instance with messages, a lock or claims. An instance that waits for activities only has none.
CREATE TABLE instance_locks (
  instance_key INTEGER PRIMARY KEY,
  definition_key INTEGER NOT NULL,
  next_at INTEGER, -- claimable from: first message visible, hold-back ended, or lock expired
  held_until INTEGER,
  cleanup_at INTEGER, -- of a canceling instance: any worker may claim it from then on, to end it
  lock_token TEXT,
  locked_until INTEGER,
  claims INTEGER NOT NULL,
  blocked_reason TEXT,
  blocked_build TEXT,
  blocked_at INTEGER,
  blocked_details TEXT, -- JSON: code, worker, event and commands
  claimed_by TEXT, -- name of the last worker that claimed it, if known
  claimed_at INTEGER,
  CHECK ((lock_token IS NULL) = (locked_until IS NULL))
) STRICT;
CREATE INDEX instance_locks_due ON instance_locks (definition_key, (claims > 1), next_at)
  WHERE next_at IS NOT NULL;
CREATE INDEX instance_locks_blocked ON instance_locks (definition_key, blocked_build)
  WHERE blocked_build IS NOT NULL;
CREATE INDEX instance_locks_blocked_keys ON instance_locks (instance_key) WHERE blocked_build IS NOT NULL;
CREATE INDEX instance_locks_cleanup ON instance_locks (max(cleanup_at, coalesce(locked_until, 0)))
  WHERE cleanup_at IS NOT NULL;

CREATE TABLE orchestrator_queue (
  message_key INTEGER PRIMARY KEY, -- above all queued messages; keys of deleted ones are reused
  instance_key INTEGER NOT NULL,
  visible_at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  execution_id INTEGER,
  operation INTEGER,
  data TEXT NOT NULL,
  payload TEXT
) STRICT;
CREATE INDEX orchestrator_queue_by_instance ON orchestrator_queue (instance_key, visible_at);
CREATE UNIQUE INDEX orchestrator_queue_timers ON orchestrator_queue (instance_key, execution_id, operation)
  WHERE kind = 'timerFired';

CREATE TABLE worker_queue (
  item_key INTEGER PRIMARY KEY, -- reused; lock tokens never are
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  operation INTEGER NOT NULL, -- number within its execution; of tasks 1: the run, 2: its onFail handler
  definition_key INTEGER NOT NULL,
  priority INTEGER NOT NULL CHECK (priority BETWEEN -100 AND 100), -- a claim reads at most 201 ranges
  next_at INTEGER NOT NULL, -- claimable from: delay ended, or lock expired
  expires_at INTEGER, -- of a task run that was never claimed: when it expires
  lock_token TEXT,
  locked_until INTEGER,
  claimed_by TEXT, -- name of the last worker that claimed it, if known
  claimed_at INTEGER, -- NULL: not claimed, or claimed by the insert
  claims INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  lane TEXT, -- NULL: its definition was not limited at the insert
  limit_key INTEGER, -- of an item with a lane: the definition whose limits count it. Negative if the instance is paused
  place INTEGER NOT NULL DEFAULT 0 CHECK (place IN (0, 1)), -- 1: counted as running in its lane
  max_attempts INTEGER, -- limit of the worker that failed last; NULL: none or unknown
  cancellation TEXT NOT NULL DEFAULT 'request',
  shielded INTEGER NOT NULL DEFAULT 0,
  point_of_no_return INTEGER NOT NULL DEFAULT 0,
  cancel_requested INTEGER NOT NULL DEFAULT 0 CHECK (cancel_requested IN (0, 1)),
  cancel_requested_at INTEGER, -- without cancel_requested: recorded after the point of no return, not delivered
  cancel_trigger TEXT,
  cancel_reason TEXT,
  created_at INTEGER NOT NULL,
  options TEXT,
  last_failure TEXT,
  heartbeat TEXT,
  heartbeat_at INTEGER,
  payload TEXT,
  payload_event INTEGER, -- of an activity with a large input: the event of its payload
  CHECK ((lock_token IS NULL) = (locked_until IS NULL)),
  UNIQUE (instance_key, execution_id, operation)
) STRICT;
CREATE INDEX worker_queue_due ON worker_queue (definition_key, (claims > 1), priority DESC, next_at);
CREATE INDEX worker_queue_expiring ON worker_queue (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX worker_queue_flagged ON worker_queue (next_at, cancel_requested_at) WHERE cancel_requested = 1;

-- The run that holds a dedupe key, from its creation until its item is deleted.
CREATE TABLE dedupe_keys (
  definition_key INTEGER NOT NULL,
  dedupe_key TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  PRIMARY KEY (definition_key, dedupe_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  definition TEXT NOT NULL,
  revision INTEGER NOT NULL,
  paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  next_at INTEGER,
  last_tick_at INTEGER,
  last_instance_id TEXT,
  last_error TEXT,
  run_ids TEXT, -- JSON list of ids, oldest first
  buffered_ticks TEXT, -- JSON list of times, earliest first
  skipped_ticks INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (next_at, name) WHERE paused = 0 AND next_at IS NOT NULL;
CREATE INDEX schedules_buffered ON schedules (name) WHERE paused = 0 AND buffered_ticks IS NOT NULL;

-- Histories of deleted instances and executions that are not deleted yet. No query finds them: an
-- instance_key is never reused.
CREATE TABLE pending_reclaims (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL, -- 0: all executions of the instance
  events INTEGER NOT NULL,
  PRIMARY KEY (instance_key, execution_id)
) STRICT, WITHOUT ROWID;

-- Claims deleted with their items, kept until their leases would expire: renewals return the reason.
CREATE TABLE tombstones (
  item_key INTEGER NOT NULL,
  lock_token TEXT NOT NULL,
  deleted_at INTEGER NOT NULL,
  locked_until INTEGER NOT NULL,
  PRIMARY KEY (item_key, lock_token)
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_by_end ON tombstones (locked_until, deleted_at);

-- Actions of operators, and counts of deletions and prunes. The oldest records are deleted.
CREATE TABLE audit (
  audit_key INTEGER PRIMARY KEY,
  audit_id TEXT NOT NULL UNIQUE,
  action TEXT NOT NULL,
  actor TEXT,
  reason TEXT,
  filter TEXT NOT NULL,
  instance_id TEXT, -- NULL after the instance is deleted
  at INTEGER NOT NULL,
  instances INTEGER NOT NULL DEFAULT 0,
  progress_key INTEGER, -- of a bulk event: the smallest instance_key that it has visited
  instances_deleted INTEGER NOT NULL DEFAULT 0,
  executions_deleted INTEGER NOT NULL DEFAULT 0,
  events_deleted INTEGER NOT NULL DEFAULT 0,
  queue_messages_deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX audit_by_instance ON audit (instance_id) WHERE instance_id IS NOT NULL;

-- Leases on work that one process does for all, such as retention.
CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Records of the whole store.
CREATE TABLE system_records (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Ids of instances that a commit ended, deleted or gave a custom status, as JSON arrays; '' if there are too many.
-- Other processes read it after data_version changes. The newest rows are kept; a reclaim
-- deletes the ids of older ones.
CREATE TABLE changes (
  change_key INTEGER PRIMARY KEY, -- without gaps, so that a reader detects missed rows
  origin INTEGER NOT NULL, -- the connection that committed
  at INTEGER NOT NULL,
  finished TEXT,
  status_set TEXT
) STRICT;

-- Processes that claim work. Those of one host detect which of them died, and end their claims.
CREATE TABLE processes (
  process_id TEXT PRIMARY KEY, -- prefix of the lock tokens of its claims
  host_id TEXT NOT NULL, -- only processes with the same host id can detect whether it is alive
  pid INTEGER NOT NULL,
  start_time TEXT NOT NULL, -- distinguishes it from a later process with the same pid
  lease_ms INTEGER NOT NULL, -- the longest lease of its claims
  registered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX processes_by_host ON processes (host_id);
CREATE INDEX processes_by_age ON processes (registered_at);
`,
};
