import type Database from 'better-sqlite3';
import type {
  SeriesBatch,
  SeriesRow,
  SeriesStore,
  StopCount,
  StopStatus,
} from '../../contract/series.ts';
import { decodeSeries, encodeSeries, mergeSeries, minuteMs, sumStops } from '../../rules/series.ts';
import type { StoreAccess } from '../batches/group-commit.ts';
import type { Definitions } from '../tables/definitions.ts';

interface Row {
  readonly minute: number;
  readonly name: string;
  readonly data: string;
}

/** The series of counts by minute. */
export function createSeriesStore(store: StoreAccess & { readonly series: Series }): SeriesStore {
  const { series } = store;
  return {
    writeSeries: (batch) => store.writeOnce('writeSeries', ({ now }) => series.write(batch, now)),
    readSeries: (params) => store.read('readSeries', () => series.read(params)),
    countStops: (params) => store.read('countStops', () => series.countStops(params)),
    sweepSeries: (params) => store.writeOnce('sweepSeries', () => series.sweep(params)),
  };
}

/** The rows of `series` and `series_writers`. */
export class Series {
  readonly #definitions: Definitions;
  readonly #markWritten;
  readonly #ofMinute;
  readonly #put;
  readonly #read;
  readonly #selectStops;
  readonly #sweep;
  readonly #sweepWriters;

  constructor(db: Database.Database, definitions: Definitions) {
    this.#definitions = definitions;
    this.#markWritten = db.prepare<[string, number, number]>(
      `INSERT INTO series_writers (writer_id, last_batch, written_at) VALUES (?, ?, ?)
       ON CONFLICT (writer_id) DO UPDATE SET last_batch = excluded.last_batch, written_at = excluded.written_at
       WHERE last_batch < excluded.last_batch`,
    );
    this.#ofMinute = db.prepare<[number], Row>(
      'SELECT minute, name, data FROM series WHERE minute = ?',
    );
    this.#put = db.prepare<[number, string, string]>(
      `INSERT INTO series (minute, name, data) VALUES (?, ?, ?)
       ON CONFLICT (name, minute) DO UPDATE SET data = excluded.data`,
    );
    this.#read = db.prepare<[Parameters<SeriesStore['readSeries']>[0]], Row>(
      `SELECT minute, name, data FROM series WHERE minute >= :from AND minute < :before AND name = :name
       ORDER BY minute LIMIT :limit`,
    );
    const stoppedAt = 'coalesce(canceled_at, terminated_at, expired_at)';
    // Counted in JavaScript: grouping would sort in a temporary B-tree.
    this.#selectStops = db
      .prepare<
        [Parameters<SeriesStore['countStops']>[0]],
        [stoppedAt: number, definitionKey: number, status: StopStatus]
      >(
        `SELECT ${stoppedAt}, definition_key, status FROM instances
         WHERE ${stoppedAt} IS NOT NULL AND ${stoppedAt} >= :from AND ${stoppedAt} < :before`,
      )
      .raw();
    this.#sweep = db.prepare<[Parameters<SeriesStore['sweepSeries']>[0]]>(
      `DELETE FROM series WHERE (name, minute) IN (
         SELECT name, minute FROM series WHERE minute < :before ORDER BY minute LIMIT :limit)`,
    );
    this.#sweepWriters = db.prepare<[number]>('DELETE FROM series_writers WHERE written_at < ?');
  }

  write({ writerId, number, rows }: SeriesBatch, now: number): boolean {
    if (this.#markWritten.run(writerId, number, now).changes === 0) return false;
    const minutes = new Set(rows.map(({ minute }) => minute));
    const stored = [...minutes].flatMap((minute) => this.#ofMinute.all(minute));
    for (const row of mergeSeries(stored.map(decodeSeries), rows)) {
      this.#put.run(row.minute, row.name, encodeSeries(row));
    }
    return true;
  }

  read(params: Parameters<SeriesStore['readSeries']>[0]): readonly SeriesRow[] {
    return this.#read.all(params).map(decodeSeries);
  }

  countStops(params: Parameters<SeriesStore['countStops']>[0]): readonly StopCount[] {
    const stops = [];
    for (const [stoppedAt, definitionKey, status] of this.#selectStops.iterate(params)) {
      const { name } = this.#definitions.get(definitionKey);
      stops.push({ minute: stoppedAt - (stoppedAt % minuteMs), name, status, count: 1 });
    }
    return sumStops(stops);
  }

  sweep(params: Parameters<SeriesStore['sweepSeries']>[0]): number {
    this.#sweepWriters.run(params.before);
    return this.#sweep.run(params).changes;
  }
}
