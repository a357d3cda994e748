import type { Migration } from '../../shared/migrations.ts';

// Rows that change with each claim: room on each page for their new versions, and early vacuums.
const changing = (
  fillfactor: number,
) => `WITH (fillfactor = ${fillfactor}, autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0)`;

/**
 * How long the functions that add triggers wait for other transactions. Until then, new writers wait behind them.
 */
export const triggerWaitMs = 300;

/**
 * Adds limits of definitions. The numbers in comments are those of the invariants L1 to L11 in `rules/limits.ts`.
 *
 * Items of a limited definition have a lane: the queue of their key. Calls of a limited task are counted with its runs: their
 * `limit_key` is that of the task. Triggers count the places, so that no path that ends, returns or deletes an item can omit
 * it. They lock no row that another transaction locks for longer than a statement. They run after the row was written: a
 * trigger before it would lock each row once more. The names in the functions are qualified, which is faster than a search
 * path that is set for each call.
 *
 * A store without limits has no triggers: `add_lane_triggers()` adds them with the first limit. See `limits/limit-triggers.ts`.
 */
export const limits: Migration = {
  number: 11,
  name: 'limits',
  sql: `
CREATE INDEX worker_queue_lanes ON worker_queue (limit_key, lane, priority DESC, next_at, item_key)
  WHERE lane IS NOT NULL AND NOT suspect AND NOT delayed AND NOT cancel_requested;
-- Apart: lanes with only suspects would stay at the head of the ready ones.
CREATE INDEX worker_queue_lane_suspects ON worker_queue (limit_key, next_at, item_key)
  WHERE lane IS NOT NULL AND suspect AND NOT delayed AND NOT cancel_requested;
CREATE INDEX worker_queue_delayed ON worker_queue (limit_key, next_at, item_key)
  WHERE lane IS NOT NULL AND delayed AND NOT cancel_requested;

-- One row per limited definition. A claim of the definition locks it (L9).
CREATE TABLE limits (
  definition_key integer PRIMARY KEY,
  declared text NOT NULL, -- by the newest build
  declared_by text,
  override text, -- by an operator
  effective text NOT NULL,
  -- The figures of the effective limits. NULL: none.
  global_limit integer,
  key_limit integer,
  rate_us bigint, -- microseconds per start
  rate_tau bigint, -- how far the theoretical arrival time may be ahead
  rate_per_key boolean NOT NULL DEFAULT false,
  running integer NOT NULL DEFAULT 0, -- places, and those whose release was not read yet (L3)
  tat bigint NOT NULL DEFAULT 0, -- theoretical arrival time of the next start, in microseconds
  vclock bigint NOT NULL DEFAULT 0, -- virtual time of the last start
  signal_cursor text COLLATE "C" NOT NULL DEFAULT '' -- claims read the signals of new items from the lane after it
) ${changing(10)};

CREATE TABLE declared_limits (
  declaration_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- grows with the first declaration of a build
  definition_key integer NOT NULL,
  build_id text COLLATE "C" NOT NULL,
  limits text NOT NULL,
  first_at bigint NOT NULL,
  UNIQUE (definition_key, build_id)
);

-- One row per key that is or was in use. Changed under the row of the definition only (L9).
CREATE TABLE lanes (
  definition_key integer NOT NULL,
  lane text COLLATE "C" NOT NULL, -- '': items without a key
  weight smallint NOT NULL DEFAULT 1,
  running integer NOT NULL DEFAULT 0,
  tat bigint NOT NULL DEFAULT 0,
  vtime bigint NOT NULL DEFAULT 0,
  more boolean NOT NULL DEFAULT false, -- may have items that are due (L6)
  ready boolean NOT NULL DEFAULT false, -- more, and has a place and a token (L7)
  wake_at bigint -- held back by the rate until then. Without more and running: can be deleted from then on
) ${changing(50)};
CREATE INDEX lanes_ready ON lanes (definition_key, vtime, lane) WHERE ready;
CREATE INDEX lanes_waking ON lanes (definition_key, wake_at) WHERE wake_at IS NOT NULL AND more;
CREATE INDEX lanes_idle ON lanes (definition_key, wake_at) WHERE wake_at IS NOT NULL AND NOT more;
ALTER TABLE lanes ADD PRIMARY KEY (definition_key, lane);

-- One row per claimed item with a lane that was not flagged when it was claimed (L1).
CREATE TABLE places (
  item_key bigint,
  definition_key integer NOT NULL,
  lane text COLLATE "C" NOT NULL,
  until bigint NOT NULL -- the end of its lease at the last sweep. A renewal does not change it.
) ${changing(80)};
CREATE INDEX places_until ON places (definition_key, until);
ALTER TABLE places ADD PRIMARY KEY (item_key);

-- Appended by transactions that may not lock lanes (L8), read by the next claim.
CREATE TABLE lane_signals (
  signal_key bigint GENERATED ALWAYS AS IDENTITY,
  definition_key integer NOT NULL,
  lane text COLLATE "C" NOT NULL,
  due boolean NOT NULL, -- the lane has a due item
  weight smallint, -- of a new item
  freed integer NOT NULL -- places that are free, or -1
) ${changing(100)};

-- The keys of task runs, for their onFail handlers and reruns.
CREATE TABLE run_lanes (
  instance_key bigint PRIMARY KEY,
  lane text COLLATE "C" NOT NULL,
  weight smallint NOT NULL
);

-- Apart: freed places must not wait behind a backlog of new items. By lane: nor must one lane wait behind another.
CREATE INDEX lane_signals_freed ON lane_signals (definition_key, signal_key) WHERE freed <> 0;
CREATE INDEX lane_signals_due ON lane_signals (definition_key, lane, signal_key) WHERE freed = 0;

DO $do$
DECLARE
  name text;
  body text;
BEGIN
  FOR name, body IN VALUES
    ('signal_new_items', $$
      INSERT INTO SCHEMA.lane_signals (definition_key, lane, due, weight, freed)
      SELECT abs(limit_key), lane, bool_or(NOT delayed), (array_agg(coalesce(weight, 1) ORDER BY item_key DESC))[1], 0
      FROM added WHERE lane IS NOT NULL AND lock_token IS NULL GROUP BY abs(limit_key), lane;$$),
    ('free_places_of_deleted_items', $$
      WITH freed AS (
        DELETE FROM SCHEMA.places WHERE item_key = ANY (ARRAY(
          SELECT item_key FROM deleted WHERE lane IS NOT NULL AND lock_token IS NOT NULL))
        RETURNING definition_key, lane)
      INSERT INTO SCHEMA.lane_signals (definition_key, lane, due, freed)
      SELECT definition_key, lane, FALSE, count(*) FROM freed GROUP BY definition_key, lane;$$),
    ('account_for_item', $$
      IF NEW.lock_token IS DISTINCT FROM OLD.lock_token THEN
        WITH freed AS (DELETE FROM SCHEMA.places WHERE item_key = OLD.item_key RETURNING definition_key, lane)
        INSERT INTO SCHEMA.lane_signals (definition_key, lane, due, freed) SELECT definition_key, lane, FALSE, 1 FROM freed;
      ELSIF NEW.locked_until < OLD.locked_until THEN
        UPDATE SCHEMA.places SET until = NEW.locked_until WHERE item_key = NEW.item_key;
      END IF;
      IF NEW.lock_token IS NULL AND NOT NEW.delayed THEN
        INSERT INTO SCHEMA.lane_signals (definition_key, lane, due, freed)
        VALUES (abs(NEW.limit_key), NEW.lane, TRUE, 0);
      END IF;$$)
  LOOP
    EXECUTE format('CREATE FUNCTION %I() RETURNS trigger LANGUAGE plpgsql AS %L', name,
      replace('BEGIN ' || body || ' RETURN NULL; END', 'SCHEMA', quote_ident(current_schema())));
  END LOOP;
END
$do$;
-- Adds the triggers of items, unless they exist. Returns false if other transactions wrote items for too long.
-- It runs with the rights of its owner: a role that may only write rows can set the first limit.
DO $do$
BEGIN
  EXECUTE format('CREATE FUNCTION add_lane_triggers() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = ''${triggerWaitMs}ms'' AS %L', replace(replace($$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = TABLE_NAME::regclass AND tgname = 'lane_item_updated') THEN RETURN TRUE; END IF;
  -- Waits for the transactions that have written items. Later ones wait for this transaction, and then run the triggers.
  LOCK TABLE SCHEMA.worker_queue IN SHARE ROW EXCLUSIVE MODE;
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = TABLE_NAME::regclass AND tgname = 'lane_item_updated') THEN RETURN TRUE; END IF;
  -- Inserts and deletions of a batch have one signal per lane.
  CREATE TRIGGER lane_items_inserted AFTER INSERT ON SCHEMA.worker_queue REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.signal_new_items();
  CREATE TRIGGER lane_items_deleted AFTER DELETE ON SCHEMA.worker_queue REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT EXECUTE FUNCTION SCHEMA.free_places_of_deleted_items();
  -- Waking a delayed item changes its awake_at. That claim also changes the lane.
  CREATE TRIGGER lane_item_updated AFTER UPDATE ON SCHEMA.worker_queue FOR EACH ROW
    WHEN (NEW.lane IS NOT NULL AND (
      OLD.lock_token IS NOT NULL
        AND (NEW.lock_token IS DISTINCT FROM OLD.lock_token OR NEW.locked_until < OLD.locked_until)
      OR NEW.lock_token IS NULL AND NOT NEW.delayed AND (OLD.lane IS NULL OR OLD.cancel_requested
        OR OLD.definition_key <> NEW.definition_key
        OR OLD.delayed AND NEW.awake_at IS NOT DISTINCT FROM OLD.awake_at)))
    EXECUTE FUNCTION SCHEMA.account_for_item();
  -- Items with a key that were inserted before. No claim has given one of them a place.
  INSERT INTO SCHEMA.lane_signals (definition_key, lane, due, weight, freed)
  SELECT abs(limit_key), lane, bool_or(NOT delayed), (array_agg(coalesce(weight, 1) ORDER BY item_key DESC))[1], 0
  FROM SCHEMA.worker_queue WHERE lane IS NOT NULL GROUP BY abs(limit_key), lane;
  RETURN TRUE;
EXCEPTION WHEN lock_not_available THEN
  RETURN FALSE;
END$$, 'SCHEMA', quote_ident(current_schema())),
    'TABLE_NAME', quote_literal(quote_ident(current_schema()) || '.worker_queue')));
END
$do$;
`,
};
