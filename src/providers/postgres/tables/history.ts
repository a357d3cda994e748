import type { StoredEvent } from '../../../model/event.ts';
import type { Withheld } from '../../contract/page-bytes.ts';
import { one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** An event with its position in the history. */
export interface EventRow extends StoredEvent {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly eventId: number;
}

interface Range {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly after: number;
  readonly limit?: number;
}

interface HistoryEnd {
  readonly instanceKey: number;
  readonly executionId: number;
  readonly historyLength: number;
}

const noLimit = 2_147_483_647;

/** The table `history`: the events of every execution, numbered without gaps. */
export class History {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  async append(tx: Transaction, rows: readonly EventRow[]): Promise<void> {
    if (rows.length > 0) await tx.execute(...this.#sql.insert({ rows }));
  }

  /** Returns the time of the last event by instance key. Instances without events are absent. */
  async lastTimes(
    tx: Transaction,
    rows: readonly HistoryEnd[],
  ): Promise<ReadonlyMap<number, number>> {
    if (rows.length === 0) return new Map();
    const times = await tx.query<{ instanceKey: number; at: number }>(
      ...this.#sql.selectTimes({ rows }),
    );
    return new Map(times.map(({ instanceKey, at }) => [instanceKey, at]));
  }

  /**
   * Reads one range up to `maxBytes`. The first event that exceeds it is returned as withheld, without data; the
   * first event of the range is always returned whole.
   */
  async readWithin(
    tx: Transaction,
    range: Required<Range> & { readonly maxBytes: number },
  ): Promise<readonly (StoredEvent & Withheld)[]> {
    const rows = await tx.query<StoredEvent & { readonly isWithheld: boolean }>(
      ...this.#sql.selectWithin({
        instanceKey: range.instanceKey,
        executionId: range.executionId,
        after: range.after,
        limit: Math.max(range.limit, 0),
        maxBytes: Math.max(Math.floor(range.maxBytes), 0),
      }),
    );
    return rows.map(({ isWithheld, ...event }) =>
      isWithheld ? { ...event, withheld: true } : event,
    );
  }

  /** Reads several ranges; returns the events of each in the given order. */
  async read(
    tx: Transaction,
    ranges: readonly Range[],
  ): Promise<readonly (readonly StoredEvent[])[]> {
    if (ranges.length === 0) return [];
    const rows = await tx.query<StoredEvent & { index: number }>(...this.#sql.select({ ranges }));
    const histories: StoredEvent[][] = ranges.map(() => []);
    for (const { index, ...event } of rows) histories[index]?.push(event);
    return histories;
  }
}

/** A list of events to insert. */
export const eventRows = rowsOf<EventRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  execution_id: ['int', ({ executionId }) => executionId],
  event_id: ['int', ({ eventId }) => eventId],
  kind: ['text', ({ kind }) => kind],
  at: ['bigint', ({ at }) => at],
  data: ['text', ({ data }) => data],
  payload: ['text', ({ payload }) => payload],
});

function statements(schema: string) {
  // The events of a deleted instance or a pruned execution are removed later and must not be read until then.
  const executionExists = (instanceKey: string, executionId: string) => `coalesce(
      (SELECT 1 FROM ${schema}.instances AS one
       WHERE one.instance_key = ${instanceKey} AND one.execution_id = ${executionId}),
      (SELECT 1 FROM ${schema}.executions AS one
       WHERE one.instance_key = ${instanceKey} AND one.execution_id = ${executionId})) = 1`;
  const isWithheld = 'coalesce(event_id = (SELECT event_id FROM cut), FALSE)';
  return {
    insert: prepare(
      'perdure_insert_history',
      { rows: eventRows },
      ({ rows }) =>
        `INSERT INTO ${schema}.history (${rows.names}) SELECT ${rows.names} FROM ${rows.as('event')}`,
    ),
    select: prepare(
      'perdure_select_history',
      {
        ranges: rowsOf<Range>()({
          instance_key: ['bigint', ({ instanceKey }) => instanceKey],
          execution_id: ['int', ({ executionId }) => executionId],
          after: ['int', ({ after }) => after],
          most: ['int', ({ limit = noLimit }) => limit],
        }),
      },
      ({ ranges }) => `SELECT (place - 1)::int AS index, kind, at, data, payload
        FROM ${ranges.withPlace('wanted')}
        CROSS JOIN LATERAL (
          SELECT event_id, kind, at, data, payload FROM ${schema}.history AS event
          WHERE event.instance_key = wanted.instance_key AND event.execution_id = wanted.execution_id
            AND event_id > after AND ${executionExists('wanted.instance_key', 'wanted.execution_id')}
          ORDER BY event_id LIMIT most) AS found
        ORDER BY place, event_id`,
    ),
    // Computes sizes first, so that data beyond the limit is never read.
    selectWithin: prepare(
      'perdure_select_history_within',
      {
        instanceKey: one<number>('bigint'),
        executionId: one<number>('int'),
        after: one<number>('int'),
        limit: one<number>('bigint'),
        maxBytes: one<number>('bigint'),
      },
      ({ instanceKey, executionId, after, limit, maxBytes }) => `WITH sized AS MATERIALIZED (
          SELECT event_id, bytes, sum(bytes) OVER (ORDER BY event_id) AS total FROM (
            SELECT event_id, octet_length(data) + coalesce(octet_length(payload), 0) AS bytes FROM ${schema}.history
            WHERE instance_key = ${instanceKey} AND execution_id = ${executionId} AND event_id > ${after}
              AND ${executionExists(instanceKey, executionId)}
            ORDER BY event_id LIMIT ${limit}) AS page),
        cut AS MATERIALIZED (SELECT min(event_id) AS event_id FROM sized WHERE total > ${maxBytes} AND total > bytes)
        SELECT kind, at, CASE WHEN ${isWithheld} THEN '' ELSE data END AS data,
          CASE WHEN NOT ${isWithheld} THEN payload END AS payload, ${isWithheld} AS "isWithheld"
        FROM ${schema}.history
        WHERE instance_key = ${instanceKey} AND execution_id = ${executionId} AND event_id = ANY (ARRAY(
          SELECT event_id FROM sized WHERE event_id <= coalesce((SELECT event_id FROM cut), event_id)))
        ORDER BY event_id`,
    ),
    selectTimes: prepare(
      'perdure_select_event_times',
      {
        rows: rowsOf<HistoryEnd>()({
          instance_key: 'bigint',
          execution_id: 'int',
          event_id: ['int', ({ historyLength }) => historyLength],
        }),
      },
      ({ rows }) => `SELECT instance_key AS "instanceKey", at
        FROM ${rows.as('wanted')}
        CROSS JOIN LATERAL (
          SELECT at FROM ${schema}.history AS event
          WHERE event.instance_key = wanted.instance_key AND event.execution_id = wanted.execution_id
            AND event.event_id = wanted.event_id
          LIMIT 1) AS found`,
    ),
  };
}
