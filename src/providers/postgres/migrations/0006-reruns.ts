import type { Migration } from '../../shared/migrations.ts';

/** Adds retries and forks: an earlier execution can have ended in any way. */
export const reruns: Migration = {
  number: 6,
  name: 'reruns',
  sql: `
ALTER TABLE instances ADD COLUMN forked_from text;
ALTER TABLE executions DROP CONSTRAINT executions_status_check;
ALTER TABLE executions ADD CONSTRAINT executions_status_check
  CHECK (status IN ('continuedAsNew', 'failed', 'canceled', 'terminated', 'expired'));
ALTER TABLE executions ADD COLUMN failure text; -- of an execution that was retried
ALTER TABLE executions ADD COLUMN reason text; -- why it was canceled or terminated
`,
};
