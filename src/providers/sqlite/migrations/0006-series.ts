import type { Migration } from '../../shared/migrations.ts';

/** Adds the counts by minute and definition. */
export const series: Migration = {
  number: 6,
  name: 'series',
  sql: `
CREATE TABLE series (
  minute INTEGER NOT NULL, -- start of the minute
  name TEXT NOT NULL, -- '': all definitions; 'other': those beyond the first 200
  data TEXT NOT NULL,
  PRIMARY KEY (name, minute)
) STRICT, WITHOUT ROWID;
CREATE INDEX series_minute ON series (minute);

CREATE TABLE series_writers (
  writer_id TEXT NOT NULL PRIMARY KEY,
  last_batch INTEGER NOT NULL, -- a batch with this or a smaller number was applied
  written_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`,
};
