import type {
  AppendChunks,
  AppendResult,
  ChunkPage,
  ReadChunksParams,
  StreamStore,
} from '../../contract/streams.ts';
import { unstoredChunks } from '../../rules/streams.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { Transaction } from '../driver/connection.ts';
import type { Scope } from '../driver/scope.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { ChunkRow, ChunkRows, StreamRow } from '../tables/chunk-rows.ts';
import type { NewChunks, StreamRows } from '../tables/stream-rows.ts';

type StreamParts = StoreAccess & {
  readonly chunkRows: ChunkRows;
  readonly streamRows: StreamRows;
};

/** Implements the streams of runs and of jobs. */
export function createStreamStore(store: StreamParts): StreamStore {
  // One transaction at a time keeps the chunks of a handler in order. Claims of instances have transactions of their
  // own: their rows are locked in another order than those of work items.
  const appending = (claim: 'instance' | 'workItem') =>
    store.batching({
      operation: 'appendChunks',
      run: (scope, requests: readonly AppendChunks[]) => append(store, scope, requests, claim),
      maxInFlight: 1,
    });
  const ofItems = appending('workItem');
  const ofInstances = appending('instance');
  return {
    async appendChunks(requests) {
      const steps = requests.filter(({ claim }) => claim === 'instance');
      if (steps.length === 0) return ofItems(requests);
      if (steps.length === requests.length) return ofInstances(requests);
      const handlers = requests.filter(({ claim }) => claim !== 'instance');
      const results = await Promise.all([ofInstances(steps), ofItems(handlers)]);
      const [stepResults, handlerResults] = results.map((part) => part.values());
      return requests.map(({ claim }) => {
        const { value } = (claim === 'instance' ? stepResults : handlerResults)?.next() ?? {};
        return value ?? 'lost';
      });
    },

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

    readStream: (params) => store.read('readStream', (tx) => store.streamRows.read(tx, params)),
  };
}

async function append(
  store: StreamParts,
  scope: Scope,
  requests: readonly AppendChunks[],
  claim: 'instance' | 'workItem',
): Promise<readonly AppendResult[]> {
  const { tx, effects } = scope;
  const tokens = requests.map(({ lockToken }) => parseToken(lockToken));
  const [held] = await scope.begin(store.chunkRows.lockHeld(tx, tokens, scope.nowParameter, claim));
  const rows = await store.chunkRows.lock(tx, [
    ...new Set([...held.values()].map(({ instanceKey }) => instanceKey)),
  ]);
  const streams = new Map(rows.map((row) => [row.instanceKey, row]));
  const chunks: ChunkRow[] = [];
  const grown = new Set<number>();
  const recorded: { readonly instanceKey: number; readonly request: AppendChunks }[] = [];
  const results = requests.map((request): AppendResult => {
    const run = held.get(request.lockToken);
    if (run === undefined) return 'lost';
    const { instanceKey, instanceId } = run;
    const stream = streams.get(instanceKey);
    if (stream === undefined && request.record !== undefined && !run.hasEnded) {
      recorded.push({ instanceKey, request });
      effects.emitted.add(instanceId);
      return 'recorded';
    }
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
  await record(store, scope, recorded);
  return results;
}

/** Appends chunks to recorded streams. Their runs are locked and have not ended. */
async function record(
  { streamRows }: StreamParts,
  { tx, now }: Scope,
  recorded: readonly { readonly instanceKey: number; readonly request: AppendChunks }[],
): Promise<void> {
  const appends: NewChunks[] = [];
  for (const { instanceKey, request } of recorded) {
    if (request.record === undefined) continue;
    const { source, firstPlace, isRepeated, maxBytes } = request.record;
    const stored = isRepeated ? await streamRows.lastPlaceOf(tx, instanceKey, source) : 0;
    const chunks = unstoredChunks(request.chunks, { firstPlace }, stored);
    const skipped = request.chunks.length - chunks.length;
    appends.push({ instanceKey, chunks, source, firstPlace: firstPlace + skipped, maxBytes });
  }
  await streamRows.append(tx, appends, now);
}

/** The stream with more chunks, or `undefined` if they do not fit. An empty stream takes any chunks. */
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

/** Reads the next page. `toDelete`: the instance that has chunks which were read before, if any. */
async function readPage(
  store: StreamParts,
  tx: Transaction,
  params: ReadChunksParams,
): Promise<{ readonly page: ChunkPage; readonly toDelete: number | undefined }> {
  const { after, limit } = params;
  const stream = await store.chunkRows.find(tx, params);
  if (stream === undefined) return { page: { chunks: [], over: true }, toDelete: undefined };
  const { instanceKey, isOver, hasRead } = stream;
  // One more than the limit, to detect the last page.
  const most = Math.max(limit, 0);
  const chunks = await store.chunkRows.select(tx, instanceKey, { after, limit: most + 1 });
  const page = { chunks: chunks.slice(0, most), over: isOver && chunks.length <= most };
  return { page, toDelete: hasRead ? instanceKey : undefined };
}
