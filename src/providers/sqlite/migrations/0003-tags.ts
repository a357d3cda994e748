import type { Migration } from '../../shared/migrations.ts';

/** Adds the index of tags. An instance without tags writes nothing here. */
export const tags: Migration = {
  number: 3,
  name: 'tags',
  sql: `
-- The index of instances.tags.
CREATE TABLE instance_tags (
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  instance_key INTEGER NOT NULL,
  PRIMARY KEY (name, value, instance_key)
) STRICT, WITHOUT ROWID;
`,
};
