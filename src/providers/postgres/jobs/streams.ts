import type {
  AppendChunks,
  AppendResult,
  ChunkPage,
  ReadChunksParams,
  StreamStore,
} from '../../contract/streams.ts';
import type { ChunkRow, StreamRow } from './chunk-rows.ts';
import type { Transaction } from '../driver/connection.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';

/** The streams of jobs. */
export function createStreamStore(store: Store): StreamStore {
  return {
    // One after the other: chunks of one handler keep their order.
    appendChunks: store.batching({
      operation: 'appendChunks',
      run: (scope, requests: readonly AppendChunks[]) => append(store, scope, requests),
      maxInFlight: 1,
    }),

    async readChunks(params) {
      const { instanceId, after } = params;
      const { page, toDelete } = await store.read('readChunks', (tx) =>
        readPage(store, tx, params),
      );
      if (toDelete !== undefined) {
        await store.writeOnce('readChunks', async ({ tx, effects }) => {
          await store.chunkRows.deleteUpTo(tx, toDelete, after);
          effects.emitted.add(instanceId);
        });
      }
      return page;
    },
  };
}

async function append(
  store: Store,
  scope: Scope,
  requests: readonly AppendChunks[],
): Promise<readonly AppendResult[]> {
  const { tx, effects } = scope;
  const tokens = requests.map(({ lockToken }) => parseToken(lockToken));
  const held = await store.chunkRows.held(tx, tokens, scope.nowParameter);
  const rows = await store.chunkRows.lock(tx, [...new Set(held.values())]);
  const streams = new Map(rows.map((row) => [row.instanceKey, row]));
  const chunks: ChunkRow[] = [];
  const grown = new Set<number>();
  const results = requests.map((request): AppendResult => {
    const instanceKey = held.get(request.lockToken);
    if (instanceKey === undefined) return 'lost';
    const stream = streams.get(instanceKey);
    if (stream === undefined || stream.isUnread) return 'unread';
    const after = grow(stream, request);
    if (after === undefined) return 'full';
    streams.set(instanceKey, after);
    grown.add(instanceKey);
    effects.emitted.add(stream.instanceId);
    for (const [place, payload] of request.chunks.entries()) {
      chunks.push({ instanceKey, seq: stream.lastSeq + place + 1, payload });
    }
    return 'appended';
  });
  const changed = [...grown].flatMap((key) => streams.get(key) ?? []);
  await store.chunkRows.append(tx, chunks, changed);
  return results;
}

/** How a stream stands with more chunks; `undefined` when they do not fit. */
function grow(stream: StreamRow, request: AppendChunks): StreamRow | undefined {
  const { chunks, maxChunks, maxBytes } = request;
  const waitingChunks = stream.waitingChunks + chunks.length;
  const waitingBytes = chunks.reduce(
    (sum, chunk) => sum + Buffer.byteLength(chunk),
    stream.waitingBytes,
  );
  const isFull = stream.waitingChunks > 0 && (waitingChunks > maxChunks || waitingBytes > maxBytes);
  if (isFull) return undefined;
  return { ...stream, lastSeq: stream.lastSeq + chunks.length, waitingChunks, waitingBytes };
}

/** Reads on from where the reader stands; `toDelete`: the instance of which there is something to delete. */
async function readPage(
  store: Store,
  tx: Transaction,
  params: ReadChunksParams,
): Promise<{ readonly page: ChunkPage; readonly toDelete: number | undefined }> {
  const { after, limit } = params;
  const stream = await store.chunkRows.find(tx, params);
  if (stream === undefined) return { page: { chunks: [], over: true }, toDelete: undefined };
  const { instanceKey, isOver, hasRead } = stream;
  // One more than asked for tells whether these are the last.
  const most = Math.max(limit, 0);
  const chunks = await store.chunkRows.select(tx, instanceKey, { after, limit: most + 1 });
  const page = { chunks: chunks.slice(0, most), over: isOver && chunks.length <= most };
  return { page, toDelete: hasRead ? instanceKey : undefined };
}
