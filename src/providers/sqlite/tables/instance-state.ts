import type Database from 'better-sqlite3';
import type { InstanceStatus } from '../../../model/status.ts';
import type { StateValue } from '../../../model/values/state.ts';
import type { StateRecord, StateRequest, StateView } from '../../contract/state.ts';
import type { StateChange } from '../../contract/turn.ts';
import { stateChanges } from '../../rules/state.ts';

interface InstanceRow {
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly status: InstanceStatus;
  readonly customStatus: string | null;
  readonly customStatusVersion: number;
}

/** The rows of `instance_state`. The row with the empty key counts the changes of its instance. */
export class InstanceState {
  readonly #count;
  readonly #set;
  readonly #delete;
  readonly #deleteOfInstances;
  readonly #selectInstance;
  readonly #select;
  readonly #selectKey;

  constructor(db: Database.Database) {
    this.#count = db
      .prepare<[number, number], number>(
        `INSERT INTO instance_state (instance_key, key, version) VALUES (?, '', ?)
         ON CONFLICT (instance_key, key) DO UPDATE SET version = version + excluded.version
         RETURNING version`,
      )
      .pluck();
    this.#set = db.prepare<[number, string, number, string]>(
      `INSERT INTO instance_state (instance_key, key, version, value) VALUES (?, ?, ?, ?)
       ON CONFLICT (instance_key, key) DO UPDATE SET version = excluded.version, value = excluded.value`,
    );
    this.#delete = db.prepare<[number, string]>(
      'DELETE FROM instance_state WHERE instance_key = ? AND key = ?',
    );
    this.#deleteOfInstances = db.prepare<[string]>(
      'DELETE FROM instance_state WHERE instance_key IN (SELECT value FROM json_each(?))',
    );
    this.#selectInstance = db.prepare<[{ instanceId: string; version: number }], InstanceRow>(
      `SELECT instance_key AS instanceKey, incarnation, status, custom_status_version AS customStatusVersion,
              iif(custom_status_version > :version, custom_status, NULL) AS customStatus
       FROM instances WHERE instance_id = :instanceId`,
    );
    const entries = `SELECT key, value AS payload, version FROM instance_state
       WHERE instance_key = ? AND version > ?`;
    this.#select = db.prepare<[number, number], StateRecord>(
      `${entries} AND key > '' ORDER BY key`,
    );
    this.#selectKey = db.prepare<[number, number, string], StateRecord>(`${entries} AND key = ?`);
  }

  /** Applies the changes of a turn. */
  apply(instanceKey: number, changes: readonly StateChange[]): void {
    const { length } = changes;
    if (length === 0) return;
    const last = this.#count.get(instanceKey, length) ?? length;
    for (const [index, { key, payload }] of changes.entries()) {
      if (payload === null) this.#delete.run(instanceKey, key);
      else this.#set.run(instanceKey, key, last - length + 1 + index, payload);
    }
  }

  /** Replaces the whole state. A key whose value stays keeps its version. */
  replace(instanceKey: number, values: readonly StateValue[]): void {
    this.apply(instanceKey, stateChanges(this.#select.all(instanceKey, 0), values));
  }

  deleteOfInstances(instanceKeys: string): void {
    this.#deleteOfInstances.run(instanceKeys);
  }

  read({ instanceId, what, key, after }: StateRequest): StateView | undefined {
    const isStatus = what === 'status';
    const row = this.#selectInstance.get({
      instanceId,
      version: isStatus ? after : Number.MAX_SAFE_INTEGER,
    });
    if (row === undefined) return undefined;
    const { instanceKey, incarnation, status, customStatus, customStatusVersion } = row;
    if (isStatus) {
      const isNewer = customStatusVersion > after;
      const found = { payload: customStatus, version: customStatusVersion };
      return { incarnation, status, entries: [], ...(isNewer && { customStatus: found }) };
    }
    const entries =
      key === undefined
        ? this.#select.all(instanceKey, after)
        : this.#selectKey.all(instanceKey, after, key);
    return { incarnation, status, entries };
  }
}
