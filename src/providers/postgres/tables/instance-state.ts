import type { InstanceStatus } from '../../../model/status.ts';
import type { StateValue } from '../../../model/values/state.ts';
import type { StateRecord, StateRequest, StateView } from '../../contract/state.ts';
import type { StateChange } from '../../contract/turn.ts';
import { stateChanges } from '../../rules/state.ts';
import { keys, one, prepare, rowIdOf, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { RunState } from './task-rows.ts';

interface ChangeRow {
  readonly instanceKey: number;
  readonly key: string;
  readonly value: string | null;
  /** The number of later changes of the instance in the same statement. */
  readonly later: number;
}

interface InstanceRow {
  readonly place: number;
  readonly instanceKey: number;
  readonly incarnation: string;
  readonly status: InstanceStatus;
  readonly customStatus: string | null;
  readonly customStatusVersion: number;
}

interface EntryRow extends StateRecord {
  readonly place: number;
}

interface EntryRequest {
  readonly instanceKey: number;
  readonly key: string | null;
  readonly after: number;
}

/** The rows of `instance_state`. The row with the empty key counts the changes of its instance. */
export class InstanceState {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Applies the changes of turns to locked instances. */
  async apply(
    tx: Transaction,
    turns: readonly { readonly instanceKey: number; readonly changes: readonly StateChange[] }[],
  ): Promise<void> {
    const changed = turns.filter(({ changes }) => changes.length > 0);
    if (changed.length === 0) return;
    const counts = changed.map(({ instanceKey, changes }) => ({
      instanceKey,
      changes: changes.length,
    }));
    const rows = changed.flatMap(({ instanceKey, changes }) =>
      changes.map(({ key, payload }, index): ChangeRow => {
        return { instanceKey, key, value: payload, later: changes.length - 1 - index };
      }),
    );
    await Promise.all([
      tx.execute(...this.#sql.delete({ rows: rows.filter(({ value }) => value === null) })),
      tx.execute(...this.#sql.set({ counts, rows: rows.filter(({ value }) => value !== null) })),
    ]);
  }

  /** Replaces the whole state of a locked instance. A key whose value stays keeps its version. */
  async replace(
    tx: Transaction,
    instanceKey: number,
    values: readonly StateValue[],
  ): Promise<void> {
    const before = await tx.query<StateRecord>(...this.#sql.selectAll({ instanceKey }));
    await this.apply(tx, [{ instanceKey, changes: stateChanges(before, values) }]);
  }

  async deleteOfInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length === 0) return;
    await tx.execute(...this.#sql.deleteOfInstances({ instanceKeys }));
  }

  async read(
    tx: Transaction,
    requests: readonly StateRequest[],
  ): Promise<readonly (StateView | undefined)[]> {
    if (requests.length === 0) return [];
    const instances = await tx.query<InstanceRow>(...this.#sql.selectInstances({ requests }));
    const wanted = instances.flatMap(({ place, instanceKey }) => {
      const request = requests[place - 1];
      if (request?.what !== 'state') return [];
      return [{ place, instanceKey, key: request.key ?? null, after: request.after }];
    });
    const found = wanted.length === 0 ? [] : await this.#entries(tx, wanted);
    const byPlace = Map.groupBy(found, ({ place }) => wanted[place - 1]?.place);
    const rows = new Map(instances.map((row) => [row.place, row]));
    return requests.map(({ what, after }, index) => {
      const row = rows.get(index + 1);
      if (row === undefined) return undefined;
      const { incarnation, status, customStatus, customStatusVersion } = row;
      const isNewer = what === 'status' && customStatusVersion > after;
      return {
        incarnation,
        status,
        entries: (byPlace.get(index + 1) ?? []).map(({ key, payload, version }) => ({
          key,
          payload,
          version,
        })),
        ...(isNewer && {
          customStatus: { payload: customStatus, version: customStatusVersion },
        }),
      };
    });
  }

  #entries(tx: Transaction, requests: readonly EntryRequest[]): Promise<readonly EntryRow[]> {
    return tx.query<EntryRow>(...this.#sql.selectEntries({ requests }));
  }
}

function statements(schema: string) {
  const table = `${schema}.instance_state`;
  const rows = rowsOf<ChangeRow>()({
    instance_key: 'bigint',
    key: 'text',
    value: 'text',
    later: 'bigint',
  });
  return {
    set: prepare(
      'perdure_set_state',
      {
        counts: rowsOf<{ readonly instanceKey: number; readonly changes: number }>()({
          instance_key: 'bigint',
          changes: 'bigint',
        }),
        rows,
      },
      ({ counts, rows }) => `WITH counted AS (
          INSERT INTO ${table} AS one (instance_key, key, version)
          SELECT instance_key, '', changes FROM ${counts.as('count')}
          ON CONFLICT (instance_key, key) DO UPDATE SET version = one.version + excluded.version
          RETURNING instance_key, version)
        INSERT INTO ${table} (instance_key, key, version, value)
        SELECT instance_key, new.key, counted.version - new.later, new.value
        FROM ${rows.as('new')} JOIN counted USING (instance_key)
        ON CONFLICT (instance_key, key) DO UPDATE SET version = excluded.version, value = excluded.value`,
    ),
    delete: prepare(
      'perdure_delete_state',
      { rows },
      ({ rows }) => `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
          SELECT row_id FROM ${rows.as('gone')}
          ${rowIdOf(table, 'one.instance_key = gone.instance_key AND one.key = gone.key')}))`,
    ),
    deleteOfInstances: prepare(
      'perdure_delete_state_of_instances',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
    selectAll: prepare(
      'perdure_select_whole_state',
      { instanceKey: one<number>('bigint') },
      ({ instanceKey }) => `SELECT key, value AS payload, version FROM ${table}
        WHERE instance_key = ${instanceKey} AND key > '' ORDER BY key`,
    ),
    selectInstances: prepare(
      'perdure_select_state_instances',
      {
        requests: rowsOf<StateRequest>()({
          instance_id: ['text', ({ instanceId }) => instanceId],
          after: [
            'bigint',
            ({ what, after }) => (what === 'status' ? after : Number.MAX_SAFE_INTEGER),
          ],
        }),
      },
      ({ requests }) => `SELECT place::int AS place, found.* FROM ${requests.withPlace('request')}
        CROSS JOIN LATERAL (
          SELECT instance_key AS "instanceKey", incarnation, ${new RunState(schema).status('instance')} AS status,
            custom_status_version AS "customStatusVersion",
            CASE WHEN custom_status_version > request.after THEN custom_status END AS "customStatus"
          FROM ${schema}.instances AS instance WHERE instance.instance_id = request.instance_id LIMIT 1) AS found`,
    ),
    selectEntries: prepare(
      'perdure_select_state',
      {
        requests: rowsOf<EntryRequest>()({
          instance_key: 'bigint',
          key: 'text',
          after: 'bigint',
        }),
      },
      ({ requests }) => `SELECT place::int AS place, found.* FROM ${requests.withPlace('request')}
        CROSS JOIN LATERAL (
          SELECT one.key, one.value AS payload, one.version FROM ${table} AS one
          WHERE one.instance_key = request.instance_key AND one.key > ''
            AND (request.key IS NULL OR one.key = request.key) AND one.version > request.after OFFSET 0) AS found
        ORDER BY place, key`,
    ),
  };
}
