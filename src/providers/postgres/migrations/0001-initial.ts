import type { Migration } from '../../shared/migrations.ts';

// Queue rows are short-lived: vacuum by the number of dead rows, without cost delay.
const queueOf = (
  fillfactor: number,
) => `WITH (fillfactor = ${fillfactor}, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0)`;
const queue = queueOf(80);
// Leaves room on each page for new row versions, so that claims are HOT updates and change no index.
const claimedInPlace = queueOf(45);

/**
 * The initial schema. Tables join by integer keys without foreign keys: a check per insert would slow the hot path, and
 * all writes go through this provider. Searched text columns use the collation "C".
 *
 * Columns of a fixed width that are never NULL come first, then those that indexes contain. An update compares the indexed
 * columns of both row versions, and PostgreSQL reads past every column before one that follows a NULL or a text.
 *
 * The primary key is created last if other indexes contain its columns. Among indexes of equal cost, which all have
 * while the table is empty, the planner picks the newest and keeps it in a generic plan.
 */
export const initial: Migration = {
  number: 1,
  name: 'initial',
  sql: `
CREATE TABLE definitions (
  definition_key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('orchestration', 'activity', 'task')),
  name text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL, -- '' until a version is chosen
  UNIQUE (kind, name, version)
);

CREATE TABLE instances (
  instance_key bigint GENERATED ALWAYS AS IDENTITY,
  created_at bigint NOT NULL,
  definition_key integer NOT NULL,
  execution_id integer NOT NULL,
  history_length integer NOT NULL,
  buffered_events integer NOT NULL DEFAULT 0, -- received, not yet awaited by the code
  leaked integer NOT NULL DEFAULT 0,
  custom_status_version integer NOT NULL DEFAULT 0, -- incremented each time it is set
  has_children boolean NOT NULL DEFAULT false,
  cleanup_skipped boolean NOT NULL DEFAULT false,
  limited boolean NOT NULL DEFAULT false, -- of an orchestration: whether it has or had a row in instance_places
  status text COLLATE "C" NOT NULL,
  instance_id text COLLATE "C" NOT NULL UNIQUE,
  incarnation text NOT NULL,
  last_turn text,
  -- The key of lists by status: failed, canceled, terminated, skipped or expired. NULL for all others: those that end as
  -- completed change no index, so each row version stays on its page (HOT). Live orchestrations are in live_instances, and
  -- unfinished runs are found by their items.
  listed_as text COLLATE "C",
  ended_at bigint,
  canceled_at bigint,
  terminated_at bigint,
  expired_at bigint,
  paused_at bigint,
  parent_instance_id text COLLATE "C",
  parent_execution_id integer,
  started_at bigint,
  execution_started_at bigint,
  completed_at bigint,
  failed_at bigint,
  skipped_at bigint,
  input_hash text NOT NULL,
  output text,
  failure text,
  -- Task runs only. A row with a priority is a task run.
  priority smallint,
  input text,
  options text,
  run_at bigint,
  expires_at bigint,
  dedupe_key text,
  failures integer,
  on_fail text COLLATE "C", -- 'ready' until the run fails, then the state of its onFail handler
  on_fail_options text,
  on_fail_failure text,
  -- Rarely set.
  parent_operation integer,
  cancellation text, -- of a child: what happens to it when its parent ends
  cancel_requested_at bigint,
  cancel_reason text,
  cancel_actor text,
  cancel_cause text, -- NULL: a request
  terminate_reason text,
  terminate_actor text,
  closing_reason text, -- the code has ended as canceled; the status follows when its last work has stopped
  custom_status text,
  paused_reason text,
  paused_actor text,
  paused_tree boolean, -- true: children that a turn under way starts are paused too
  forked_from text,
  headers text, -- trace context and headers of the start, as JSON
  tags text, -- a JSON object of strings, sorted by name
  -- PostgreSQL parses every check in each statement. Without any checks, a single hello took 5 % less of the server's time.
  CHECK ((ended_at IS NULL) = (status IN ('pending', 'running', 'canceling')))
) WITH (fillfactor = 50);
CREATE INDEX instances_by_definition ON instances (definition_key, instance_key);
CREATE INDEX instances_by_parent ON instances (parent_instance_id, instance_key)
  WHERE parent_instance_id IS NOT NULL;
CREATE INDEX instances_by_parent_execution ON instances (parent_instance_id, parent_execution_id)
  WHERE parent_instance_id IS NOT NULL;
CREATE INDEX instances_listed ON instances (listed_as, instance_key) WHERE listed_as IS NOT NULL;
CREATE INDEX instances_ended_otherwise ON instances (listed_as, definition_key, instance_key) WHERE listed_as IS NOT NULL;
-- Ends without a worker, for the counts by minute. Completing changes none of its columns, so the update stays heap-only (HOT).
CREATE INDEX instances_stopped ON instances (coalesce(canceled_at, terminated_at, expired_at))
  WHERE coalesce(canceled_at, terminated_at, expired_at) IS NOT NULL;
-- A B-tree of ends would end HOT updates of task runs: 23 % more WAL per run. From PostgreSQL 16 on, a BRIN index does
-- not. Older versions have none, and read the whole table for the order of ends. Several ranges of values per block range
-- keep it selective where some instances end long after their neighbors.
DO $$ BEGIN
  IF current_setting('server_version_num')::int >= 160000 THEN
    CREATE INDEX instances_ended ON instances USING brin (ended_at int8_minmax_multi_ops)
      WITH (pages_per_range = 64, autosummarize = on)
      -- Not for ended_at IS NULL, which the statements of turns and ends have.
      WHERE ended_at IS NOT NULL;
  END IF;
END $$;
CREATE INDEX instances_leaked ON instances (instance_key) WHERE leaked > 0;
CREATE INDEX instances_paused ON instances (instance_key, paused_at) WHERE paused_at IS NOT NULL;
ALTER TABLE instances ADD PRIMARY KEY (instance_key);

-- The orchestrations that have not ended. A key of instances would end HOT updates: an end would change every index.
CREATE TABLE live_instances (
  instance_key bigint PRIMARY KEY
) ${queueOf(100)};

-- Executions before the current one: continued as new, retried or replaced. The current one is read from its instance,
-- which saves two writes per run.
CREATE TABLE executions (
  instance_key bigint NOT NULL,
  execution_id integer NOT NULL,
  definition_key integer NOT NULL,
  status text NOT NULL
    CHECK (status IN ('continuedAsNew', 'completed', 'failed', 'canceled', 'terminated', 'expired')),
  history_length integer NOT NULL,
  started_at bigint NOT NULL,
  ended_at bigint NOT NULL,
  failure text, -- of an execution that was retried
  reason text, -- why it was canceled or terminated
  PRIMARY KEY (instance_key, execution_id)
);

CREATE TABLE history (
  instance_key bigint NOT NULL,
  execution_id integer NOT NULL,
  event_id integer NOT NULL,
  kind text NOT NULL,
  at bigint NOT NULL,
  data text NOT NULL,
  payload text,
  PRIMARY KEY (instance_key, execution_id, event_id)
);

-- One row per instance with messages, a lock or claims. An instance that waits for activities only has none.
CREATE TABLE instance_locks (
  instance_key bigint,
  definition_key integer NOT NULL,
  next_at bigint, -- claimable from: first message visible, hold-back ended, or lock expired
  held_until bigint,
  cleanup_at bigint, -- of a canceling instance: any worker may claim it from then on, to end it
  lock_token text,
  locked_until bigint,
  claims integer NOT NULL,
  suspect boolean NOT NULL GENERATED ALWAYS AS (claims > 1) STORED, -- may have killed its process: claimed alone
  blocked_reason text,
  blocked_build text COLLATE "C",
  blocked_at bigint,
  blocked_details text, -- JSON: code, worker, event and commands
  claimed_by text, -- name of the last worker that claimed it, if known
  claimed_at bigint,
  CHECK ((lock_token IS NULL) = (locked_until IS NULL))
) ${queue};
CREATE INDEX instance_locks_due ON instance_locks (definition_key, suspect, next_at, instance_key)
  WHERE next_at IS NOT NULL;
CREATE INDEX instance_locks_blocked ON instance_locks (definition_key, blocked_build)
  WHERE blocked_build IS NOT NULL;
CREATE INDEX instance_locks_blocked_keys ON instance_locks (instance_key) WHERE blocked_build IS NOT NULL;
CREATE INDEX instance_locks_cleanup ON instance_locks (greatest(cleanup_at, locked_until), instance_key)
  WHERE cleanup_at IS NOT NULL;
ALTER TABLE instance_locks ADD PRIMARY KEY (instance_key);

CREATE TABLE orchestrator_queue (
  message_key bigint GENERATED ALWAYS AS IDENTITY,
  instance_key bigint NOT NULL,
  visible_at bigint NOT NULL,
  kind text COLLATE "C" NOT NULL,
  execution_id integer,
  operation integer,
  data text NOT NULL,
  payload text
) ${queue};
CREATE INDEX orchestrator_queue_by_instance ON orchestrator_queue (instance_key, visible_at, message_key);
CREATE UNIQUE INDEX orchestrator_queue_timers ON orchestrator_queue (instance_key, execution_id, operation)
  WHERE kind = 'timerFired';
ALTER TABLE orchestrator_queue ADD PRIMARY KEY (message_key);

CREATE TABLE worker_queue (
  item_key bigint GENERATED ALWAYS AS IDENTITY,
  instance_key bigint NOT NULL,
  next_at bigint NOT NULL, -- claimable from, unless held: delay ended, or lock expired
  created_at bigint NOT NULL,
  execution_id integer NOT NULL,
  operation integer NOT NULL, -- number within its execution; of tasks 1: the run, 2: its onFail handler
  definition_key integer NOT NULL,
  claims integer NOT NULL,
  failures integer NOT NULL DEFAULT 0,
  priority smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100), -- a claim reads at most 201 ranges
  suspect boolean NOT NULL GENERATED ALWAYS AS (claims > 1) STORED, -- may have killed its process: claimed alone
  delayed boolean NOT NULL GENERATED ALWAYS AS ( -- not in its lane before a claim wakes it
    lane IS NOT NULL AND next_at > coalesce(awake_at, created_at)) STORED,
  cancel_requested boolean NOT NULL DEFAULT false,
  shielded boolean NOT NULL DEFAULT false,
  point_of_no_return boolean NOT NULL DEFAULT false,
  lane text COLLATE "C", -- NULL: its definition was not limited at the insert
  limit_key integer, -- of an item with a lane: the definition whose limits count it. Negative if the instance is paused
  cancellation text COLLATE "C" NOT NULL DEFAULT 'request',
  lock_token text,
  locked_until bigint,
  expires_at bigint, -- of a task run that was never claimed: when it expires
  cancel_requested_at bigint, -- without cancel_requested: recorded after the point of no return, not delivered
  started_at bigint, -- of a task run or its onFail handler: first claim that was not returned unstarted
  claimed_at bigint, -- NULL: not claimed, or claimed by the insert
  claimed_by text, -- name of the last worker that claimed it, if known
  options text,
  payload text,
  weight smallint, -- of a run that chose one: the weight of its lane
  awake_at bigint, -- of an item of a lane that was delayed: when a claim found it due
  max_attempts bigint, -- limit of the worker that failed last; NULL: none or unknown
  cancel_trigger text,
  cancel_reason text,
  last_failure text,
  heartbeat text,
  heartbeat_at bigint,
  CHECK ((lock_token IS NULL) = (locked_until IS NULL)),
  UNIQUE (instance_key, execution_id, operation)
) ${claimedInPlace};
CREATE INDEX worker_queue_due ON worker_queue (definition_key, suspect, priority DESC, next_at, item_key)
  WHERE NOT cancel_requested AND lane IS NULL;
CREATE INDEX worker_queue_expiring ON worker_queue (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX worker_queue_flagged ON worker_queue (next_at, cancel_requested_at) WHERE cancel_requested;
ALTER TABLE worker_queue ADD PRIMARY KEY (item_key);

-- The run that holds a dedupe key, from its creation until its item is deleted.
CREATE TABLE dedupe_keys (
  definition_key integer NOT NULL,
  dedupe_key text COLLATE "C" NOT NULL,
  instance_key bigint NOT NULL UNIQUE,
  PRIMARY KEY (definition_key, dedupe_key)
) ${queue};

CREATE TABLE schedules (
  name text COLLATE "C" PRIMARY KEY,
  definition text NOT NULL,
  revision bigint NOT NULL,
  paused boolean NOT NULL DEFAULT false,
  next_at bigint,
  last_tick_at bigint,
  last_instance_id text,
  last_error text,
  run_ids text, -- JSON list of ids, oldest first
  buffered_ticks text, -- JSON list of times, earliest first
  skipped_ticks bigint NOT NULL DEFAULT 0,
  created_at bigint NOT NULL,
  updated_at bigint NOT NULL
);
CREATE INDEX schedules_due ON schedules (next_at, name) WHERE NOT paused AND next_at IS NOT NULL;
CREATE INDEX schedules_buffered ON schedules (name) WHERE NOT paused AND buffered_ticks IS NOT NULL;

-- Histories of deleted instances and executions that are not deleted yet. No query finds them: an
-- instance_key is never reused.
CREATE TABLE pending_reclaims (
  instance_key bigint NOT NULL,
  execution_id integer NOT NULL, -- 0: all executions of the instance
  events bigint NOT NULL,
  from_execution integer NOT NULL DEFAULT 0, -- end of the part that is already deleted
  from_event integer NOT NULL DEFAULT 0,
  PRIMARY KEY (instance_key, execution_id)
) ${queue};

-- Claims deleted with their items, kept until their leases would expire: renewals return the reason.
CREATE TABLE tombstones (
  item_key bigint PRIMARY KEY, -- never reused, so an item is deleted once
  lock_token text NOT NULL,
  deleted_at bigint NOT NULL,
  locked_until bigint NOT NULL
) ${queue};
CREATE INDEX tombstones_by_end ON tombstones (locked_until, deleted_at);

-- Actions of operators, and counts of deletions and prunes. The oldest records are deleted.
CREATE TABLE audit (
  audit_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  audit_id text COLLATE "C" NOT NULL UNIQUE,
  action text NOT NULL,
  actor text,
  reason text,
  filter text NOT NULL,
  instance_id text COLLATE "C", -- NULL after the instance is deleted
  at bigint NOT NULL,
  instances bigint NOT NULL DEFAULT 0,
  progress_key bigint, -- of a bulk event: the smallest instance_key that it has visited
  instances_deleted bigint NOT NULL,
  executions_deleted bigint NOT NULL,
  events_deleted bigint NOT NULL,
  queue_messages_deleted bigint NOT NULL
);
CREATE INDEX audit_by_instance ON audit (instance_id, audit_key) WHERE instance_id IS NOT NULL;

-- Leases on work that one process does for all, such as retention.
CREATE TABLE leases (
  name text COLLATE "C" PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  expires_at bigint NOT NULL
);

-- Records of the whole store.
CREATE TABLE system_records (
  name text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

-- Processes that claim work. Those of one host detect which of them died, and end their claims.
CREATE TABLE processes (
  process_id text COLLATE "C" PRIMARY KEY, -- prefix of the lock tokens of its claims
  host_id text COLLATE "C" NOT NULL, -- only processes with the same host id can detect whether it is alive
  pid integer NOT NULL,
  start_time text NOT NULL, -- distinguishes it from a later process with the same pid
  lease_ms bigint NOT NULL, -- the longest lease of its claims
  registered_at bigint NOT NULL
);
CREATE INDEX processes_by_host ON processes (host_id);
CREATE INDEX processes_by_age ON processes (registered_at);
`,
};
