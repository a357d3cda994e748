import type { Migration } from '../../shared/migrations.ts';

/** Adds pauses of definitions. Pauses of instances are columns of their rows. */
export const pause: Migration = {
  number: 5,
  name: 'pause',
  sql: `
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
