import { parseJson } from './payload.ts';

/** Where a chunk of a stream comes from. */
export interface ChunkSource {
  /** The execution of the instance: 1, then one more after each continue-as-new or retry. */
  readonly executionId: number;
  /** The handler or step that emitted it. Absent: the code of the orchestration. */
  readonly handler?: ChunkHandler;
}

/** A run of a handler or step that emitted chunks. */
export interface ChunkHandler {
  /** The name of the activity, task or step. */
  readonly name: string;
  /** The number of the call in its execution. */
  readonly operation: number;
  /** The attempt: 1, then one more after each failure. */
  readonly attempt: number;
  /**
   * Unique per run. After a failure or a crash, the handler runs again for the same `operation` with
   * another `runId`: discard the chunks of the runs before it.
   */
  readonly runId: string;
}

type Encoded =
  | readonly [executionId: number]
  | readonly [executionId: number, name: string, operation: number, attempt: number, runId: string];

/** Encodes a source as text. A stream has one per chunk, so it is short. */
export function encodeChunkSource({ executionId, handler }: ChunkSource): string {
  const encoded: Encoded =
    handler === undefined
      ? [executionId]
      : [executionId, handler.name, handler.operation, handler.attempt, handler.runId];
  return JSON.stringify(encoded);
}

/** Decodes the source of a stored chunk. */
export function decodeChunkSource(text: string): ChunkSource {
  const encoded = parseJson(text) as Encoded;
  if (encoded.length === 1) return { executionId: encoded[0] };
  const [executionId, name, operation, attempt, runId] = encoded;
  return { executionId, handler: { name, operation, attempt, runId } };
}
