import { deadlineOf, type StartTimes } from '../../rules/deadlines.ts';
import { clock, keys, one, prepare, rowIdOf, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** An instance whose timeout has passed. */
export interface PassedDeadline {
  readonly instanceKey: number;
  readonly timeoutMs: number;
}

interface DeadlineRow extends PassedDeadline {
  readonly dueAt: number;
}

interface NextDeadline {
  readonly nowMs: number;
  readonly nextAt: number | null;
}

/** A new instance with its start. */
export interface TimedStart {
  readonly instanceKey: number;
  readonly times: StartTimes;
}

/** The table `instance_deadlines`. An instance without a timeout has no row. The mutex is the row of its instance. */
export class InstanceDeadlines {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Stores the timeouts of new instances, for those that have one. */
  async add(tx: Transaction, starts: readonly TimedStart[], now: number): Promise<void> {
    const rows = starts.flatMap(({ instanceKey, times }) =>
      times.timeoutMs === undefined
        ? []
        : [{ instanceKey, ...deadlineOf(times.timeoutMs, times, now) }],
    );
    if (rows.length > 0) await tx.execute(...this.#sql.insert({ rows }));
  }

  /** Replaces the timeout of an instance. */
  async replace(tx: Transaction, start: TimedStart, now: number): Promise<void> {
    await Promise.all([
      this.deleteOfInstances(tx, [start.instanceKey]),
      this.add(tx, [start], now),
    ]);
  }

  /** Returns the keys of instances whose timeouts have passed, longest first. Locks nothing. */
  async passed(tx: Transaction, now: number, limit: number): Promise<readonly number[]> {
    const rows = await tx.query<{ instanceKey: number }>(...this.#sql.selectPassed({ now, limit }));
    return rows.map(({ instanceKey }) => instanceKey);
  }

  /** Marks timeouts of locked instances as applied. Returns those that this call marked. */
  take(
    tx: Transaction,
    instanceKeys: readonly number[],
    now: number,
  ): Promise<readonly PassedDeadline[]> {
    return tx.query<PassedDeadline>(...this.#sql.take({ instanceKeys, now }));
  }

  /** Returns the time, and when the next timeout passes. `null`: no instance has one. */
  async next(tx: Transaction, nowParameter: number | null): Promise<NextDeadline> {
    const [row] = await tx.query<NextDeadline>(...this.#sql.selectNext({ now: nowParameter }));
    if (row === undefined) throw new Error('The query for the next timeout returned no row.');
    return row;
  }

  /** Starts the timeout of an instance that runs again, if it has one. */
  async renew(tx: Transaction, instanceKey: number, now: number): Promise<void> {
    await tx.execute(...this.#sql.renew({ instanceKey, now }));
  }

  /** Gives a fork the timeout of its source, if that has one. */
  async copy(tx: Transaction, fromKey: number, toKey: number, now: number): Promise<void> {
    await tx.execute(...this.#sql.copy({ fromKey, toKey, now }));
  }

  async deleteOfInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<void> {
    if (instanceKeys.length > 0) await tx.execute(...this.#sql.delete({ instanceKeys }));
  }
}

function statements(schema: string) {
  const table = `${schema}.instance_deadlines`;
  const [key, now] = [one<number>('bigint'), one<number>('bigint')];
  return {
    insert: prepare(
      'perdure_insert_deadlines',
      {
        rows: rowsOf<DeadlineRow>()({
          instance_key: 'bigint',
          timeout_ms: 'bigint',
          due_at: 'bigint',
        }),
      },
      ({
        rows,
      }) => `INSERT INTO ${table} (${rows.names}) SELECT ${rows.names} FROM ${rows.as('new')}
        ON CONFLICT (instance_key) DO UPDATE SET timeout_ms = excluded.timeout_ms, due_at = excluded.due_at`,
    ),
    selectPassed: prepare(
      'perdure_passed_deadlines',
      { now, limit: one<number>('int') },
      ({ now, limit }) => `SELECT instance_key AS "instanceKey" FROM ${table}
        WHERE due_at IS NOT NULL AND due_at <= ${now} ORDER BY due_at LIMIT ${limit}`,
    ),
    take: prepare(
      'perdure_take_deadlines',
      { instanceKeys: keys(), now },
      ({ instanceKeys, now }) => `UPDATE ${table} AS deadline SET due_at = NULL
        FROM unnest(${instanceKeys}) AS wanted (instance_key)
        ${rowIdOf(table, 'one.instance_key = wanted.instance_key')}
        WHERE deadline.ctid = found.row_id AND (due_at <= ${now}) IS TRUE
        RETURNING deadline.instance_key AS "instanceKey", deadline.timeout_ms AS "timeoutMs"`,
    ),
    selectNext: prepare(
      'perdure_next_deadline',
      { now: clock },
      () => `SELECT ${nowSql} AS "nowMs",
        (SELECT due_at FROM ${table} WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS "nextAt"`,
    ),
    renew: prepare(
      'perdure_renew_deadline',
      { instanceKey: key, now },
      ({ instanceKey, now }) => `UPDATE ${table} SET due_at = ${now} + timeout_ms
        WHERE instance_key = ${instanceKey}`,
    ),
    copy: prepare(
      'perdure_copy_deadline',
      { fromKey: key, toKey: one<number>('bigint'), now },
      ({ fromKey, toKey, now }) => `INSERT INTO ${table} (instance_key, timeout_ms, due_at)
        SELECT ${toKey}, timeout_ms, ${now} + timeout_ms FROM ${table} WHERE instance_key = ${fromKey}`,
    ),
    delete: prepare(
      'perdure_delete_deadlines',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${table} WHERE instance_key = ANY (${instanceKeys})`,
    ),
  };
}
