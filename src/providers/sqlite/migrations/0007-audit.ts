import type { Migration } from '../../shared/migrations.ts';

/** The audit records every operator action: with its reason, its instance and the number of changed instances. */
export const audit: Migration = {
  number: 7,
  name: 'audit',
  sql: `
ALTER TABLE audit ADD COLUMN reason TEXT;
ALTER TABLE audit ADD COLUMN instance_id TEXT; -- NULL after the instance is deleted
ALTER TABLE audit ADD COLUMN instances INTEGER NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN progress_key INTEGER; -- of a bulk event: the smallest instance_key that it has visited
UPDATE audit SET instances = iif(action IN ('delete', 'prune'), 1, instances_deleted);
CREATE INDEX audit_by_instance ON audit (instance_id) WHERE instance_id IS NOT NULL;
`,
};
