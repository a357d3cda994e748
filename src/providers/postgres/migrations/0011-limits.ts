import type { Migration } from '../../shared/migrations.ts';

/**
 * Adds limits of definitions, and lanes: the queues of their keys. Definitions without limits have no rows here, and
 * their items have no lane. The rules are in `providers/rules/limits.ts`.
 */
export const limits: Migration = {
  number: 11,
  name: 'limits',
  sql: `
CREATE TABLE limits (
  definition_key integer PRIMARY KEY,
  declared text NOT NULL, -- by the newest build
  declared_by text,
  override text, -- by an operator
  effective text NOT NULL,
  running bigint NOT NULL DEFAULT 0,
  tat bigint NOT NULL DEFAULT 0, -- theoretical arrival time of the rate, in microseconds
  vclock bigint NOT NULL DEFAULT 0 -- virtual time of the last claim
);

CREATE TABLE declared_limits (
  declaration_key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- grows with the first declaration of a build
  definition_key integer NOT NULL,
  build_id text NOT NULL,
  limits text NOT NULL,
  first_at bigint NOT NULL,
  UNIQUE (definition_key, build_id)
);

CREATE TABLE lanes (
  definition_key integer NOT NULL,
  lane text COLLATE "C" NOT NULL,
  weight integer NOT NULL DEFAULT 1,
  running bigint NOT NULL DEFAULT 0,
  tat bigint NOT NULL DEFAULT 0,
  vtime bigint NOT NULL DEFAULT 0,
  more boolean NOT NULL DEFAULT false, -- may have items that are due
  ready boolean NOT NULL DEFAULT false, -- more, and may have a place and a token
  wake_at bigint, -- when a delayed item or a token makes it ready
  PRIMARY KEY (definition_key, lane)
);
CREATE INDEX lanes_ready ON lanes (definition_key, vtime, lane) WHERE ready;
CREATE INDEX lanes_wake ON lanes (definition_key, wake_at) WHERE wake_at IS NOT NULL;

-- The keys of task runs, for their onFail handlers and reruns.
CREATE TABLE run_lanes (
  instance_key bigint PRIMARY KEY,
  lane text NOT NULL,
  weight integer NOT NULL
);
`,
};
