import type { Payload } from '../../model/values/payload.ts';

/** Chunks that a running handler emits, fenced by its claim. */
export interface AppendChunks {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  readonly chunks: readonly Payload[];
  /** Maximum number and bytes of unread chunks. */
  readonly maxChunks: number;
  readonly maxBytes: number;
}

/** `full`: the reader must read first. `unread`: there is no reader. `lost`: the claim is no longer held. */
export type AppendResult = 'appended' | 'full' | 'unread' | 'lost';

/** One chunk, numbered from 1 in emit order. */
export interface StreamChunk {
  readonly seq: number;
  readonly payload: Payload;
}

/** Selects a part of a stream. */
export interface ReadChunksParams {
  readonly instanceId: string;
  readonly incarnation: string;
  /** The session that the job must belong to. Absent: any. */
  readonly sessionId?: string;
  /** The last number that the reader has. 0 at first. */
  readonly after: number;
  readonly limit: number;
}

/** A part of a stream. */
export interface ChunkPage {
  readonly chunks: readonly StreamChunk[];
  /** Whether the run has ended and there are no later chunks. */
  readonly over: boolean;
}

/**
 * The streams of jobs: chunks that handlers emit for the caller. Bounded, ordered, and deleted as they are read.
 * Delivery is at least once: a repeated attempt, or a commit with an unknown outcome, can emit chunks again.
 *
 * A provider must:
 * - send `emitted` after chunks were added or deleted in this process (stream/sends-emitted-hints)
 * - notify other processes by `emitted` or `changed` (shared/a-stream-is-read-elsewhere)
 */
export interface StreamStore {
  /**
   * Appends chunks to the stream of the run that the claim belongs to.
   *
   * A provider must, per request:
   * - append all chunks of a request or none, numbered without gaps, in the order of the requests
   *   (stream/comes-in-order, stream/numbers-go-on-after-reading)
   * - return `lost` for a token that is not held, and `unread` for a run that is not a job or whose job was abandoned
   *   (stream/needs-a-held-claim, stream/without-a-reader-is-not-kept)
   * - return `full` if more than `maxChunks` or `maxBytes` would be unread; an empty stream accepts any chunk
   *   (stream/is-bounded-in-chunks, stream/is-bounded-in-bytes)
   * - isolate errors: one bad request does not affect the others (stream/a-lost-claim-spares-its-neighbours)
   */
  appendChunks(requests: readonly AppendChunks[]): Promise<readonly AppendResult[]>;

  /**
   * Reads the chunks after a number, and deletes those up to it.
   *
   * A provider must:
   * - return chunks in order, at most `limit`, and the same ones again until they are deleted (stream/comes-in-order,
   *   stream/can-be-read-again)
   * - delete up to `after`, which frees capacity (stream/reading-makes-room)
   * - return `over` with the last chunks of an ended run, and for a missing incarnation (stream/is-over-with-its-run,
   *   stream/of-another-life-is-over)
   * - return `over` and delete nothing for a job of a session other than the given one
   *   (stream/of-another-session-is-over)
   * - keep the chunks of an ended run until its reply is taken (stream/outlives-its-run)
   */
  readChunks(params: ReadChunksParams): Promise<ChunkPage>;
}
