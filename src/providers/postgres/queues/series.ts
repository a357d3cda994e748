import type { SeriesBatch, SeriesRow, SeriesStore, StopCount } from '../../contract/series.ts';
import { decodeSeries, encodeSeries, mergeSeries, minuteMs, sumStops } from '../../rules/series.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import { keys, one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';

interface Row {
  readonly minute: number;
  readonly name: string;
  readonly data: string;
}

interface StopRow extends Omit<StopCount, 'name'> {
  readonly definitionKey: number;
}

type ReadParams = Parameters<SeriesStore['readSeries']>[0];
type StopParams = Parameters<SeriesStore['countStops']>[0];
type SweepParams = Parameters<SeriesStore['sweepSeries']>[0];

/** The series of counts by minute. */
export function createSeriesStore(store: StoreAccess & { readonly series: Series }): SeriesStore {
  const { series } = store;
  return {
    writeSeries: (batch) =>
      store.writeOnce('writeSeries', async (scope) => {
        await scope.begin();
        return series.write(scope.tx, batch, scope.now);
      }),
    readSeries: (params) => store.read('readSeries', (tx) => series.read(tx, params)),
    countStops: (params) => store.read('countStops', (tx) => series.countStops(tx, params)),
    sweepSeries: (params) => store.writeOnce('sweepSeries', ({ tx }) => series.sweep(tx, params)),
  };
}

/** Reads and writes `series` and `series_writers`. */
export class Series {
  readonly #schema: string;
  readonly #definitions: Definitions;
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string, definitions: Definitions) {
    this.#schema = schema;
    this.#definitions = definitions;
    this.#statements = statements(schema);
  }

  async write(
    tx: Transaction,
    { writerId, number, rows }: SeriesBatch,
    now: number,
  ): Promise<boolean> {
    const sql = this.#statements;
    const marked = await tx.execute(...sql.markWritten({ writerId, number, now }));
    if (marked === 0) return false;
    // Processes merge one after the other: each must read what the last one has committed.
    await tx.query(...sql.lock({ key: `perdure series ${this.#schema}` }));
    const minutes = [...new Set(rows.map(({ minute }) => minute))];
    const stored = await tx.query<Row>(...sql.ofMinutes({ minutes }));
    const merged = mergeSeries(stored.map(decodeSeries), rows);
    await tx.execute(...sql.put({ rows: merged }));
    return true;
  }

  async read(tx: Transaction, params: ReadParams): Promise<readonly SeriesRow[]> {
    return (await tx.query<Row>(...this.#statements.read(params))).map(decodeSeries);
  }

  async countStops(tx: Transaction, params: StopParams): Promise<readonly StopCount[]> {
    const rows = await tx.query<StopRow>(...this.#statements.countStops(params));
    await this.#definitions.load(
      tx,
      rows.map(({ definitionKey }) => definitionKey),
    );
    return sumStops(
      rows.map(({ definitionKey, ...row }) => ({
        ...row,
        name: this.#definitions.get(definitionKey).name,
      })),
    );
  }

  async sweep(tx: Transaction, params: SweepParams): Promise<number> {
    const { before } = params;
    await tx.execute(...this.#statements.sweepWriters({ before }));
    return tx.execute(...this.#statements.sweep(params));
  }
}

function statements(schema: string) {
  const table = `${schema}.series`;
  const bigint = one<number>('bigint');
  const text = one<string>('text');
  const stoppedAt = 'coalesce(canceled_at, terminated_at, expired_at)';
  return {
    markWritten: prepare(
      'perdure_mark_series_written',
      { writerId: text, number: bigint, now: bigint },
      ({ writerId, number, now }) => `INSERT INTO ${schema}.series_writers AS writer
          (writer_id, last_batch, written_at) VALUES (${writerId}, ${number}, ${now})
        ON CONFLICT (writer_id) DO UPDATE
        SET last_batch = excluded.last_batch, written_at = excluded.written_at
        WHERE writer.last_batch < excluded.last_batch`,
    ),
    lock: prepare(
      'perdure_lock_series',
      { key: text },
      ({ key }) => `SELECT pg_advisory_xact_lock(hashtextextended(${key}, 0))`,
    ),
    ofMinutes: prepare(
      'perdure_read_series_minutes',
      { minutes: keys() },
      ({ minutes }) => `SELECT minute, name, data FROM ${table} WHERE minute = ANY (${minutes})`,
    ),
    put: prepare(
      'perdure_put_series',
      {
        rows: rowsOf<SeriesRow>()({
          minute: 'bigint',
          name: 'text',
          data: ['text', encodeSeries],
        }),
      },
      ({
        rows,
      }) => `INSERT INTO ${table} (minute, name, data) SELECT minute, name, data FROM ${rows.as('row')}
        ON CONFLICT (name, minute) DO UPDATE SET data = excluded.data`,
    ),
    read: prepare(
      'perdure_read_series',
      { name: text, from: bigint, before: bigint, limit: bigint },
      ({ name, from, before, limit }) => `SELECT minute, name, data FROM ${table}
        WHERE minute >= ${from} AND minute < ${before} AND name = ${name} ORDER BY minute LIMIT ${limit}`,
    ),
    // The ORDER BY makes the planner read the index of stops, also while the table is empty.
    countStops: prepare(
      'perdure_count_stops',
      { from: bigint, before: bigint },
      ({ from, before }) => `WITH stopped AS MATERIALIZED (
          SELECT ${stoppedAt} AS at, definition_key, status FROM ${schema}.instances
          WHERE ${stoppedAt} IS NOT NULL AND ${stoppedAt} >= ${from} AND ${stoppedAt} < ${before} ORDER BY ${stoppedAt})
        SELECT at - at % ${minuteMs} AS minute, definition_key AS "definitionKey", status, count(*) AS count
        FROM stopped GROUP BY 1, 2, 3`,
    ),
    sweep: prepare(
      'perdure_sweep_series',
      { before: bigint, limit: bigint },
      ({ before, limit }) => `DELETE FROM ${table} WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM ${table} WHERE minute < ${before} ORDER BY minute LIMIT ${limit} FOR UPDATE SKIP LOCKED))`,
    ),
    sweepWriters: prepare(
      'perdure_sweep_series_writers',
      { before: bigint },
      ({ before }) => `DELETE FROM ${schema}.series_writers WHERE written_at < ${before}`,
    ),
  };
}
