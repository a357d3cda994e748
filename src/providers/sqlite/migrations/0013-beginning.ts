import type { Migration } from '../../shared/migrations.ts';

/**
 * Adds the places of orchestrations whose number is limited. An instance has a row from its first claim until its end.
 * Triggers free its place, so that no statement can omit it. The one of its end comes with the first limit.
 */
export const beginning: Migration = {
  number: 13,
  name: 'beginning',
  sql: `
CREATE TABLE instance_places (
  instance_key INTEGER PRIMARY KEY,
  definition_key INTEGER NOT NULL, -- of the name without a version
  lane TEXT NOT NULL,
  has_begun INTEGER NOT NULL CHECK (has_begun IN (0, 1)) -- 0: waits for a place
) STRICT;
CREATE INDEX instance_places_by_lane ON instance_places (definition_key, has_begun, lane, instance_key);

CREATE TRIGGER instances_deleted_places AFTER DELETE ON instances
WHEN OLD.limited = 1
BEGIN
  DELETE FROM instance_places WHERE instance_key = OLD.instance_key;
  DELETE FROM run_lanes WHERE instance_key = OLD.instance_key;
END;

-- A paused instance lets others pass, and waits again after its resume.
CREATE TRIGGER instances_paused_places AFTER UPDATE OF paused_at ON instances
WHEN NEW.limited = 1 AND NEW.paused_at IS NOT NULL
BEGIN
  DELETE FROM instance_places WHERE instance_key = NEW.instance_key AND has_begun = 0;
END;

CREATE TRIGGER instance_places_freed AFTER DELETE ON instance_places
WHEN OLD.has_begun = 1
BEGIN
  UPDATE lanes SET running = running - 1, ready = more WHERE definition_key = OLD.definition_key AND lane = OLD.lane;
  UPDATE limits SET running = running - 1, freed = freed + 1 WHERE definition_key = OLD.definition_key;
END;
`,
};
