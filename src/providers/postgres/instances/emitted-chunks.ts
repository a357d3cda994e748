import type { EmittedChunks } from '../../contract/turn.ts';
import type { Scope } from '../driver/scope.ts';
import type { ChunkRow, ChunkRows } from '../tables/chunk-rows.ts';
import type { StreamRows } from '../tables/stream-rows.ts';

/** The chunks that the code of a turn emitted. Its instance is locked. */
export interface TurnChunks {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly emitted: EmittedChunks;
}

/** Writes the chunks of turns: to the streams of their jobs, or to the recorded ones. */
export async function commitEmitted(
  parts: { readonly chunkRows: ChunkRows; readonly streamRows: StreamRows },
  { tx, now, effects }: Scope,
  turns: readonly TurnChunks[],
): Promise<void> {
  if (turns.length === 0) return;
  const locked = await parts.chunkRows.lock(
    tx,
    turns.map(({ instanceKey }) => instanceKey),
  );
  const jobs = new Map(locked.map((job) => [job.instanceKey, job]));
  const ofJobs = turns.filter(({ instanceKey }) => jobs.get(instanceKey)?.isUnread === false);
  const recorded = turns.filter(({ instanceKey }) => !jobs.has(instanceKey));
  const chunks: ChunkRow[] = [];
  for (const { instanceKey, emitted } of ofJobs) {
    const job = jobs.get(instanceKey);
    if (job === undefined) continue;
    let { lastSeq, waitingBytes } = job;
    for (const payload of emitted.chunks) {
      lastSeq += 1;
      waitingBytes += Buffer.byteLength(payload);
      chunks.push({ instanceKey, seq: lastSeq, payload });
    }
    // A turn cannot wait for the reader, so the bounds of the job do not apply.
    const waitingChunks = job.waitingChunks + emitted.chunks.length;
    jobs.set(instanceKey, { ...job, lastSeq, waitingBytes, waitingChunks });
  }
  const grown = ofJobs.flatMap(({ instanceKey }) => jobs.get(instanceKey) ?? []);
  await parts.chunkRows.append(tx, chunks, grown);
  const appends = recorded.map(({ instanceKey, emitted }) => ({
    instanceKey,
    ...emitted,
    firstPlace: 0,
  }));
  await parts.streamRows.append(tx, appends, now);
  for (const { instanceId } of turns) effects.emitted.add(instanceId);
}
