import type { Migration } from '../../shared/migrations.ts';

/** Adds the keys of starts that find another run. Starts without such a key have no row here. */
export const startKeys: Migration = {
  number: 12,
  name: 'start-keys',
  sql: `
CREATE TABLE start_keys (
  definition_key int NOT NULL, -- of an orchestration: the one without a version
  kind text NOT NULL CHECK (kind IN ('dedupe', 'debounce')),
  start_key text COLLATE "C" NOT NULL,
  instance_key bigint NOT NULL,
  expires_at bigint NOT NULL, -- the end of a dedupe window; when a debounce key may be swept
  moves int NOT NULL, -- of a debounced run
  request_key text, -- of the newest start of a debounced run
  PRIMARY KEY (definition_key, kind, start_key)
);
CREATE INDEX start_keys_instance ON start_keys (instance_key);
CREATE INDEX start_keys_expiry ON start_keys (expires_at);
`,
};
