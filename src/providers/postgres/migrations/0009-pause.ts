import type { Migration } from '../../shared/migrations.ts';

/** Adds pauses of instances and of definitions. The queue rows of a paused instance have negative definition keys. */
export const pause: Migration = {
  number: 9,
  name: 'pause',
  sql: `
ALTER TABLE instances
  ADD COLUMN paused_at bigint,
  ADD COLUMN paused_reason text,
  ADD COLUMN paused_actor text,
  ADD COLUMN paused_tree boolean; -- true: children that a turn under way starts are paused too
CREATE INDEX instances_paused ON instances (instance_key, paused_at) WHERE paused_at IS NOT NULL;

CREATE TABLE paused_definitions (
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('orchestration', 'activity', 'task')),
  name text COLLATE "C" NOT NULL,
  paused_at bigint NOT NULL,
  reason text,
  actor text,
  PRIMARY KEY (kind, name)
);
`,
};
