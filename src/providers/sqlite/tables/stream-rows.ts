import type Database from 'better-sqlite3';
import type { Payload } from '../../../model/values/payload.ts';
import type { ReadStreamParams, RecordedChunk, StreamPage } from '../../contract/streams.ts';
import { chunkBytes, excessBytes } from '../../rules/streams.ts';

/** Chunks to append to the stream of an instance. */
export interface NewChunks {
  readonly instanceKey: number;
  readonly chunks: readonly Payload[];
  readonly source: string;
  /** The place of the first chunk; 0 for all chunks of a turn. */
  readonly firstPlace: number;
  readonly maxBytes: number;
  readonly now: number;
}

interface Counters {
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly bytes: number;
}

interface Head extends Omit<StreamPage, 'chunks' | 'hasEnded' | 'isJob'> {
  readonly firstSeq: number;
  readonly hasEnded: 0 | 1;
  readonly isJob: 0 | 1;
}

interface StoredChunk extends RecordedChunk {
  readonly bytes: number;
}

const none: Counters = { firstSeq: 1, lastSeq: 0, bytes: 0 };

/** The recorded streams: the tables `streams` and `stream_chunks`. */
export class StreamRows {
  readonly #selectCounters;
  readonly #writeCounters;
  readonly #insert;
  readonly #oldest;
  readonly #deleteUpTo;
  readonly #lastPlace;
  readonly #selectHead;
  readonly #select;
  readonly #count;
  readonly #markDeleted;
  readonly #deleteChunks;
  readonly #deleteStreams;
  readonly #firstDeleted;
  readonly #boundary;

