import type { Migration } from '../../shared/migrations.ts';

/** Adds updates and awakeables. They have tables of their own, so that instances without them cost nothing more. */
export const updates: Migration = {
  number: 9,
  name: 'updates',
  sql: `
CREATE TABLE updates (
  instance_key bigint NOT NULL,
  update_key text COLLATE "C" NOT NULL,
  seq bigint NOT NULL, -- 1, 2, 3, … within the instance
  name text COLLATE "C" NOT NULL,
  input_hash text COLLATE "C" NOT NULL,
  requested_at bigint NOT NULL,
  outcome text CHECK (outcome IN ('completed', 'failed', 'rejected', 'interrupted')), -- NULL: no reply yet
  reply text,
  failure text
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX updates_by_seq ON updates (instance_key, seq);
CREATE INDEX updates_open ON updates (instance_key) WHERE outcome IS NULL;
ALTER TABLE updates ADD PRIMARY KEY (instance_key, update_key); -- last, as in migration 0001

CREATE TABLE awakeables (
  token_hash text COLLATE "C" NOT NULL,
  instance_key bigint NOT NULL,
  execution_id integer NOT NULL,
  operation integer NOT NULL,
  answer_key text -- NULL: not answered
) WITH (fillfactor = 80);
CREATE INDEX awakeables_by_operation ON awakeables (instance_key, execution_id, operation);
ALTER TABLE awakeables ADD PRIMARY KEY (token_hash); -- last, as in migration 0001
`,
};
