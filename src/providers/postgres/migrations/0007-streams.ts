import type { Migration } from '../../shared/migrations.ts';

/** Adds the recorded streams of runs. A run that emits nothing has no rows. */
export const streams: Migration = {
  number: 7,
  name: 'streams',
  sql: `
CREATE TABLE streams (
  instance_key bigint PRIMARY KEY,
  first_seq bigint NOT NULL, -- the oldest chunk that is kept
  last_seq bigint NOT NULL,
  bytes bigint NOT NULL, -- of the chunks that are kept
  is_deleted boolean NOT NULL DEFAULT FALSE -- its instance was deleted, and some of its chunks are left
) WITH (fillfactor = 50);
CREATE INDEX streams_deleted ON streams (instance_key) WHERE is_deleted;

CREATE TABLE stream_chunks (
  instance_key bigint NOT NULL,
  seq bigint NOT NULL,
  at bigint NOT NULL,
  bytes integer NOT NULL,
  place bigint NOT NULL, -- its number among the chunks of its source; 0 for a turn
  source text NOT NULL,
  payload text NOT NULL,
  PRIMARY KEY (instance_key, seq)
);
`,
};
