import { isTerminal } from '../../../model/status.ts';
import type { Payload } from '../../../model/values/payload.ts';
import type {
  AppendChunks,
  AppendResult,
  ChunkPage,
  ReadChunksParams,
  StreamRecord,
  StreamStore,
} from '../../contract/streams.ts';
import { unstoredChunks } from '../../rules/streams.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { ChunkRows } from '../tables/chunk-rows.ts';
import type { InstanceLocks } from '../tables/instance-locks.ts';
import type { InstanceRows } from '../tables/instance-rows.ts';
import type { StreamRows } from '../tables/stream-rows.ts';
import type { WorkItems } from '../tables/work-items.ts';

/** The parts of the store that streams use. */
interface StreamParts extends StoreAccess {
  readonly chunkRows: ChunkRows;
  readonly instances: InstanceRows;
  readonly locks: InstanceLocks;
  readonly streamRows: StreamRows;
  readonly workItems: WorkItems;
}

/** The streams of runs and of jobs. */
export function createStreamStore(store: StreamParts): StreamStore {
  return {
    appendChunks: (requests) =>
      store.write('appendChunks', requests, (scope, one) => append(store, scope, one)),

    async readChunks(params) {
      const page = await store.read('readChunks', () => readUnlessAcked(store, params));
      if (page !== undefined) return page;
      return store.writeOnce('readChunks', (scope) => readAndDelete(store, scope, params));
    },

    readStream: (params) => store.read('readStream', () => store.streamRows.read(params)),
  };
}

function append(store: StreamParts, scope: Scope, request: AppendChunks): AppendResult {
  const { now, effects } = scope;
  const { lockToken, claim, chunks, maxChunks, maxBytes, record: how } = request;
  const instanceKey =
    claim === 'instance'
      ? store.locks.heldBy(lockToken, now)
      : store.workItems.heldBy(lockToken, now)?.instanceKey;
  if (instanceKey === undefined) return 'lost';
  const stream = store.chunkRows.streamOf(instanceKey);
  if (stream === undefined && how !== undefined) {
    return record(store, scope, { instanceKey, chunks, how });
  }
  if (stream === undefined || stream.isAbandoned === 1 || stream.hasEnded === 1) return 'unread';
  const bytes = chunks.reduce((sum, chunk) => sum + Buffer.byteLength(chunk), 0);
  const isFull =
    stream.waitingChunks > 0 &&
    (stream.waitingChunks + chunks.length > maxChunks || stream.waitingBytes + bytes > maxBytes);
  if (isFull) return 'full';
  store.chunkRows.append(stream, chunks, bytes);
  effects.emitted.add(stream.instanceId);
  return 'appended';
}

/** Appends chunks to the recorded stream of a run that has not ended. */
function record(
  store: StreamParts,
  { now, effects }: Scope,
  request: {
    readonly instanceKey: number;
    readonly chunks: readonly Payload[];
    readonly how: StreamRecord;
  },
): AppendResult {
  const { instanceKey, how } = request;
  const run = store.instances.getFull(instanceKey);
  if (run === undefined || isTerminal(run.status)) return 'unread';
  const { streamRows } = store;
  const { source, maxBytes } = how;
  const stored = how.isRepeated ? streamRows.lastPlaceOf(instanceKey, source) : 0;
  const chunks = unstoredChunks(request.chunks, how, stored);
  const firstPlace = how.firstPlace + request.chunks.length - chunks.length;
  streamRows.append({ instanceKey, chunks, source, firstPlace, maxBytes, now });
  effects.emitted.add(run.instanceId);
  return 'recorded';
}

/** Reads without the write lock. Returns `undefined` if acknowledged chunks must be deleted. */
function readUnlessAcked(store: StreamParts, params: ReadChunksParams): ChunkPage | undefined {
  const { after } = params;
  const stream = store.chunkRows.find(params);
  const isRead = stream !== undefined && store.chunkRows.has(stream.instanceKey, after);
  return isRead ? undefined : readPage(store, params);
}

function readAndDelete(
  store: StreamParts,
  { effects }: Scope,
  params: ReadChunksParams,
): ChunkPage {
  const { instanceId, after } = params;
  const stream = store.chunkRows.find(params);
  if (stream !== undefined && store.chunkRows.deleteUpTo(stream.instanceKey, after)) {
    effects.emitted.add(instanceId);
  }
  return readPage(store, params);
}

function readPage(store: StreamParts, params: ReadChunksParams): ChunkPage {
  const { after, limit } = params;
  const stream = store.chunkRows.find(params);
  if (stream === undefined) return { chunks: [], over: true };
  // Reads one more to find out whether this page is the last.
  const chunks = store.chunkRows.select(stream.instanceKey, after, Math.max(limit, 0) + 1);
  const isLast = chunks.length <= limit;
  return { chunks: chunks.slice(0, limit), over: isLast && stream.hasEnded === 1 };
}
