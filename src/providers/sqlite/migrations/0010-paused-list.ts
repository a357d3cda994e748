import type { Migration } from '../../shared/migrations.ts';

/** Sorts the index of paused instances by key, the order of lists. */
export const pausedList: Migration = {
  number: 10,
  name: 'paused-list',
  sql: `
DROP INDEX instances_paused;
CREATE INDEX instances_paused ON instances (instance_key, paused_at) WHERE paused_at IS NOT NULL;
`,
};
