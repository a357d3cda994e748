import type { Migration } from '../../shared/migrations.ts';

/** Adds the recorded streams of runs. A run that emits nothing has no rows. */
export const streams: Migration = {
  number: 7,
  name: 'streams',
  sql: `
CREATE TABLE streams (
  instance_key INTEGER PRIMARY KEY,
  first_seq INTEGER NOT NULL, -- the oldest chunk that is kept
  last_seq INTEGER NOT NULL,
  bytes INTEGER NOT NULL, -- of the chunks that are kept
  is_deleted INTEGER NOT NULL DEFAULT 0 -- its instance was deleted, and some of its chunks are left
) STRICT;
CREATE INDEX streams_deleted ON streams (instance_key) WHERE is_deleted = 1;

CREATE TABLE stream_chunks (
  instance_key INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  place INTEGER NOT NULL, -- its number among the chunks of its source; 0 for a turn
  source TEXT NOT NULL,
  payload TEXT NOT NULL,
  PRIMARY KEY (instance_key, seq)
) STRICT, WITHOUT ROWID;
`,
};
