import type { Payload } from '../../model/values/payload.ts';

/** Chunks that a running handler or step emits, fenced by its claim. */
export interface AppendChunks {
  /** The instance of the claim, for a wrapper that encodes payloads. A store ignores it. */
  readonly instanceId?: string;
  readonly lockToken: string;
  /** What the token has claimed: an instance whose steps run, or, by default, a work item. */
  readonly claim?: 'instance' | 'workItem';
  readonly chunks: readonly Payload[];
  /** Maximum number and bytes of unread chunks of a job. */
  readonly maxChunks: number;
  readonly maxBytes: number;
  /** For a run that is not a job: how to record the chunks. Absent: they are dropped. */
  readonly record?: StreamRecord;
}

/** How to append chunks to the recorded stream of a run. */
export interface StreamRecord {
  /** Opaque to the store. Unique per claim. */
  readonly source: string;
  /** The number of the first chunk among those of the source: 1, 2, 3, … */
  readonly firstPlace: number;
  /** Whether an earlier call with the same chunks may have been committed. */
  readonly isRepeated: boolean;
  /** Maximum bytes of the stream, with 64 bytes for each chunk. The oldest chunks are dropped. */
  readonly maxBytes: number;
}

/**
 * `appended`: to the stream of a job. `recorded`: in the stream of another run. `full`: the reader must read first.
 * `unread`: the run has ended, or its job has no reader. `lost`: the claim is no longer held.
 */
export type AppendResult = 'appended' | 'recorded' | 'full' | 'unread' | 'lost';

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

/** Selects a part of a recorded stream. */
export interface ReadStreamParams {
  readonly instanceId: string;
  /** The last number that the reader has. 0 at first. */
  readonly after: number;
  readonly limit: number;
  /** Maximum bytes of the payloads. The first chunk is returned even if it is larger. */
  readonly maxBytes: number;
}

/** One chunk of a recorded stream, numbered from 1. */
export interface RecordedChunk extends StreamChunk {
  /** The time of its commit. */
  readonly at: number;
  /** As the writer passed it. */
  readonly source: string;
}

/** A part of a recorded stream, and its state, from one snapshot. */
export interface StreamPage {
  /** The instance, also after it was replaced by a start. An instance created later has another key, whatever its id. */
  readonly instanceKey: number;
  readonly chunks: readonly RecordedChunk[];
  /** The number of the last chunk that was written. 0: none. */
  readonly lastSeq: number;
  /** Whether the run has ended. No chunk follows then, unless it is retried. */
  readonly hasEnded: boolean;
  /** Whether the run is a job: its chunks are only for its caller. */
  readonly isJob: boolean;
}

/**
 * The streams of runs. A run that is not a job has a recorded stream. Any number of readers read it by number, and it is
 * deleted with its instance. Handlers and steps append to it under their claim, turns with their commit (`Turn.emitted`).
 *
 * The stream of a job is for its caller: bounded, ordered, and deleted as it is read. Delivery is at least once: a repeated
 * attempt, or a commit with an unknown outcome, can emit chunks again.
 *
 * A provider must:
 * - send `emitted` after chunks were added or deleted in this process (stream/sends-emitted-hints,
 *   record/sends-emitted-hints)
 * - notify other processes by `emitted` or `changed` (shared/a-stream-is-read-elsewhere)
 */
export interface StreamStore {
  /**
   * Appends chunks to the stream of the run that the claim belongs to.
   *
   * A provider must, per request:
   * - append all chunks of a request or none, numbered without gaps, in the order of the requests
   *   (stream/comes-in-order, stream/numbers-go-on-after-reading)
   * - return `lost` for a token that is not held (stream/needs-a-held-claim, record/needs-a-held-claim)
   * - with `claim: 'instance'`, append under the claim on the instance, which stays as it is
   *   (record/steps-emit-under-the-claim-of-their-instance, record/steps-need-a-held-instance, stream/a-step-of-a-job-emits)
   * - return `unread` for a job that was abandoned, and without `record` for every run that is not a job
   *   (stream/without-a-reader-is-not-kept)
   * - record the chunks of a run that is not a job, with their time and source (record/keeps-chunks-with-their-source,
   *   record/a-task-run-has-a-stream)
   * - return `unread` after the run has ended, and for a job only append to its own stream
   *   (record/ends-with-its-run, record/a-job-has-no-recorded-stream)
   * - skip chunks of a repeated request that the stream has already (record/a-repeat-is-not-written-twice)
   * - drop the oldest chunks of a stream above `record.maxBytes`, and never the newest one
   *   (record/drops-the-oldest, record/keeps-the-newest-chunk)
   * - return `full` if more than `maxChunks` or `maxBytes` would be unread; an empty stream accepts any chunk
   *   (stream/is-bounded-in-chunks, stream/is-bounded-in-bytes)
   * - isolate errors: one bad request does not affect the others (stream/a-lost-claim-spares-its-neighbours,
   *   record/spares-its-neighbours)
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

  /**
   * Reads recorded chunks after a number. Changes nothing. Resolves with `undefined` for an unknown id.
   *
   * A provider must:
   * - return chunks in order, at most `limit` and about `maxBytes` (record/reads-by-number, record/reads-by-bytes)
   * - return the same chunks to every reader (record/has-several-readers)
   * - include chunks that turns have emitted, once, in their order among those of handlers
   *   (record/turns-emit-once, record/a-first-turn-emits, record/a-rejected-turn-emits-nothing)
   * - keep the stream, with its key and numbers, over a continue-as-new, a prune, a retry and a start that replaces the
   *   instance, and give a fork an empty one (record/goes-on-with-the-next-execution, record/outlives-a-prune,
   *   record/goes-on-after-a-replacement, record/a-fork-has-its-own)
   * - hide the stream when its instance is deleted, and delete it in slices (record/is-deleted-with-its-instance,
   *   record/a-long-stream-is-reclaimed)
   */
  readStream(params: ReadStreamParams): Promise<StreamPage | undefined>;
}
