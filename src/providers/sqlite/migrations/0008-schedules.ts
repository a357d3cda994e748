import type { Migration } from '../../shared/migrations.ts';

/** Overlap of schedules: their runs, buffered ticks and skipped ticks. */
export const schedules: Migration = {
  number: 8,
  name: 'schedules',
  sql: `
ALTER TABLE schedules ADD COLUMN run_ids TEXT; -- JSON list of ids, oldest first
ALTER TABLE schedules ADD COLUMN buffered_ticks TEXT; -- JSON list of times, earliest first
ALTER TABLE schedules ADD COLUMN skipped_ticks INTEGER NOT NULL DEFAULT 0;
CREATE INDEX schedules_buffered ON schedules (name) WHERE paused = 0 AND buffered_ticks IS NOT NULL;
`,
};
