import type { Payload } from '../../model/values/payload.ts';

/** Chunks that a running handler emits, fenced by its claim. */
export interface AppendChunks {
  readonly lockToken: string;
  readonly chunks: readonly Payload[];
  /** How many chunks, and how many bytes of them, may wait for the reader. */
  readonly maxChunks: number;
  readonly maxBytes: number;
}

/** `full`: the reader must read first. `unread`: nobody will. `lost`: the claim is not held any more. */
export type AppendResult = 'appended' | 'full' | 'unread' | 'lost';

/** One chunk, numbered from 1 in the order in which they were emitted. */
export interface StreamChunk {
  readonly seq: number;
  readonly payload: Payload;
}

/** Which part of which stream to read. */
export interface ReadChunksParams {
  readonly instanceId: string;
  readonly incarnation: string;
  /** Whose job it has to be. Absent: anybody's. */
  readonly sessionId?: string;
  /** The last number that the reader has; 0 at first. */
  readonly after: number;
  readonly limit: number;
}

/** A part of a stream. */
export interface ChunkPage {
  readonly chunks: readonly StreamChunk[];
  /** The run is over, and nothing comes after these. */
  readonly over: boolean;
}

/**
 * The streams of jobs: what handlers emit for the caller. Bounded, ordered, deleted as they are read. As handlers run at
 * least once, so do their chunks come: again after an attempt that is repeated, or a commit whose outcome is unknown.
 *
 * A provider must:
 * - tell `emitted` after chunks were added or made room for, in this process (stream/tells-whoever-waits)
 * - let other processes know, by `emitted` or `changed` (shared/a-stream-is-read-elsewhere)
 */
export interface StreamStore {
  /**
   * Adds chunks to the stream of the run that the claim belongs to.
   *
   * A provider must, per request:
   * - add all of its chunks or none, numbered without gaps, in the order of the requests (stream/comes-in-order,
   *   stream/numbers-go-on-after-reading)
   * - answer `lost` for a token that is not held, `unread` for a run that is nobody's job or whose caller has gone
   *   (stream/needs-a-held-claim, stream/of-nobody-is-not-kept)
   * - answer `full` when more than `maxChunks` or `maxBytes` would wait; an empty stream takes anything
   *   (stream/is-bounded-in-chunks, stream/is-bounded-in-bytes)
   * - keep one bad request from spoiling its neighbours (stream/a-lost-claim-spares-its-neighbours)
   */
  appendChunks(requests: readonly AppendChunks[]): Promise<readonly AppendResult[]>;

  /**
   * Reads the chunks after a number, and deletes those up to it.
   *
   * A provider must:
   * - answer in order, at most `limit`, the same again until they are deleted (stream/comes-in-order,
   *   stream/can-be-read-again)
   * - delete up to `after`, making room (stream/reading-makes-room)
   * - answer `over` with the last chunks of a run that is over, and for a life of the id that is not there
   *   (stream/is-over-with-its-run, stream/of-another-life-is-over)
   * - answer `over` and delete nothing for a job of another session than the one that is named
   *   (stream/of-another-session-is-over)
   * - keep the chunks of a run that is over until its reply is taken (stream/outlives-its-run)
   */
  readChunks(params: ReadChunksParams): Promise<ChunkPage>;
}
