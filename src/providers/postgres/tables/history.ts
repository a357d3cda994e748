import type { StoredEvent } from '../../../model/event.ts';
import type { Withheld } from '../../contract/page-bytes.ts';
import { numbers, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';

/** An event with its place. */
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

const noLimit = 2_147_483_647;

/** The rows of `history`: the events of every execution, by their dense ids. */
export class History {
  readonly #insert: Statement;
  readonly #select: Statement;
  readonly #selectWithin: Statement;
  readonly #timeOf: Statement;

  constructor(schema: string) {
    this.#insert = {
      name: 'perdure_insert_history',
      text: `INSERT INTO ${schema}.history (instance_key, execution_id, event_id, kind, at, data, payload)
        SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::bigint[], $6::text[], $7::text[])`,
    };
    // Also while the events of what is deleted are still to be taken away, nobody reads them.
    this.#select = {
      name: 'perdure_select_history',
      text: `SELECT (place - 1)::int AS index, kind, at, data, payload
        FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[])
          WITH ORDINALITY AS wanted (instance_key, execution_id, after, most, place)
        CROSS JOIN LATERAL (
          SELECT event_id, kind, at, data, payload FROM ${schema}.history AS event
          WHERE event.instance_key = wanted.instance_key AND event.execution_id = wanted.execution_id
            AND event_id > after
            AND coalesce(
              (SELECT 1 FROM ${schema}.instances AS one
               WHERE one.instance_key = wanted.instance_key AND one.execution_id = wanted.execution_id),
              (SELECT 1 FROM ${schema}.executions AS one
               WHERE one.instance_key = wanted.instance_key AND one.execution_id = wanted.execution_id)) = 1
          ORDER BY event_id LIMIT most) AS found
        ORDER BY place, event_id`,
    };
    // Sizes first: what does not fit is never read.
    const isWithheld = 'coalesce(event_id = (SELECT event_id FROM cut), FALSE)';
    this.#selectWithin = {
      name: 'perdure_select_history_within',
      text: `WITH sized AS MATERIALIZED (
          SELECT event_id, bytes, sum(bytes) OVER (ORDER BY event_id) AS total FROM (
            SELECT event_id, octet_length(data) + coalesce(octet_length(payload), 0) AS bytes FROM ${schema}.history
            WHERE instance_key = $1::bigint AND execution_id = $2::int AND event_id > $3::int
              AND coalesce(
                (SELECT 1 FROM ${schema}.instances AS one
                 WHERE one.instance_key = $1::bigint AND one.execution_id = $2::int),
                (SELECT 1 FROM ${schema}.executions AS one
                 WHERE one.instance_key = $1::bigint AND one.execution_id = $2::int)) = 1
            ORDER BY event_id LIMIT $4::bigint) AS page),
        cut AS MATERIALIZED (SELECT min(event_id) AS event_id FROM sized WHERE total > $5::bigint AND total > bytes)
        SELECT kind, at, CASE WHEN ${isWithheld} THEN '' ELSE data END AS data,
          CASE WHEN NOT ${isWithheld} THEN payload END AS payload, ${isWithheld} AS "isWithheld"
        FROM ${schema}.history
        WHERE instance_key = $1::bigint AND execution_id = $2::int AND event_id = ANY (ARRAY(
          SELECT event_id FROM sized WHERE event_id <= coalesce((SELECT event_id FROM cut), event_id)))
        ORDER BY event_id`,
    };
    this.#timeOf = {
      name: 'perdure_select_event_times',
      text: `SELECT instance_key AS "instanceKey", at
        FROM unnest($1::bigint[], $2::int[], $3::int[]) AS wanted (instance_key, execution_id, event_id)
        CROSS JOIN LATERAL (
          SELECT at FROM ${schema}.history AS event
          WHERE event.instance_key = wanted.instance_key AND event.execution_id = wanted.execution_id
            AND event.event_id = wanted.event_id
          LIMIT 1) AS found`,
    };
  }

  async append(tx: Transaction, rows: readonly EventRow[]): Promise<void> {
    if (rows.length === 0) return;
    await tx.execute(this.#insert, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ executionId }) => executionId)),
      numbers(rows.map(({ eventId }) => eventId)),
      texts(rows.map(({ kind }) => kind)),
      numbers(rows.map(({ at }) => at)),
      texts(rows.map(({ data }) => data)),
      texts(rows.map(({ payload }) => payload)),
    ]);
  }

  /** The times of the last events of instances, as far as they have any. */
  async lastTimes(
    tx: Transaction,
    rows: readonly {
      readonly instanceKey: number;
      readonly executionId: number;
      readonly historyLength: number;
    }[],
  ): Promise<ReadonlyMap<number, number>> {
    if (rows.length === 0) return new Map();
    const times = await tx.query<{ instanceKey: number; at: number }>(this.#timeOf, [
      numbers(rows.map(({ instanceKey }) => instanceKey)),
      numbers(rows.map(({ executionId }) => executionId)),
      numbers(rows.map(({ historyLength }) => historyLength)),
    ]);
    return new Map(times.map(({ instanceKey, at }) => [instanceKey, at]));
  }

  /** Reads one range, as far as it fits. */
  async readWithin(
    tx: Transaction,
    range: Required<Range> & { readonly maxBytes: number },
  ): Promise<readonly (StoredEvent & Withheld)[]> {
    const rows = await tx.query<StoredEvent & { readonly isWithheld: boolean }>(
      this.#selectWithin,
      [
        range.instanceKey,
        range.executionId,
        range.after,
        Math.max(range.limit, 0),
        Math.max(Math.floor(range.maxBytes), 0),
      ],
    );
    return rows.map(({ isWithheld, ...event }) =>
      isWithheld ? { ...event, withheld: true } : event,
    );
  }

  async read(
    tx: Transaction,
    ranges: readonly Range[],
  ): Promise<readonly (readonly StoredEvent[])[]> {
    if (ranges.length === 0) return [];
    const rows = await tx.query<StoredEvent & { index: number }>(this.#select, [
      numbers(ranges.map(({ instanceKey }) => instanceKey)),
      numbers(ranges.map(({ executionId }) => executionId)),
      numbers(ranges.map(({ after }) => after)),
      numbers(ranges.map(({ limit = noLimit }) => limit)),
    ]);
    const histories: StoredEvent[][] = ranges.map(() => []);
    for (const { index, ...event } of rows) histories[index]?.push(event);
    return histories;
  }
}
