import type { Migration } from '../../shared/migrations.ts';

/** Adds the starts of instances that were deleted soon after their creation. Other deletions add no row. */
export const deletedStarts: Migration = {
  number: 14,
  name: 'deleted-starts',
  sql: `
CREATE TABLE deleted_starts (
  start_key TEXT PRIMARY KEY, -- a hash of the instance id and the incarnation
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deleted_starts_expiry ON deleted_starts (expires_at);
`,
};
