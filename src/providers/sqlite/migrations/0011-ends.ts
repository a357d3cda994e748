import type { Migration } from '../../shared/migrations.ts';

/** Adds the order of ends. Each end appends one entry. */
export const ends: Migration = {
  number: 11,
  name: 'ends',
  sql: `
CREATE INDEX instances_ended ON instances (ended_at) WHERE ended_at IS NOT NULL;
`,
};
