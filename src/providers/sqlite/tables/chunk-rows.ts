import type Database from 'better-sqlite3';
import type { Payload } from '../../../model/values/payload.ts';
import type { StreamChunk } from '../../contract/streams.ts';

/** The stream of a job, with the size of its unread part. */
export interface StreamRow {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly isAbandoned: 0 | 1;
  readonly hasEnded: 0 | 1;
  readonly lastSeq: number;
  readonly waitingChunks: number;
  readonly waitingBytes: number;
}

interface StreamKey {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly sessionId?: string | null;
}

const stream = `SELECT instance_key AS instanceKey, instance_id AS instanceId, abandoned_at IS NOT NULL AS isAbandoned,
    ended_at IS NOT NULL AS hasEnded, last_seq AS lastSeq, waiting_chunks AS waitingChunks,
    waiting_bytes AS waitingBytes
  FROM instances JOIN jobs USING (instance_key)`;

/** The rows of `chunks`, and their counters in `jobs`. */
export class ChunkRows {
  readonly #selectByKey;
  readonly #selectById;
  readonly #insert;
  readonly #select;
  readonly #measure;
  readonly #delete;
  readonly #count;

  constructor(db: Database.Database) {
    this.#selectByKey = db.prepare<[number], StreamRow>(`${stream} WHERE instance_key = ?`);
    this.#selectById = db.prepare<
      [{ instanceId: string; incarnation: string; sessionId: string | null }],
      StreamRow
    >(
      `${stream} WHERE instance_id = :instanceId AND incarnation = :incarnation
         AND (:sessionId IS NULL OR session_key = (SELECT session_key FROM sessions WHERE session_id = :sessionId))`,
    );
    this.#insert = db.prepare<[number, number, number, string]>(
      'INSERT INTO chunks (instance_key, seq, bytes, payload) VALUES (?, ?, ?, ?)',
    );
    this.#select = db.prepare<[number, number, number], StreamChunk>(
      'SELECT seq, payload FROM chunks WHERE instance_key = ? AND seq > ? ORDER BY seq LIMIT +?',
    );
    this.#measure = db.prepare<[number, number], { chunks: number; bytes: number }>(
      `SELECT count(*) AS chunks, coalesce(sum(bytes), 0) AS bytes FROM chunks
       WHERE instance_key = ? AND seq <= ?`,
    );
    this.#delete = db.prepare<[number, number]>(
      'DELETE FROM chunks WHERE instance_key = ? AND seq <= ?',
    );
    this.#count = db.prepare<[number, number, number, number]>(
      `UPDATE jobs SET last_seq = last_seq + ?, waiting_chunks = waiting_chunks + ?,
         waiting_bytes = waiting_bytes + ?
       WHERE instance_key = ?`,
    );
  }

  streamOf(instanceKey: number): StreamRow | undefined {
    return this.#selectByKey.get(instanceKey);
  }

  find({ instanceId, incarnation, sessionId = null }: StreamKey): StreamRow | undefined {
    return this.#selectById.get({ instanceId, incarnation, sessionId });
  }

  append({ instanceKey, lastSeq }: StreamRow, chunks: readonly Payload[], bytes: number): void {
    for (const [index, payload] of chunks.entries()) {
      this.#insert.run(instanceKey, lastSeq + index + 1, Buffer.byteLength(payload), payload);
    }
    this.#count.run(chunks.length, chunks.length, bytes, instanceKey);
  }

  select(instanceKey: number, after: number, limit: number): readonly StreamChunk[] {
    return this.#select.all(instanceKey, after, limit);
  }

  /** Whether there are chunks up to a sequence number. */
  has(instanceKey: number, upTo: number): boolean {
    return upTo > 0 && (this.#measure.get(instanceKey, upTo)?.chunks ?? 0) > 0;
  }

  /** Deletes chunks up to a sequence number. Returns whether there were any. */
  deleteUpTo(instanceKey: number, upTo: number): boolean {
    const { chunks, bytes } = this.#measure.get(instanceKey, upTo) ?? { chunks: 0, bytes: 0 };
    if (chunks === 0) return false;
    this.#delete.run(instanceKey, upTo);
    this.#count.run(0, -chunks, -bytes, instanceKey);
    return true;
  }
}
