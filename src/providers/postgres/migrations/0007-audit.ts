import type { Migration } from '../../shared/migrations.ts';

/** The audit records every operator action: with its reason, its instance and the number of changed instances. */
export const audit: Migration = {
  number: 7,
  name: 'audit',
  sql: `
ALTER TABLE audit
  ADD COLUMN reason text,
  ADD COLUMN instance_id text COLLATE "C", -- NULL after the instance is deleted
  ADD COLUMN instances bigint NOT NULL DEFAULT 0,
  ADD COLUMN progress_key bigint; -- of a bulk event: the smallest instance_key that it has visited
UPDATE audit SET instances = CASE WHEN action IN ('delete', 'prune') THEN 1 ELSE instances_deleted END;
CREATE INDEX audit_by_instance ON audit (instance_id, audit_key) WHERE instance_id IS NOT NULL;
`,
};
