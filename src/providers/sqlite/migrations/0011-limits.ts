import type { Migration } from '../../shared/migrations.ts';

/**
 * Adds limits of definitions, and lanes: the queues of their keys. Definitions without limits have no rows here, and
 * their items have no lane. Calls of a limited task are counted with its runs: their `limit_key` is that of the task.
 * The rules are in `providers/rules/limits.ts`.
 *
 * The triggers that free places come with the first limit: see `limits/limit-triggers.ts`.
 */
export const limits: Migration = {
  number: 11,
  name: 'limits',
  sql: `
CREATE INDEX worker_queue_lanes ON worker_queue (limit_key, lane, (claims > 1), priority DESC, next_at)
  WHERE lane IS NOT NULL AND place = 0 AND cancel_requested = 0;
CREATE INDEX worker_queue_lane_suspects ON worker_queue (limit_key, next_at)
  WHERE lane IS NOT NULL AND place = 0 AND cancel_requested = 0 AND claims > 1;
CREATE INDEX worker_queue_places ON worker_queue (locked_until) WHERE place = 1;

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

CREATE TABLE declared_limits (
  declaration_key INTEGER PRIMARY KEY, -- grows with the first declaration of a build
  definition_key INTEGER NOT NULL,
  build_id TEXT NOT NULL,
  limits TEXT NOT NULL,
  first_at INTEGER NOT NULL,
  UNIQUE (definition_key, build_id)
) STRICT;

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
CREATE INDEX lanes_ready ON lanes (definition_key, vtime, lane) WHERE ready = 1;
CREATE INDEX lanes_wake ON lanes (definition_key, wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX lanes_idle ON lanes (definition_key, tat) WHERE running = 0 AND more = 0 AND wake_at IS NULL;

-- The keys of task runs, for their onFail handlers and reruns.
CREATE TABLE run_lanes (
  instance_key INTEGER PRIMARY KEY,
  lane TEXT NOT NULL,
  weight INTEGER NOT NULL
) STRICT;

CREATE TRIGGER worker_queue_resumed AFTER UPDATE OF definition_key ON worker_queue
WHEN NEW.lane IS NOT NULL AND NEW.definition_key > 0
BEGIN
  INSERT INTO lanes (definition_key, lane, vtime, more, ready)
  SELECT definition_key, NEW.lane, vclock, 1, 1 FROM limits WHERE definition_key = NEW.limit_key
  ON CONFLICT (definition_key, lane) DO UPDATE SET more = 1, ready = 1;
END;
`,
};
