import { isGeneratedKey, staleKeys } from '../../../model/event-key.ts';
import { keys, one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** The key of a message that an instance has got. */
export interface EventKey {
  readonly instanceKey: number;
  readonly eventKey: string;
}

/** The table `event_keys`: the keys of messages that instances have got. The mutex is the row of the instance. */
export class EventKeys {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Returns those keys that their instances have got. */
  async find(tx: Transaction, wanted: readonly EventKey[]): Promise<readonly EventKey[]> {
    return wanted.length === 0 ? [] : tx.query<EventKey>(...this.#sql.select({ wanted }));
  }

  /** Records keys. Generated ones that are too old to be repeated are deleted. */
  async add(tx: Transaction, added: readonly EventKey[], now: number): Promise<void> {
    if (added.length === 0) return;
    const instanceKeys = new Set(
      added.flatMap(({ instanceKey, eventKey }) => (isGeneratedKey(eventKey) ? instanceKey : [])),
    );
    await Promise.all([
      tx.execute(...this.#sql.insert({ added })),
      instanceKeys.size > 0 &&
        tx.execute(...this.#sql.purge({ instanceKeys: [...instanceKeys], ...staleKeys(now) })),
    ]);
  }

  async deleteOfInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.delete({ instanceKeys }));
  }
}

function statements(schema: string) {
  const table = `${schema}.event_keys`;
  const rows = rowsOf<EventKey>()({ instance_key: 'bigint', event_key: 'text' });
  return {
    select: prepare(
      'perdure_select_event_keys',
      { wanted: rows },
      ({ wanted }) => `SELECT found.instance_key AS "instanceKey", found.event_key AS "eventKey"
        FROM ${wanted.as('wanted')} CROSS JOIN LATERAL (
          SELECT * FROM ${table} AS one
          WHERE one.instance_key = wanted.instance_key AND one.event_key = wanted.event_key LIMIT 1) AS found`,
    ),
    insert: prepare(
      'perdure_insert_event_keys',
      { added: rows },
      ({ added }) =>
        `INSERT INTO ${table} (${added.names}) SELECT ${added.names} FROM ${added.as('new')}`,
    ),
    purge: prepare(
      'perdure_purge_event_keys',
      { instanceKeys: keys(), from: one<string>('text'), before: one<string>('text') },
      ({ instanceKeys, from, before }) => `DELETE FROM ${table}
        WHERE instance_key = ANY (${instanceKeys}) AND event_key >= ${from} COLLATE "C"
          AND event_key < ${before} COLLATE "C"`,
    ),
    delete: prepare(
      'perdure_delete_event_keys',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
