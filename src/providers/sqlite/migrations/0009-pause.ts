import type { Migration } from '../../shared/migrations.ts';

/** Adds pauses of instances and of definitions. The queue rows of a paused instance have negative definition keys. */
export const pause: Migration = {
  number: 9,
  name: 'pause',
  sql: `
ALTER TABLE instances ADD COLUMN paused_at INTEGER;
ALTER TABLE instances ADD COLUMN paused_reason TEXT;
ALTER TABLE instances ADD COLUMN paused_actor TEXT;
ALTER TABLE instances ADD COLUMN paused_tree INTEGER; -- 1: children that a turn under way starts are paused too
CREATE INDEX instances_paused ON instances (instance_key, paused_at) WHERE paused_at IS NOT NULL;

CREATE TABLE paused_definitions (
  kind TEXT NOT NULL CHECK (kind IN ('orchestration', 'activity', 'task')),
  name TEXT NOT NULL,
  paused_at INTEGER NOT NULL,
  reason TEXT,
  actor TEXT,
  PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
`,
};
