/** The size of recorded streams, for both stores. */
import { byteLength, type Payload } from '../../model/values/payload.ts';
import type { StreamRecord } from '../contract/streams.ts';

// Counted for each chunk, so that many small chunks are bounded too.
const rowBytes = 64;

/** The bytes that a chunk takes of the limit of its stream. */
export function chunkBytes(payload: Payload): number {
  return byteLength(payload) + rowBytes;
}

/**
 * The bytes of old chunks to drop from a stream. If it exceeds its limit, an eighth of the limit more than necessary: a
 * full stream drops chunks once per eighth, not with every append.
 */
export function excessBytes(bytes: number, maxBytes: number): number {
  return bytes > maxBytes ? bytes - maxBytes + Math.floor(maxBytes / 8) : 0;
}

/** The chunks of a repeated append that the stream does not have. `storedPlace`: its last chunk of the same source. */
export function unstoredChunks(
  chunks: readonly Payload[],
  { firstPlace }: Pick<StreamRecord, 'firstPlace'>,
  storedPlace: number,
): readonly Payload[] {
  return chunks.slice(Math.max(storedPlace - firstPlace + 1, 0));
}
