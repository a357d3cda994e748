import { keys, prepare, rowIdOf, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

interface HeadersRow {
  readonly instanceKey: number;
  readonly headers: string;
}

/** The column `headers` of `instances`. Apart from the inserts, which do not pay for starts without headers. */
export class InstanceHeaders {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Stores the headers of new instances, for those that have any. */
  async add(
    tx: Transaction,
    instances: readonly { readonly instanceKey: number; readonly headers: string | undefined }[],
  ): Promise<void> {
    const rows = instances.flatMap(({ instanceKey, headers }) =>
      headers === undefined ? [] : [{ instanceKey, headers }],
    );
    if (rows.length > 0) await tx.execute(...this.#sql.set({ rows }));
  }

  /** Returns the headers of instances, in order; `null` for none. */
  async read(
    tx: Transaction,
    instanceKeys: readonly number[],
  ): Promise<readonly (string | null)[]> {
    if (instanceKeys.length === 0) return [];
    const found = await tx.query<HeadersRow>(...this.#sql.select({ instanceKeys }));
    const byKey = new Map(found.map(({ instanceKey, headers }) => [Number(instanceKey), headers]));
    return instanceKeys.map((key) => byKey.get(key) ?? null);
  }
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  return {
    set: prepare(
      'perdure_set_headers',
      { rows: rowsOf<HeadersRow>()({ instance_key: 'bigint', headers: 'text' }) },
      ({ rows }) => `UPDATE ${table} AS instance SET headers = new.headers
        FROM ${rows.as('new')}
        ${rowIdOf(table, 'one.instance_key = new.instance_key')}
        WHERE instance.ctid = found.row_id`,
    ),
    select: prepare(
      'perdure_select_headers',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `SELECT instance_key AS "instanceKey", headers FROM ${table}
        WHERE instance_key = ANY (${instanceKeys}) AND headers IS NOT NULL`,
    ),
  };
}
