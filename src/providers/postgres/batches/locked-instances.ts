import { numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { instanceColumns, type InstanceRow } from '../tables/instance-rows.ts';

/** Which instances to lock: by key, by id, by their work items, and whose parents too. */
export interface InstancesToLock {
  readonly keys?: readonly number[];
  readonly ids?: readonly string[];
  readonly itemKeys?: readonly number[];
  /** `ending`: of those that a stop, or their last item, may end. */
  readonly parents?: 'all' | 'ending';
}

/** The statements that lock rows of `instances`. */
export class InstanceMutexes {
  readonly #byKey: Statement;
  readonly #byAll: Statement;

  constructor(schema: string) {
    const table = `${schema}.instances`;
    this.#byKey = {
      name: 'perdure_lock_instances_by_key',
      text: `SELECT ${instanceColumns} FROM ${table} WHERE instance_key = ANY ($1::bigint[])
        ORDER BY instance_key FOR NO KEY UPDATE`,
    };
    this.#byAll = {
      name: 'perdure_lock_instances',
      text: `WITH named AS MATERIALIZED (
          SELECT $1::bigint[]
            || ARRAY(SELECT instance_key FROM ${table} WHERE instance_id = ANY ($2::text[]))
            || ARRAY(SELECT instance_key FROM ${schema}.worker_queue WHERE item_key = ANY ($3::bigint[])) AS keys
        ), parents AS MATERIALIZED (
          SELECT ARRAY(SELECT parent_instance_id FROM ${table}
            WHERE instance_key = ANY ((SELECT keys FROM named)::bigint[])
              AND ($4 = 'all' OR $4 = 'ending' AND (status = 'pending' OR closing_reason IS NOT NULL))) AS ids
        )
        SELECT ${instanceColumns} FROM ${table}
        WHERE instance_key = ANY ((SELECT keys FROM named)
          || ARRAY(SELECT instance_key FROM ${table} WHERE instance_id = ANY ((SELECT ids FROM parents)::text[])))
        ORDER BY instance_key FOR NO KEY UPDATE`,
    };
  }

  lock(tx: Transaction, which: InstancesToLock): Promise<readonly InstanceRow[]> {
    const { keys = [], ids = [], itemKeys = [], parents } = which;
    if (ids.length === 0 && itemKeys.length === 0 && parents === undefined) {
      return tx.query<InstanceRow>(this.#byKey, [numbers(keys)]);
    }
    return tx.query<InstanceRow>(this.#byAll, [
      numbers(keys),
      texts(ids),
      numbers(itemKeys),
      parents ?? 'none',
    ]);
  }
}

/**
 * The instances that a transaction has locked, as they stand with what it is going to write.
 *
 * The row of an instance is its mutex. Whoever changes its messages, its lock or its items, or judges whether it is
 * over, holds it; only claims and renewals, which touch rows of the queues alone, do not. A transaction names all that
 * it can name at once, and they are locked in the order of their keys. Children have greater keys than their parents,
 * so that what is met later, the children of an instance that ends, keeps the order nearly always.
 */
export class LockedInstances {
  readonly #mutexes: InstanceMutexes;
  readonly #tx: Transaction;
  readonly #byKey = new Map<number, InstanceRow>();
  readonly #keysById = new Map<string, number>();
  readonly #missingIds = new Set<string>();

  constructor(mutexes: InstanceMutexes, tx: Transaction) {
    this.#mutexes = mutexes;
    this.#tx = tx;
  }

  /** Locks instances; those that are locked already stay as they are. */
  async lock(which: InstancesToLock): Promise<void> {
    for (const row of await this.#mutexes.lock(this.#tx, which)) {
      if (!this.#byKey.has(row.instanceKey)) this.set(row);
    }
    for (const id of which.ids ?? []) if (!this.#keysById.has(id)) this.#missingIds.add(id);
  }

  /** Locks those of the ids that are not locked yet. */
  async lockMore(ids: readonly string[]): Promise<void> {
    const more = ids.filter((id) => !this.#keysById.has(id) && !this.#missingIds.has(id));
    if (more.length > 0) await this.lock({ ids: [...new Set(more)] });
  }

  get(instanceKey: number): InstanceRow | undefined {
    return this.#byKey.get(instanceKey);
  }

  find(instanceId: string): InstanceRow | undefined {
    const key = this.#keysById.get(instanceId);
    return key === undefined ? undefined : this.#byKey.get(key);
  }

  /** Remembers how an instance stands after what is going to be written. */
  set(row: InstanceRow): void {
    this.#byKey.set(row.instanceKey, row);
    this.#keysById.set(row.instanceId, row.instanceKey);
  }

  update(instanceKey: number, changes: Partial<InstanceRow>): void {
    const row = this.#byKey.get(instanceKey);
    if (row === undefined) throw new Error('An instance that is not locked was changed.');
    this.#byKey.set(instanceKey, { ...row, ...changes });
  }
}
