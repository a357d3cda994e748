import type { Migration } from '../../shared/migrations.ts';

/** Adds pauses of definitions. Pauses of instances are columns of their rows. */
export const pause: Migration = {
  number: 5,
  name: 'pause',
  sql: `
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
