import { numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';

/** A key as it is held: by one run of a task. */
export interface HeldKey {
  readonly definitionKey: number;
  readonly dedupeKey: string;
  readonly instanceKey: number;
  /** `null` when there is no such run. */
  readonly instanceId: string | null;
}

/** The rows of `dedupe_keys`; they are found by run, so that one which has lost its key cannot free another's. */
export class DedupeKeys {
  readonly #holders: Statement;
  readonly #free: Statement;

  constructor(schema: string) {
    this.#holders = {
      name: 'perdure_key_holders',
      text: `SELECT held.definition_key AS "definitionKey", held.dedupe_key AS "dedupeKey",
          held.instance_key AS "instanceKey", run.instance_id AS "instanceId"
        FROM unnest($1::int[], $2::text[]) AS wanted (definition_key, dedupe_key)
        CROSS JOIN LATERAL (
          SELECT * FROM ${schema}.dedupe_keys AS one
          WHERE one.definition_key = wanted.definition_key AND one.dedupe_key = wanted.dedupe_key
          LIMIT 1) AS held
        LEFT JOIN LATERAL (
          SELECT instance_id FROM ${schema}.instances AS one WHERE one.instance_key = held.instance_key LIMIT 1) AS run ON TRUE`,
    };
    this.#free = {
      name: 'perdure_free_keys',
      text: `DELETE FROM ${schema}.dedupe_keys WHERE instance_key = ANY ($1::bigint[])`,
    };
  }

  /** Who has these keys. */
  async holders(
    tx: Transaction,
    wanted: readonly Pick<HeldKey, 'definitionKey' | 'dedupeKey'>[],
  ): Promise<readonly HeldKey[]> {
    if (wanted.length === 0) return [];
    return tx.query<HeldKey>(this.#holders, [
      numbers(wanted.map(({ definitionKey }) => definitionKey)),
      texts(wanted.map(({ dedupeKey }) => dedupeKey)),
    ]);
  }

  /** Frees the keys of runs, as far as they have some. */
  async free(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(this.#free, [numbers(instanceKeys)]);
  }
}
