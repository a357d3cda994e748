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

CREATE TABLE awakeables (
  token_hash TEXT PRIMARY KEY,
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  operation INTEGER NOT NULL,
  answer_key TEXT -- NULL: not answered
) STRICT, WITHOUT ROWID;

CREATE INDEX awakeables_by_operation ON awakeables (instance_key, execution_id, operation);

CREATE TABLE changes (
  change_key INTEGER PRIMARY KEY, -- without gaps, so that a reader detects missed rows
  origin INTEGER NOT NULL, -- the connection that committed
  at INTEGER NOT NULL,
  finished TEXT,
  status_set TEXT
) STRICT;

CREATE TABLE chunks (
  instance_key INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  payload TEXT NOT NULL,
  PRIMARY KEY (instance_key, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE declared_limits (
  declaration_key INTEGER PRIMARY KEY, -- grows with the first declaration of a build
  definition_key INTEGER NOT NULL,
  build_id TEXT NOT NULL,
  limits TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  UNIQUE (definition_key, build_id)
) STRICT;

CREATE TABLE dedupe_keys (
  definition_key INTEGER NOT NULL,
  dedupe_key TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  PRIMARY KEY (definition_key, dedupe_key)
) STRICT, WITHOUT ROWID;

CREATE TABLE definitions (
  definition_key INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('orchestration', 'activity', 'task')),
  name TEXT NOT NULL,
  version TEXT NOT NULL, -- '' until a version is chosen
  UNIQUE (kind, name, version)
) STRICT;

CREATE TABLE deleted_starts (
  start_key TEXT PRIMARY KEY, -- a hash of the instance id and the incarnation
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX deleted_starts_expiry ON deleted_starts (expires_at);

CREATE TABLE event_keys (
  instance_key INTEGER NOT NULL,
  event_key TEXT NOT NULL,
  PRIMARY KEY (instance_key, event_key)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE instance_deadlines (
  instance_key INTEGER PRIMARY KEY,
  timeout_ms INTEGER NOT NULL,
  due_at INTEGER -- NULL: applied. A retry sets it again
) STRICT;

CREATE INDEX instance_deadlines_due ON instance_deadlines (due_at) WHERE due_at IS NOT NULL;

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

CREATE INDEX instance_locks_blocked ON instance_locks (definition_key, blocked_build)
  WHERE blocked_build IS NOT NULL;

CREATE INDEX instance_locks_blocked_keys ON instance_locks (instance_key) WHERE blocked_build IS NOT NULL;

CREATE INDEX instance_locks_cleanup ON instance_locks (max(cleanup_at, coalesce(locked_until, 0)))
  WHERE cleanup_at IS NOT NULL;

CREATE INDEX instance_locks_due ON instance_locks (definition_key, (claims > 1), next_at)
  WHERE next_at IS NOT NULL;

CREATE TRIGGER instance_places_freed AFTER DELETE ON instance_places
WHEN OLD.has_begun = 1
BEGIN
  UPDATE lanes SET running = running - 1, ready = more WHERE definition_key = OLD.definition_key AND lane = OLD.lane;
  UPDATE limits SET running = running - 1, freed = freed + 1 WHERE definition_key = OLD.definition_key;
END;

CREATE TABLE instance_places (
  instance_key INTEGER PRIMARY KEY,
  definition_key INTEGER NOT NULL, -- of the name without a version
  lane TEXT NOT NULL,
  has_begun INTEGER NOT NULL CHECK (has_begun IN (0, 1)) -- 0: waits for a place
) STRICT;

CREATE INDEX instance_places_by_lane ON instance_places (definition_key, has_begun, lane, instance_key);

CREATE TABLE instance_state (
  instance_key INTEGER NOT NULL,
  key TEXT NOT NULL, -- the empty key counts the changes of the instance
  version INTEGER NOT NULL,
  value TEXT,
  PRIMARY KEY (instance_key, key)
) STRICT;

CREATE TABLE instance_tags (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  PRIMARY KEY (name, value, instance_key)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER instances_deleted_places AFTER DELETE ON instances
WHEN OLD.limited = 1
BEGIN
  DELETE FROM instance_places WHERE instance_key = OLD.instance_key;
  DELETE FROM run_lanes WHERE instance_key = OLD.instance_key;
END;

CREATE TRIGGER instances_paused_places AFTER UPDATE OF paused_at ON instances
WHEN NEW.limited = 1 AND NEW.paused_at IS NOT NULL
BEGIN
  DELETE FROM instance_places WHERE instance_key = NEW.instance_key AND has_begun = 0;
END;

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

CREATE INDEX instances_by_status ON instances (status) WHERE status <> 'completed';

CREATE INDEX instances_ended ON instances (ended_at) WHERE ended_at IS NOT NULL;

CREATE INDEX instances_ended_otherwise ON instances (status, definition_key)
  WHERE ended_at IS NOT NULL AND status <> 'completed';

CREATE INDEX instances_leaked ON instances (instance_key) WHERE leaked > 0;

CREATE INDEX instances_paused ON instances (instance_key, paused_at) WHERE paused_at IS NOT NULL;

CREATE INDEX instances_stopped ON instances (coalesce(canceled_at, terminated_at, expired_at))
  WHERE coalesce(canceled_at, terminated_at, expired_at) IS NOT NULL;

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

CREATE TABLE lanes (
  definition_key INTEGER NOT NULL,
  lane TEXT NOT NULL,
  weight INTEGER NOT NULL DEFAULT 1,
  running INTEGER NOT NULL DEFAULT 0,
  tat INTEGER NOT NULL DEFAULT 0,
  vtime INTEGER NOT NULL DEFAULT 0,
  more INTEGER NOT NULL DEFAULT 0 CHECK (more IN (0, 1)), -- 1: may have items that are due
  ready INTEGER NOT NULL DEFAULT 0 CHECK (ready IN (0, 1)), -- 1: more, and may have a place and a token
  wake_at INTEGER, -- when a delayed item or a token makes it ready
  PRIMARY KEY (definition_key, lane)
) STRICT, WITHOUT ROWID;

CREATE INDEX lanes_idle ON lanes (definition_key, tat) WHERE running = 0 AND more = 0 AND wake_at IS NULL;

CREATE INDEX lanes_ready ON lanes (definition_key, vtime, lane) WHERE ready = 1;

CREATE INDEX lanes_wake ON lanes (definition_key, wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE large_payloads (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL,
  event_id INTEGER NOT NULL,
  payload TEXT NOT NULL,
  UNIQUE (instance_key, execution_id, event_id)
) STRICT;

CREATE TABLE leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE limits (
  definition_key INTEGER PRIMARY KEY,
  declared TEXT NOT NULL, -- by the newest build
  declared_by TEXT,
  override TEXT, -- by an operator
  effective TEXT NOT NULL,
  running INTEGER NOT NULL DEFAULT 0,
  tat INTEGER NOT NULL DEFAULT 0, -- theoretical arrival time of the rate, in microseconds
  vclock INTEGER NOT NULL DEFAULT 0, -- virtual time of the last claim
  freed INTEGER NOT NULL DEFAULT 0, -- counts freed places, so that a commit wakes workers
  convert_from INTEGER, -- items from this key on may have no lane yet; NULL: all have one
  convert_to INTEGER
) STRICT;

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

CREATE TABLE paused_definitions (
  kind TEXT NOT NULL CHECK (kind IN ('orchestration', 'activity', 'task')),
  name TEXT NOT NULL,
  paused_at INTEGER NOT NULL,
  reason TEXT,
  actor TEXT,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE pending_reclaims (
  instance_key INTEGER NOT NULL,
  execution_id INTEGER NOT NULL, -- 0: all executions of the instance
  events INTEGER NOT NULL,
  PRIMARY KEY (instance_key, execution_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE perdure_migrations (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  checksum TEXT NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

CREATE TABLE processes (
  process_id TEXT PRIMARY KEY, -- prefix of the lock tokens of its claims
  host_id TEXT NOT NULL, -- only processes with the same host id can detect whether it is alive
  pid INTEGER NOT NULL,
  start_time TEXT NOT NULL, -- distinguishes it from a later process with the same pid
  lease_ms INTEGER NOT NULL, -- the longest lease of its claims
  registered_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX processes_by_age ON processes (registered_at);

CREATE INDEX processes_by_host ON processes (host_id);

CREATE TABLE run_lanes (
  instance_key INTEGER PRIMARY KEY,
  lane TEXT NOT NULL,
  weight INTEGER NOT NULL
) STRICT;

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

CREATE INDEX schedules_buffered ON schedules (name) WHERE paused = 0 AND buffered_ticks IS NOT NULL;

CREATE INDEX schedules_due ON schedules (next_at, name) WHERE paused = 0 AND next_at IS NOT NULL;

CREATE TABLE series (
  minute INTEGER NOT NULL, -- start of the minute
  name TEXT NOT NULL, -- '': all definitions; 'other': those beyond the first 200
  data TEXT NOT NULL,
  PRIMARY KEY (name, minute)
) STRICT, WITHOUT ROWID;

CREATE INDEX series_minute ON series (minute);

CREATE TABLE series_writers (
  writer_id TEXT NOT NULL PRIMARY KEY,
  last_batch INTEGER NOT NULL, -- a batch with this or a smaller number was applied
  written_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

CREATE TABLE start_keys (
  definition_key INTEGER NOT NULL, -- of an orchestration: the one without a version
  kind TEXT NOT NULL CHECK (kind IN ('dedupe', 'debounce')),
  start_key TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, -- the end of a dedupe window; when a debounce key may be swept
  moves INTEGER NOT NULL, -- of a debounced run
  request_key TEXT, -- of the newest start of a debounced run
  PRIMARY KEY (definition_key, kind, start_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX start_keys_expiry ON start_keys (expires_at);

CREATE INDEX start_keys_instance ON start_keys (instance_key);

CREATE TABLE stream_chunks (
  instance_key INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  place INTEGER NOT NULL, -- its number among the chunks of its source; 0 for a turn
  source TEXT NOT NULL,
  payload TEXT NOT NULL,
  PRIMARY KEY (instance_key, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE streams (
  instance_key INTEGER PRIMARY KEY,
  first_seq INTEGER NOT NULL, -- the oldest chunk that is kept
  last_seq INTEGER NOT NULL,
  bytes INTEGER NOT NULL, -- of the chunks that are kept
  is_deleted INTEGER NOT NULL DEFAULT 0 -- its instance was deleted, and some of its chunks are left
) STRICT;

CREATE INDEX streams_deleted ON streams (instance_key) WHERE is_deleted = 1;

CREATE TABLE system_records (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tombstones (
  item_key INTEGER NOT NULL,
  lock_token TEXT NOT NULL,
  deleted_at INTEGER NOT NULL,
  locked_until INTEGER NOT NULL,
  PRIMARY KEY (item_key, lock_token)
) STRICT, WITHOUT ROWID;

CREATE INDEX tombstones_by_end ON tombstones (locked_until, deleted_at);

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

CREATE TRIGGER worker_queue_resumed AFTER UPDATE OF definition_key ON worker_queue
WHEN NEW.lane IS NOT NULL AND NEW.definition_key > 0
BEGIN
  INSERT INTO lanes (definition_key, lane, vtime, more, ready)
  SELECT definition_key, NEW.lane, vclock, 1, 1 FROM limits WHERE definition_key = NEW.limit_key
  ON CONFLICT (definition_key, lane) DO UPDATE SET more = 1, ready = 1;
END;

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

CREATE INDEX worker_queue_lane_suspects ON worker_queue (limit_key, next_at)
  WHERE lane IS NOT NULL AND place = 0 AND cancel_requested = 0 AND claims > 1;

CREATE INDEX worker_queue_lanes ON worker_queue (limit_key, lane, (claims > 1), priority DESC, next_at)
  WHERE lane IS NOT NULL AND place = 0 AND cancel_requested = 0;

CREATE INDEX worker_queue_places ON worker_queue (locked_until) WHERE place = 1;

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
