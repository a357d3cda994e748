import { strings, keys, one, prepare } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { instanceColumns, type InstanceRow } from '../tables/instance-rows.ts';

/** The instances to lock: by key, by id, or by work item, and optionally their parents. */
export interface InstancesToLock {
  readonly keys?: readonly number[];
  readonly ids?: readonly string[];
  readonly itemKeys?: readonly number[];
  /** `ending`: parents of instances that a stop or their last item may end. */
  readonly parents?: 'all' | 'ending';
}

/** Locks rows of `instances`. */
export class InstanceMutexes {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  lock(tx: Transaction, which: InstancesToLock): Promise<readonly InstanceRow[]> {
    const { keys: instanceKeys = [], ids: instanceIds = [], itemKeys = [], parents } = which;
    const isByKey = instanceIds.length === 0 && itemKeys.length === 0 && parents === undefined;
    return tx.query<InstanceRow>(
      ...(isByKey
        ? this.#sql.lockByKey({ instanceKeys })
        : this.#sql.lock({ instanceKeys, instanceIds, itemKeys, parents: parents ?? 'none' })),
    );
  }
}

function statements(schema: string) {
  const table = `${schema}.instances`;
  return {
    lockByKey: prepare(
      'perdure_lock_instances_by_key',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `SELECT ${instanceColumns} FROM ${table} WHERE instance_key = ANY
          (${instanceKeys})
        ORDER BY instance_key FOR NO KEY UPDATE`,
    ),
    lock: prepare(
      'perdure_lock_instances',
      {
        instanceKeys: keys(),
        instanceIds: strings(),
        itemKeys: keys(),
        parents: one<string>('text'),
      },
      ({ instanceKeys, instanceIds, itemKeys, parents }) => `WITH named AS MATERIALIZED (
          SELECT ${instanceKeys}
            || ARRAY(SELECT instance_key FROM ${table} WHERE instance_id = ANY (${instanceIds}))
            || ARRAY(SELECT instance_key FROM ${schema}.worker_queue WHERE item_key = ANY (${itemKeys})) AS keys
        ), parents AS MATERIALIZED (
          SELECT ARRAY(SELECT parent_instance_id FROM ${table}
            WHERE instance_key = ANY ((SELECT keys FROM named)::bigint[])
              AND (${parents} = 'all'
                OR ${parents} = 'ending' AND (status = 'pending' OR closing_reason IS NOT NULL))) AS ids
        )
        SELECT ${instanceColumns} FROM ${table}
        WHERE instance_key = ANY ((SELECT keys FROM named)
          || ARRAY(SELECT instance_key FROM ${table} WHERE instance_id = ANY ((SELECT ids FROM parents)::text[])))
        ORDER BY instance_key FOR NO KEY UPDATE`,
    ),
  };
}

/**
 * The instances that a transaction has locked, including its planned writes.
 *
 * The row of an instance is its mutex. A transaction holds it to change the instance's messages, lock or items, or to
 * decide whether it has ended. Claims and renewals change rows of the queues only and do not take it.
 *
 * To avoid deadlocks, a transaction locks all instances that it knows in one statement, in key order. Children have
 * greater keys than their parents, so locking the children of an ending instance later rarely breaks that order.
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

  /** Locks instances. Keeps the state of those that are already locked. */
  async lock(which: InstancesToLock): Promise<void> {
    for (const row of await this.#mutexes.lock(this.#tx, which)) {
      if (!this.#byKey.has(row.instanceKey)) this.set(row);
    }
    for (const id of which.ids ?? []) if (!this.#keysById.has(id)) this.#missingIds.add(id);
  }

  /** Locks the instances with these ids that are not locked yet. */
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

  /** Stores the state of an instance including planned writes. */
  set(row: InstanceRow): void {
    this.#byKey.set(row.instanceKey, row);
    this.#keysById.set(row.instanceId, row.instanceKey);
  }

  update(instanceKey: number, changes: Partial<InstanceRow>): void {
    const row = this.#byKey.get(instanceKey);
    if (row === undefined)
      throw new Error('Cannot update an instance that this transaction has not locked.');
    this.#byKey.set(instanceKey, { ...row, ...changes });
  }
}
