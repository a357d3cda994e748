import type { Migration } from '../../shared/migrations.ts';

/** Adds the starts of instances that were deleted soon after their creation. Other deletions add no row. */
export const deletedStarts: Migration = {
  number: 14,
  name: 'deleted-starts',
  sql: `
CREATE TABLE deleted_starts (
  start_key text COLLATE "C" PRIMARY KEY, -- a hash of the instance id and the incarnation
  expires_at bigint NOT NULL
);
CREATE INDEX deleted_starts_expiry ON deleted_starts (expires_at);
`,
};
