import type { Migration } from '../../shared/migrations.ts';
import { triggerWaitMs } from './0011-limits.ts';

/**
 * Adds the places of orchestrations whose number is limited. An instance has a row from its first claim until its end.
 * Triggers free its place, so that no statement can omit it. They lock no row of `limits` or `lanes`.
 */
export const beginning: Migration = {
  number: 13,
  name: 'beginning',
  sql: `
CREATE TABLE instance_places (
  instance_key bigint,
  definition_key integer NOT NULL, -- of the name without a version
  lane text COLLATE "C" NOT NULL,
  has_begun boolean NOT NULL -- false: waits for a place
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX instance_places_by_lane ON instance_places (definition_key, has_begun, lane, instance_key);
ALTER TABLE instance_places ADD PRIMARY KEY (instance_key);

-- Names in the function are qualified, as in the migration of limits.
DO $do$
BEGIN
  EXECUTE format('CREATE FUNCTION free_instance_place() RETURNS trigger LANGUAGE plpgsql AS %L', replace($$
    DECLARE
      is_over boolean := TRUE;
    BEGIN
      IF TG_OP = 'UPDATE' THEN is_over := NEW.ended_at IS NOT NULL; END IF;
      WITH freed AS (
        DELETE FROM SCHEMA.instance_places WHERE instance_key = OLD.instance_key AND (is_over OR NOT has_begun)
        RETURNING definition_key, lane, has_begun)
      INSERT INTO SCHEMA.lane_signals (definition_key, lane, due, freed)
      SELECT definition_key, lane, FALSE, 1 FROM freed WHERE has_begun;
      RETURN NULL;
    END$$, 'SCHEMA', quote_ident(current_schema())));
END
$do$;
-- Adds the triggers of instances, like add_lane_triggers(). A store without limits of orchestrations has none.
DO $do$
BEGIN
  EXECUTE format('CREATE FUNCTION add_instance_triggers() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp SET lock_timeout = ''${triggerWaitMs}ms'' AS %L', replace(replace($$
BEGIN
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = TABLE_NAME::regclass AND tgname = 'limited_instance_changed') THEN RETURN TRUE; END IF;
  LOCK TABLE SCHEMA.instances IN SHARE ROW EXCLUSIVE MODE;
  IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = TABLE_NAME::regclass AND tgname = 'limited_instance_changed') THEN RETURN TRUE; END IF;
  -- One trigger for ends and pauses: each costs every statement that updates instances. Turns that do not end an instance
  -- leave these columns out. A paused instance lets others pass, and waits again after its resume.
  CREATE TRIGGER limited_instance_changed AFTER UPDATE OF ended_at, paused_at ON SCHEMA.instances FOR EACH ROW
    WHEN (NEW.limited AND (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL
      OR OLD.paused_at IS NULL AND NEW.paused_at IS NOT NULL)) EXECUTE FUNCTION SCHEMA.free_instance_place();
  CREATE TRIGGER limited_instance_deleted AFTER DELETE ON SCHEMA.instances FOR EACH ROW
    WHEN (OLD.limited) EXECUTE FUNCTION SCHEMA.free_instance_place();
  RETURN TRUE;
EXCEPTION WHEN lock_not_available THEN
  RETURN FALSE;
END$$, 'SCHEMA', quote_ident(current_schema())),
    'TABLE_NAME', quote_literal(quote_ident(current_schema()) || '.instances')));
END
$do$;
`,
};
