import type { EmittedChunks } from '../../contract/turn.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { ChunkRows } from '../tables/chunk-rows.ts';
import type { StreamRows } from '../tables/stream-rows.ts';

/** Writes the chunks that the code of a turn emitted: to the stream of its job, or to the recorded one. */
export function commitEmitted(
  parts: { readonly chunkRows: ChunkRows; readonly streamRows: StreamRows },
  { now, effects }: Scope,
  target: { readonly instanceKey: number; readonly instanceId: string },
  { chunks, source, maxBytes }: EmittedChunks,
): void {
  const { instanceKey, instanceId } = target;
  const job = parts.chunkRows.streamOf(instanceKey);
  if (job === undefined) {
    parts.streamRows.append({ instanceKey, chunks, source, firstPlace: 0, maxBytes, now });
  } else if (job.isAbandoned === 0) {
    // A turn cannot wait for the reader, so the bounds of the job do not apply.
    const bytes = chunks.reduce((sum, chunk) => sum + Buffer.byteLength(chunk), 0);
    parts.chunkRows.append(job, chunks, bytes);
  }
  effects.emitted.add(instanceId);
}
