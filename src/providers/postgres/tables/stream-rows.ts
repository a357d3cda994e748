import type { Payload } from '../../../model/values/payload.ts';
import type { ReadStreamParams, RecordedChunk, StreamPage } from '../../contract/streams.ts';
import { chunkBytes, excessBytes } from '../../rules/streams.ts';
import { keys, one, prepare, rowsOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';

/** Chunks to append to the stream of an instance. */
export interface NewChunks {
  readonly instanceKey: number;
  readonly chunks: readonly Payload[];
  readonly source: string;
  /** The place of the first chunk; 0 for all chunks of a turn. */
  readonly firstPlace: number;
  readonly maxBytes: number;
}

interface Counters {
  readonly instanceKey: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly bytes: number;
}

interface ChunkRow {
  readonly instanceKey: number;
  readonly seq: number;
  readonly at: number;
  readonly bytes: number;
  readonly place: number;
  readonly source: string;
  readonly payload: Payload;
}

interface PageRow extends Omit<StreamPage, 'chunks'> {
  readonly seq: number | null;
  readonly at: number;
  readonly source: string;
  readonly payload: Payload;
}

/** The recorded streams: the tables `streams` and `stream_chunks`. Writers have locked the instances. */
export class StreamRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#sql = statements(schema);
  }

  /** Appends chunks in order, then drops the oldest ones above the limits. */
  async append(tx: Transaction, appends: readonly NewChunks[], now: number): Promise<void> {
    const filled = appends.filter(({ chunks }) => chunks.length > 0);
    if (filled.length === 0) return;
    const instanceKeys = [...new Set(filled.map(({ instanceKey }) => instanceKey))];
    const stored = await tx.query<Counters>(...this.#sql.counters({ instanceKeys }));
    const streams = new Map(stored.map((row) => [row.instanceKey, row]));
    const limits = new Map<number, number>();
    const rows: ChunkRow[] = [];
    for (const { instanceKey, chunks, source, firstPlace, maxBytes } of filled) {
      let { lastSeq, bytes } = streams.get(instanceKey) ?? none;
      const { firstSeq } = streams.get(instanceKey) ?? none;
      for (const [index, payload] of chunks.entries()) {
        const size = chunkBytes(payload);
        const place = firstPlace === 0 ? 0 : firstPlace + index;
        lastSeq += 1;
        bytes += size;
        rows.push({ instanceKey, seq: lastSeq, at: now, bytes: size, place, source, payload });
      }
      streams.set(instanceKey, { instanceKey, firstSeq, lastSeq, bytes });
      limits.set(instanceKey, maxBytes);
    }
    const written = [...streams.values()];
    await Promise.all([
      tx.execute(...this.#sql.insert({ rows })),
      tx.execute(...this.#sql.write({ streams: written })),
      ...written.flatMap(({ instanceKey, firstSeq, lastSeq, bytes }) => {
        const excess = excessBytes(bytes, limits.get(instanceKey) ?? Infinity);
        if (excess === 0) return [];
        return [tx.execute(...this.#sql.drop({ instanceKey, firstSeq, lastSeq, excess }))];
      }),
    ]);
  }

  /** The place of the last chunk of a source that is stored; 0 if there is none. */
  async lastPlaceOf(tx: Transaction, instanceKey: number, source: string): Promise<number> {
    const [row] = await tx.query<{ place: number | null }>(
      ...this.#sql.lastPlace({ instanceKey, source }),
    );
    return row?.place ?? 0;
  }

  /** Reads a page and the state of the stream in one snapshot. */
  async read(tx: Transaction, params: ReadStreamParams): Promise<StreamPage | undefined> {
    const { instanceId, after, limit, maxBytes } = params;
    const rows = await tx.query<PageRow>(
      ...this.#sql.read({ instanceId, after, limit: Math.max(limit, 0), maxBytes }),
    );
    const [first] = rows;
    if (first === undefined) return undefined;
    const { instanceKey, lastSeq, hasEnded, isJob } = first;
    const chunks = rows.flatMap(({ seq, at, source, payload }): readonly RecordedChunk[] =>
      seq === null ? [] : [{ seq, at, source, payload }],
    );
    return { instanceKey, chunks, lastSeq, hasEnded, isJob };
  }

  /** Deletes the streams of instances, those with more than `maxChunks` together later. */
  async deleteOfInstances(
    tx: Transaction,
    instanceKeys: readonly number[],
    maxChunks: number,
  ): Promise<void> {
    if (instanceKeys.length === 0) return;
    const stored = await tx.query<Counters>(...this.#sql.counters({ instanceKeys }));
    const count = stored.reduce((sum, row) => sum + row.lastSeq - row.firstSeq + 1, 0);
    const streamKeys = stored.map(({ instanceKey }) => instanceKey);
    if (count > maxChunks) {
      await tx.execute(...this.#sql.markDeleted({ instanceKeys: streamKeys }));
      return;
    }
    await Promise.all([
      tx.execute(...this.#sql.deleteChunks({ instanceKeys: streamKeys })),
      tx.execute(...this.#sql.deleteStreams({ instanceKeys: streamKeys })),
    ]);
  }

  /** Deletes at most `max` chunks of deleted instances. Returns their number, and whether there are more. */
  async reclaim(
    tx: Transaction,
    max: number,
  ): Promise<{ readonly rows: number; readonly left: boolean }> {
    let rows = 0;
    while (rows < max) {
      const [stream] = await tx.query<Counters>(...this.#sql.firstDeleted({}));
      if (stream === undefined) break;
      const { instanceKey, firstSeq, lastSeq } = stream;
      const end = firstSeq + max - rows;
      const part = { instanceKey, from: firstSeq, to: end };
      const [deleted] = await Promise.all([
        tx.execute(...this.#sql.deleteRange(part)),
        end > lastSeq
          ? tx.execute(...this.#sql.deleteStreams({ instanceKeys: [instanceKey] }))
          : tx.execute(...this.#sql.shorten({ instanceKey, firstSeq: end })),
      ]);
      rows += deleted;
      if (end <= lastSeq) return { rows, left: true };
    }
    const more = await tx.query(...this.#sql.firstDeleted({}));
    return { rows, left: more.length > 0 };
  }
}

const none = { firstSeq: 1, lastSeq: 0, bytes: 0 };

const chunkRows = rowsOf<ChunkRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  seq: ['bigint', ({ seq }) => seq],
  at: ['bigint', ({ at }) => at],
  bytes: ['int', ({ bytes }) => bytes],
  place: ['bigint', ({ place }) => place],
  source: ['text', ({ source }) => source],
  payload: ['text', ({ payload }) => payload],
});
const streamRows = rowsOf<Counters>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  first_seq: ['bigint', ({ firstSeq }) => firstSeq],
  last_seq: ['bigint', ({ lastSeq }) => lastSeq],
  bytes: ['bigint', ({ bytes }) => bytes],
});

function statements(schema: string) {
  const chunks = `${schema}.stream_chunks`;
  const streams = `${schema}.streams`;
  const number = one<number>('bigint');
  const text = one<string>('text');
  const columns = `instance_key AS "instanceKey", first_seq AS "firstSeq", last_seq AS "lastSeq", bytes`;
  return {
    counters: prepare(
      'perdure_stream_counters',
      { instanceKeys: keys() },
      ({ instanceKeys }) =>
        `SELECT ${columns} FROM ${streams} WHERE instance_key = ANY (${instanceKeys})`,
    ),
    insert: prepare(
      'perdure_insert_stream_chunks',
      { rows: chunkRows },
      ({ rows }) =>
        `INSERT INTO ${chunks} (${rows.names}) SELECT ${rows.names} FROM ${rows.as('new')}`,
    ),
    write: prepare(
      'perdure_write_streams',
      { streams: streamRows },
      ({ streams: rows }) => `INSERT INTO ${streams} (${rows.names})
        SELECT ${rows.names} FROM ${rows.as('new')}
        ON CONFLICT (instance_key) DO UPDATE SET last_seq = excluded.last_seq, bytes = excluded.bytes`,
    ),
    // The window reads the chunks that are kept, at most once per eighth of the limit.
    drop: prepare(
      'perdure_drop_stream_chunks',
      { instanceKey: number, firstSeq: number, lastSeq: number, excess: number },
      ({ instanceKey, firstSeq, lastSeq, excess }) => `WITH cut AS MATERIALIZED (
          SELECT coalesce((
            SELECT seq FROM (
              SELECT seq, sum(bytes) OVER (ORDER BY seq) AS total FROM ${chunks}
              WHERE instance_key = ${instanceKey} AND seq >= ${firstSeq} AND seq < ${lastSeq}) AS running
            WHERE total >= ${excess} ORDER BY seq LIMIT 1), ${lastSeq} - 1) AS seq),
        dropped AS (
          DELETE FROM ${chunks} WHERE instance_key = ${instanceKey} AND seq >= ${firstSeq}
            AND seq <= (SELECT seq FROM cut) RETURNING bytes)
        UPDATE ${streams} SET first_seq = (SELECT seq + 1 FROM cut),
          bytes = bytes - (SELECT coalesce(sum(dropped.bytes), 0)::bigint FROM dropped)
        WHERE instance_key = ${instanceKey}`,
    ),
    lastPlace: prepare(
      'perdure_last_chunk_of_source',
      { instanceKey: number, source: text },
      ({ instanceKey, source }) =>
        `SELECT max(place) AS place FROM ${chunks} WHERE instance_key = ${instanceKey} AND source = ${source}`,
    ),
    // A row without a chunk for an empty page. `first_seq` skips the index entries of dropped chunks.
    read: prepare(
      'perdure_read_stream',
      { instanceId: text, after: number, limit: number, maxBytes: number },
      ({ instanceId, after, limit, maxBytes }) =>
        `SELECT run.instance_key AS "instanceKey", ended_at IS NOT NULL AS "hasEnded", coalesce(stream.last_seq, 0) AS "lastSeq",
          EXISTS (SELECT 1 FROM ${schema}.jobs AS job WHERE job.instance_key = run.instance_key) AS "isJob",
          page.seq, page.at, page.source, page.payload
        FROM ${schema}.instances AS run
        LEFT JOIN LATERAL (SELECT first_seq, last_seq FROM ${streams} AS one
          WHERE one.instance_key = run.instance_key OFFSET 0) AS stream ON TRUE
        LEFT JOIN LATERAL (
          SELECT * FROM (
            SELECT seq, at, source, payload, sum(bytes) OVER (ORDER BY seq) - bytes AS before FROM (
              SELECT seq, at, source, payload, bytes FROM ${chunks} AS chunk
              WHERE chunk.instance_key = run.instance_key AND chunk.seq > ${after} AND chunk.seq >= stream.first_seq
              ORDER BY seq LIMIT ${limit}) AS next) AS summed
          WHERE before < ${maxBytes} ORDER BY seq) AS page ON TRUE
        WHERE instance_id = ${instanceId} ORDER BY page.seq`,
    ),
    markDeleted: prepare(
      'perdure_mark_streams_deleted',
      { instanceKeys: keys() },
      ({ instanceKeys }) =>
        `UPDATE ${streams} SET is_deleted = TRUE WHERE instance_key = ANY (${instanceKeys})`,
    ),
    deleteChunks: prepare(
      'perdure_delete_stream_chunks',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${chunks} WHERE instance_key = ANY (${instanceKeys})`,
    ),
    deleteStreams: prepare(
      'perdure_delete_streams',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `DELETE FROM ${streams} WHERE instance_key = ANY (${instanceKeys})`,
    ),
    // Skips a stream that another process is deleting.
    firstDeleted: prepare(
      'perdure_first_deleted_stream',
      {},
      () => `SELECT ${columns} FROM ${streams} WHERE is_deleted ORDER BY instance_key LIMIT 1
        FOR UPDATE SKIP LOCKED`,
    ),
    deleteRange: prepare(
      'perdure_delete_stream_part',
      { instanceKey: number, from: number, to: number },
      ({ instanceKey, from, to }) =>
        `DELETE FROM ${chunks} WHERE instance_key = ${instanceKey} AND seq >= ${from} AND seq < ${to}`,
    ),
    shorten: prepare(
      'perdure_shorten_stream',
      { instanceKey: number, firstSeq: number },
      ({ instanceKey, firstSeq }) =>
        `UPDATE ${streams} SET first_seq = ${firstSeq} WHERE instance_key = ${instanceKey}`,
    ),
  };
}
