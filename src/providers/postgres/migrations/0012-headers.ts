import type { Migration } from '../../shared/migrations.ts';

/** Adds the headers of a start, which carry its trace context. NULL unless the caller has telemetry. */
export const headers: Migration = {
  number: 12,
  name: 'headers',
  sql: `
ALTER TABLE instances ADD COLUMN headers text;
`,
};
