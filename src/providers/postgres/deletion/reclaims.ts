import { keys, one, prepare, rowsOf, rowIdOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';
import type { StreamRows } from '../tables/stream-rows.ts';

/** A history to delete. */
export interface ReclaimEntry {
  readonly instanceKey: number;
  /** 0: all executions of the instance. */
  readonly executionId: number;
  readonly events: number;
}

interface PendingEntry extends ReclaimEntry {
  /** The first execution and event that are left. */
  readonly fromExecution: number;
  readonly fromEvent: number;
}

/** Deletes histories, immediately or later through `pending_reclaims`, and later the streams of deleted instances. */
export class Reclaims {
  readonly #streamRows: StreamRows;
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string, streamRows: StreamRows) {
    this.#streamRows = streamRows;
    this.#statements = statements(schema);
  }

  /** Queues histories for later deletion. Skips empty ones. */
  async add(tx: Transaction, entries: readonly ReclaimEntry[]): Promise<void> {
    const long = entries.filter(({ events }) => events > 0);
    if (long.length === 0) return;
    await tx.execute(...this.#statements.add({ entries: long }));
  }

  /** Deletes the histories of instances. Returns the number of events. */
  async deleteInstances(tx: Transaction, instanceKeys: readonly number[]): Promise<number> {
    if (instanceKeys.length === 0) return 0;
    return tx.execute(...this.#statements.deleteInstances({ instanceKeys }));
  }

  /** Deletes the histories of executions. Returns the number of events. */
  async deleteExecutions(
    tx: Transaction,
    executions: readonly Omit<ReclaimEntry, 'events'>[],
  ): Promise<number> {
    if (executions.length === 0) return 0;
    return tx.execute(...this.#statements.deleteExecutions({ executions }));
  }

  /** Deletes about `maxRows` queued events and chunks. Returns how many, and whether there are more. */
  async run(
    tx: Transaction,
    maxRows: number,
  ): Promise<{ readonly rows: number; readonly left: boolean }> {
    const max = Math.max(Math.floor(maxRows), 0);
    const entries = await tx.query<PendingEntry>(...this.#statements.first({ limit: max }));
    const events = await this.#runEntries(tx, entries, max);
    const chunks = await this.#streamRows.reclaim(tx, Math.max(max - events, 0));
    const more = await tx.query(...this.#statements.hasAny({}));
    return { rows: events + chunks.rows, left: chunks.left || more.length > 0 };
  }

  /** Whether there are histories, streams, expired tombstones or expired starts to delete. */
  async isDue(tx: Transaction, nowParameter: number | null): Promise<boolean> {
    const [row] = await tx.query<{ isDue: boolean }>(
      ...this.#statements.isDue({ now: nowParameter }),
    );
    return row?.isDue === true;
  }

  async #runEntries(
    tx: Transaction,
    entries: readonly PendingEntry[],
    max: number,
  ): Promise<number> {
    const whole: PendingEntry[] = [];
    let events = 0;
    for (const entry of entries) {
      if (events + entry.events > max) break;
      events += entry.events;
      whole.push(entry);
    }
    if (whole.length > 0) return this.#runWhole(tx, whole);
    const [first] = entries;
    return first === undefined ? 0 : this.#runPart(tx, first, max);
  }

  async #runWhole(tx: Transaction, entries: readonly ReclaimEntry[]): Promise<number> {
    const instances = entries.filter(({ executionId }) => executionId === 0);
    const [, ofInstances, ofExecutions] = await Promise.all([
      tx.execute(...this.#statements.remove({ executions: entries })),
      this.deleteInstances(
        tx,
        instances.map(({ instanceKey }) => instanceKey),
      ),
      this.deleteExecutions(
        tx,
        entries.filter(({ executionId }) => executionId > 0),
      ),
    ]);
    return ofInstances + ofExecutions;
  }

  /** Deletes the first `max` events of a history. */
  async #runPart(tx: Transaction, entry: PendingEntry, max: number): Promise<number> {
    const { instanceKey, executionId, fromExecution, fromEvent } = entry;
    // Skips the deleted part: its index entries stay until the next vacuum.
    const from = { instanceKey, fromExecution: Math.max(fromExecution, executionId), fromEvent };
    const [end] = await tx.query<{ executionId: number; eventId: number }>(
      ...this.#statements.boundary({ ...from, events: max }),
    );
    const isWithin = end !== undefined && (executionId === 0 || end.executionId === executionId);
    // The history is shorter than its entry states.
    if (!isWithin) return this.#runWhole(tx, [entry]);
    const to = { toExecution: end.executionId, toEvent: end.eventId };
    const [rows] = await Promise.all([
      tx.execute(...this.#statements.deleteRange({ ...from, ...to })),
      tx.execute(...this.#statements.shorten({ instanceKey, executionId, events: max, ...to })),
    ]);
    return rows;
  }
}

type ExecutionKey = Omit<ReclaimEntry, 'events'>;

/** Executions by their keys. */
export const executionRows = rowsOf<ExecutionKey>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  execution_id: ['int', ({ executionId }) => executionId],
});
const entryRows = rowsOf<ReclaimEntry>()({
  instance_key: 'bigint',
  execution_id: 'int',
  events: 'bigint',
});

function statements(schema: string) {
  const pending = `${schema}.pending_reclaims`;
  const history = `${schema}.history`;
  const place = '(execution_id, event_id)';
  const number = one<number>('bigint');
  const id = one<number>('int');
  return {
    add: prepare(
      'perdure_add_reclaims',
      { entries: entryRows },
      ({ entries }) =>
        `INSERT INTO ${pending} (${entries.names}) SELECT ${entries.names} FROM ${entries.as('new')}`,
    ),
    // Skips entries that another process is deleting.
    first: prepare(
      'perdure_first_reclaims',
      { limit: number },
      ({ limit }) => `SELECT instance_key AS "instanceKey", execution_id AS "executionId", events,
          from_execution AS "fromExecution", from_event AS "fromEvent"
        FROM ${pending} ORDER BY instance_key, execution_id LIMIT ${limit} FOR UPDATE SKIP LOCKED`,
    ),
    remove: prepare(
      'perdure_remove_reclaims',
      { executions: executionRows },
      ({ executions }) => `DELETE FROM ${pending} WHERE ctid = ANY (ARRAY(
          SELECT found.row_id FROM ${executions.as('done')}
          ${rowIdOf(pending, 'one.instance_key = done.instance_key AND one.execution_id = done.execution_id')}))`,
    ),
    shorten: prepare(
      'perdure_shorten_reclaim',
      { instanceKey: number, executionId: id, events: number, toExecution: id, toEvent: id },
      ({ instanceKey, executionId, events, toExecution, toEvent }) =>
        `UPDATE ${pending} SET events = greatest(events - ${events}, 1), from_execution = ${toExecution}, from_event = ${toEvent}
        WHERE instance_key = ${instanceKey} AND execution_id = ${executionId}`,
    ),
    deleteInstances: prepare(
      'perdure_delete_histories',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${history} WHERE instance_key = ANY (${instanceKeys})`,
    ),
    // By ctid, which is stable: events are never updated.
    deleteExecutions: prepare(
      'perdure_delete_execution_histories',
      { executions: executionRows },
      ({ executions }) => `DELETE FROM ${history} WHERE ctid = ANY (ARRAY(
          SELECT event.ctid FROM ${executions.as('pruned')}
          CROSS JOIN LATERAL (
            SELECT one.ctid FROM ${history} AS one
            WHERE one.instance_key = pruned.instance_key AND one.execution_id = pruned.execution_id OFFSET 0) AS event))`,
    ),
    boundary: prepare(
      'perdure_reclaim_boundary',
      { instanceKey: number, fromExecution: id, fromEvent: id, events: number },
      ({ instanceKey, fromExecution, fromEvent, events }) =>
        `SELECT execution_id AS "executionId", event_id AS "eventId" FROM ${history}
        WHERE instance_key = ${instanceKey} AND ${place} >= (${fromExecution}, ${fromEvent})
        ORDER BY execution_id, event_id LIMIT 1 OFFSET ${events}`,
    ),
    deleteRange: prepare(
      'perdure_delete_history_part',
      { instanceKey: number, fromExecution: id, fromEvent: id, toExecution: id, toEvent: id },
      ({ instanceKey, fromExecution, fromEvent, toExecution, toEvent }) => `DELETE FROM ${history}
        WHERE instance_key = ${instanceKey} AND ${place} >= (${fromExecution}, ${fromEvent})
          AND ${place} < (${toExecution}, ${toEvent})`,
    ),
    hasAny: prepare('perdure_has_reclaims', {}, () => `SELECT FROM ${pending} LIMIT 1`),
    isDue: prepare(
      'perdure_is_reclaim_due',
      { now: one<number | null>('bigint') },
      () => `SELECT (SELECT TRUE FROM ${pending} LIMIT 1) IS TRUE
        OR (SELECT TRUE FROM ${schema}.streams WHERE is_deleted LIMIT 1) IS TRUE
        OR (SELECT TRUE FROM ${schema}.tombstones WHERE locked_until <= ${nowSql} LIMIT 1) IS TRUE
        OR (SELECT TRUE FROM ${schema}.deleted_starts WHERE expires_at <= ${nowSql} LIMIT 1) IS TRUE AS "isDue"`,
    ),
  };
}
