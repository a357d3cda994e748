import { keys, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** A dedupe key and the task run that holds it. */
export interface HeldKey {
  readonly definitionKey: number;
  readonly dedupeKey: string;
  readonly instanceKey: number;
  /** `null` if the run does not exist. */
  readonly instanceId: string | null;
}

type WantedKey = Pick<HeldKey, 'definitionKey' | 'dedupeKey'>;

/** The table `dedupe_keys`. Keys are freed by run, so a run that lost its key cannot free that of another run. */
export class DedupeKeys {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Returns the holders of those keys that are taken. */
  async holders(tx: Transaction, wanted: readonly WantedKey[]): Promise<readonly HeldKey[]> {
    if (wanted.length === 0) return [];
    return tx.query<HeldKey>(...this.#sql.selectHolders({ wanted }));
  }

  /** Frees the keys of runs. Runs without a key are ignored. */
  async free(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.free({ instanceKeys }));
  }
}

function statements(schema: string) {
  return {
    selectHolders: prepare(
      'perdure_key_holders',
      { wanted: rowsOf<WantedKey>()({ definition_key: 'int', dedupe_key: 'text' }) },
      ({ wanted }) => `SELECT held.definition_key AS "definitionKey", held.dedupe_key AS
          "dedupeKey",
          held.instance_key AS "instanceKey", run.instance_id AS "instanceId"
        FROM ${wanted.as('wanted')}
        CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.dedupe_keys AS one
          WHERE one.definition_key = wanted.definition_key AND one.dedupe_key = wanted.dedupe_key
          LIMIT 1) AS held
        LEFT JOIN LATERAL (
          SELECT instance_id FROM ${schema}.instances AS one WHERE one.instance_key = held.instance_key LIMIT 1) AS run ON TRUE`,
    ),
    free: prepare(
      'perdure_free_keys',
      { instanceKeys: keys() },
      ({ instanceKeys }) =>
        `DELETE FROM ${schema}.dedupe_keys WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
