import type {
  AppendChunks,
  AppendResult,
  ChunkPage,
  ReadChunksParams,
  StreamStore,
} from '../../contract/streams.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { Store } from '../store.ts';

/** The streams of jobs. */
export function createStreamStore(store: Store): StreamStore {
  return {
    appendChunks: (requests) =>
      store.write('appendChunks', requests, (scope, one) => append(store, scope, one)),

    async readChunks(params) {
      const page = await store.read('readChunks', () => look(store, params));
      if (page !== undefined) return page;
      return store.writeOnce('readChunks', (scope) => readAndDelete(store, scope, params));
    },
  };
}

function append(store: Store, { now, effects }: Scope, request: AppendChunks): AppendResult {
  const { lockToken, chunks, maxChunks, maxBytes } = request;
  const item = store.workItems.heldBy(lockToken, now);
  if (item === undefined) return 'lost';
  const stream = store.chunkRows.streamOf(item.instanceKey);
  if (stream === undefined || stream.isAbandoned === 1 || stream.isOver === 1) return 'unread';
  const bytes = chunks.reduce((sum, chunk) => sum + Buffer.byteLength(chunk), 0);
  const isFull =
    stream.waitingChunks > 0 &&
    (stream.waitingChunks + chunks.length > maxChunks || stream.waitingBytes + bytes > maxBytes);
  if (isFull) return 'full';
  store.chunkRows.append(stream, chunks, bytes);
  effects.emitted.add(stream.instanceId);
  return 'appended';
}

/** Reads without the write lock; `undefined` when there is something to delete. */
function look(store: Store, params: ReadChunksParams): ChunkPage | undefined {
  const { after } = params;
  const stream = store.chunkRows.find(params);
  const isRead = stream !== undefined && store.chunkRows.has(stream.instanceKey, after);
  return isRead ? undefined : readPage(store, params);
}

function readAndDelete(store: Store, { effects }: Scope, params: ReadChunksParams): ChunkPage {
  const { instanceId, after } = params;
  const stream = store.chunkRows.find(params);
  if (stream !== undefined && store.chunkRows.deleteUpTo(stream.instanceKey, after)) {
    effects.emitted.add(instanceId);
  }
  return readPage(store, params);
}

function readPage(store: Store, params: ReadChunksParams): ChunkPage {
  const { after, limit } = params;
  const stream = store.chunkRows.find(params);
  if (stream === undefined) return { chunks: [], over: true };
  // One more than asked for tells whether these are the last.
  const chunks = store.chunkRows.select(stream.instanceKey, after, Math.max(limit, 0) + 1);
  const isLast = chunks.length <= limit;
  return { chunks: chunks.slice(0, limit), over: isLast && stream.isOver === 1 };
}