  constructor(db: Database.Database) {
    const keys = '(SELECT value FROM json_each(?))';
    this.#selectCounters = db.prepare<[number], Counters>(
      `SELECT first_seq AS firstSeq, last_seq AS lastSeq, bytes FROM streams WHERE instance_key = ?`,
    );
    this.#writeCounters = db.prepare<[number, number, number, number]>(
      `INSERT INTO streams (instance_key, first_seq, last_seq, bytes) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET first_seq = excluded.first_seq, last_seq = excluded.last_seq, bytes = excluded.bytes`,
    );
    this.#insert = db.prepare<[number, number, number, number, number, string, string]>(
      'INSERT INTO stream_chunks (instance_key, seq, at, bytes, place, source, payload) VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#oldest = db.prepare<[number, number], { seq: number; bytes: number }>(
      'SELECT seq, bytes FROM stream_chunks WHERE instance_key = ? AND seq < ? ORDER BY seq',
    );
    this.#deleteUpTo = db.prepare<[number, number]>(
      'DELETE FROM stream_chunks WHERE instance_key = ? AND seq <= ?',
    );
    this.#lastPlace = db
      .prepare<[number, string], number | null>(
        'SELECT max(place) FROM stream_chunks WHERE instance_key = ? AND source = ?',
      )
      .pluck();
    this.#selectHead = db.prepare<[string], Head>(
      `SELECT run.instance_key AS instanceKey, ended_at IS NOT NULL AS hasEnded,
              EXISTS (SELECT 1 FROM jobs WHERE jobs.instance_key = run.instance_key) AS isJob,
              coalesce(first_seq, 1) AS firstSeq, coalesce(last_seq, 0) AS lastSeq
       FROM instances AS run LEFT JOIN streams ON streams.instance_key = run.instance_key WHERE instance_id = ?`,
    );
    this.#select = db.prepare<[number, number], StoredChunk>(
      `SELECT seq, at, source, payload, bytes FROM stream_chunks
       WHERE instance_key = ? AND seq > ? ORDER BY seq`,
    );
    this.#count = db
      .prepare<[string], number | null>(
        `SELECT sum(last_seq - first_seq + 1) FROM streams WHERE instance_key IN ${keys}`,
      )
      .pluck();
    this.#markDeleted = db.prepare<[string]>(
      `UPDATE streams SET is_deleted = 1 WHERE instance_key IN ${keys}`,
    );
    this.#deleteChunks = db.prepare<[string]>(
      `DELETE FROM stream_chunks WHERE instance_key IN ${keys}`,
    );
    this.#deleteStreams = db.prepare<[string]>(`DELETE FROM streams WHERE instance_key IN ${keys}`);
    this.#firstDeleted = db
      .prepare<[], number>(
        'SELECT instance_key FROM streams WHERE is_deleted = 1 AND instance_key > 0 ORDER BY instance_key LIMIT 1',
      )
      .pluck();
    this.#boundary = db
      .prepare<[number, number], number>(
        'SELECT seq FROM stream_chunks WHERE instance_key = ? ORDER BY seq LIMIT 1 OFFSET +?',
      )
      .pluck();
  }

  /** Appends chunks, then drops the oldest ones above the limit. */
  append({ instanceKey, chunks, source, firstPlace, maxBytes, now }: NewChunks): void {
    if (chunks.length === 0) return;
    const before = this.#selectCounters.get(instanceKey) ?? none;
    let { firstSeq, lastSeq, bytes } = before;
    for (const [index, payload] of chunks.entries()) {
      const size = chunkBytes(payload);
      const place = firstPlace === 0 ? 0 : firstPlace + index;
      lastSeq += 1;
      bytes += size;
      this.#insert.run(instanceKey, lastSeq, now, size, place, source, payload);
    }
    const excess = excessBytes(bytes, maxBytes);
    if (excess > 0) {
      let dropped = 0;
      for (const old of this.#oldest.iterate(instanceKey, lastSeq)) {
        if (dropped >= excess) break;
        dropped += old.bytes;
        firstSeq = old.seq + 1;
      }
      this.#deleteUpTo.run(instanceKey, firstSeq - 1);
      bytes -= dropped;
    }
    this.#writeCounters.run(instanceKey, firstSeq, lastSeq, bytes);
  }

  /** The place of the last chunk of a source that is stored; 0 if there is none. */
  lastPlaceOf(instanceKey: number, source: string): number {
    return this.#lastPlace.get(instanceKey, source) ?? 0;
  }

  read({ instanceId, after, limit, maxBytes }: ReadStreamParams): StreamPage | undefined {
    const head = this.#selectHead.get(instanceId);
    if (head === undefined) return undefined;
    const { instanceKey, lastSeq, hasEnded, isJob } = head;
    const chunks: RecordedChunk[] = [];
    let bytes = 0;
    for (const { bytes: size, ...chunk } of this.#select.iterate(instanceKey, after)) {
      bytes += size;
      if (chunks.length >= limit || (bytes > maxBytes && chunks.length > 0)) break;
      chunks.push(chunk);
    }
    return { instanceKey, chunks, lastSeq, hasEnded: hasEnded === 1, isJob: isJob === 1 };
  }

  /** Deletes the streams of instances, those with more than `maxChunks` together later. */
  deleteOfInstances(keys: string, maxChunks: number): void {
    const count = this.#count.get(keys) ?? 0;
    if (count === 0) return;
    if (count > maxChunks) {
      this.#markDeleted.run(keys);
      return;
    }
    this.#deleteChunks.run(keys);
    this.#deleteStreams.run(keys);
  }

  /** Deletes at most `max` chunks of deleted instances. Returns their number. */
  reclaim(max: number): number {
    let deleted = 0;
    for (;;) {
      const instanceKey = this.#firstDeleted.get();
      if (instanceKey === undefined || deleted >= max) return deleted;
      const end = this.#boundary.get(instanceKey, max - deleted);
      if (end !== undefined) {
        deleted += this.#deleteUpTo.run(instanceKey, end - 1).changes;
        const { lastSeq } = this.#selectCounters.get(instanceKey) ?? none;
        this.#writeCounters.run(instanceKey, end, lastSeq, 0);
        return deleted;
      }
      const keys = JSON.stringify([instanceKey]);
      deleted += this.#deleteChunks.run(keys).changes;
      this.#deleteStreams.run(keys);
    }
  }
}
