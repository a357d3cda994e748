import type { Migration } from '../../shared/migrations.ts';

/** Adds the counts by minute and definition. */
export const series: Migration = {
  number: 6,
  name: 'series',
  sql: `
CREATE TABLE series (
  minute bigint NOT NULL, -- start of the minute
  name text COLLATE "C" NOT NULL, -- '': all definitions; 'other': those beyond the first 200
  data text NOT NULL,
  PRIMARY KEY (name, minute)
);
CREATE INDEX series_minute ON series (minute);

CREATE TABLE series_writers (
  writer_id text COLLATE "C" PRIMARY KEY,
  last_batch bigint NOT NULL, -- a batch with this or a smaller number was applied
  written_at bigint NOT NULL
);
`,
};
