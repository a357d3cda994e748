/**
 * Triggers that free places, so that no statement can omit it. They fire for items that are deleted, handed back or claimed
 * again, and for orchestrations that end.
 *
 * The transaction that inserts the first limit of a store creates them. A trigger whose condition is false adds 1.1 to
 * 1.3 µs to each claim, each deletion of an item, and each end of an instance.
 */
export const limitTriggers = `
CREATE TRIGGER IF NOT EXISTS worker_queue_handed_back AFTER UPDATE OF lock_token ON worker_queue
WHEN OLD.place = 1 AND NEW.lock_token IS NOT OLD.lock_token
BEGIN
  UPDATE worker_queue SET place = 0 WHERE item_key = NEW.item_key;
  UPDATE lanes SET running = running - 1, more = 1, ready = 1
  WHERE definition_key = abs(NEW.limit_key) AND lane = NEW.lane;
  UPDATE limits SET running = running - 1, freed = freed + 1 WHERE definition_key = abs(NEW.limit_key);
END;

CREATE TRIGGER IF NOT EXISTS worker_queue_deleted AFTER DELETE ON worker_queue
WHEN OLD.place = 1
BEGIN
  UPDATE lanes SET running = running - 1, ready = more
  WHERE definition_key = abs(OLD.limit_key) AND lane = OLD.lane;
  UPDATE limits SET running = running - 1, freed = freed + 1 WHERE definition_key = abs(OLD.limit_key);
END;

CREATE TRIGGER IF NOT EXISTS instances_ended_places AFTER UPDATE OF ended_at ON instances
WHEN NEW.limited = 1 AND NEW.ended_at IS NOT NULL
BEGIN
  DELETE FROM instance_places WHERE instance_key = NEW.instance_key;
END;
`;
