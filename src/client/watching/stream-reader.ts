import { PerdureError, notFound } from '../../model/failures/errors.ts';
import { invalid, readFields } from '../../model/option-fields.ts';
import { decodeChunkSource, type ChunkSource } from '../../model/values/chunk-source.ts';
import type { Payload } from '../../model/values/payload.ts';
import type { Hint, Provider } from '../../providers/contract/provider.ts';
import type { StreamPage } from '../../providers/contract/streams.ts';
import type { HintWaiter } from '../waiting/hint-waiter.ts';

/** Options of `stream`. */
export interface StreamOptions {
  /** The `cursor` of the last known entry. Default: the oldest chunk that is kept. */
  readonly after?: string | undefined;
  /** Ends the stream: it throws the reason of the signal. */
  readonly signal?: AbortSignal | undefined;
}

/** A chunk that a handler or an orchestration emitted. */
export interface StreamedChunk<Chunk = unknown> {
  readonly kind: 'chunk';
  /** Identifies its place in the stream. Pass it as `after` to continue behind it. Opaque. */
  readonly cursor: string;
  readonly value: Chunk;
  /** The time of its commit, in milliseconds since the epoch. */
  readonly at: number;
  readonly source: ChunkSource;
}

/** Chunks that this reader missed, because the stream exceeded its limit. */
export interface DroppedChunks {
  readonly kind: 'dropped';
  /** The number of chunks. */
  readonly count: number;
  readonly cursor: string;
}

/** An entry of a stream: a chunk, or a mark where chunks are missing. */
export type StreamEntry<Chunk = unknown> = StreamedChunk<Chunk> | DroppedChunks;

/** A place in a stream: behind the chunk `seq`. */
interface StreamCursor {
  readonly seq: number;
  readonly stream: string;
}

/** Options of `stream`, checked. */
export interface StreamCall {
  readonly after?: StreamCursor;
}

/** Checks the options of `stream`. */
export function readStreamOptions(options: unknown): StreamCall & {
  readonly signal: AbortSignal | undefined;
} {
  const { after, signal } = readFields(options, 'stream()', ['after', 'signal'] as const);
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw invalid('signal', signal, 'an AbortSignal');
  }
  return { ...(after !== undefined && { after: parseCursor(after) }), signal };
}

function parseCursor(value: unknown): StreamCursor {
  const [, seq, stream] =
    (typeof value === 'string' && /^(0|[1-9]\d{0,14})\.([0-9a-z]{1,7})$/.exec(value)) || [];
  if (seq === undefined || stream === undefined) {
    throw invalid('after', value, 'the `cursor` of an entry of this stream');
  }
  return { seq: Number(seq), stream };
}

export function formatCursor({ seq, stream }: StreamCursor): string {
  return `${seq}.${stream}`;
}

// Identifies the stream in its cursors, so that a cursor of a deleted instance does not fit one with the same id. Keys are
// never reused. A start that replaces the instance keeps its key.
function streamOf(instanceKey: number): string {
  const key = String(instanceKey);
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index += 1) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193) >>> 0;
  }
  return hash.toString(36);
}

/** What a reader of streams uses. */
interface StreamSource {
  readonly provider: Provider;
  readonly hints: HintWaiter;
  /** Decodes a chunk. */
  readonly read: (payload: Payload) => unknown;
}

const pageChunks = 500;
const maxPageBytes = 1024 * 1024;

/** Reads the state of a stream without chunks. Throws if there is none, or if the cursor is not one of it. */
export async function checkStream(
  provider: Provider,
  instanceId: string,
  { after }: StreamCall,
): Promise<StreamPage> {
  const page = await provider.readStream({ instanceId, after: 0, limit: 0, maxBytes: 1 });
  if (page === undefined) throw notFound(instanceId);
  if (page.isJob) throw streamOfJob(instanceId);
  const isKnown =
    after === undefined ||
    (after.seq <= page.lastSeq && after.stream === streamOf(page.instanceKey));
  if (!isKnown) throw unknownCursor(instanceId, formatCursor(after));
  return page;
}

/**
 * Yields the chunks of an instance after a cursor as they are committed, until the instance has ended. Reads a page when
 * the reader has taken the last one, so a slow reader holds one page.
 */
export async function* readStream(
  { provider, hints, read }: StreamSource,
  instanceId: string,
  call: StreamCall,
  signal: AbortSignal,
): AsyncGenerator<StreamEntry, void, undefined> {
  const { instanceKey } = await checkStream(provider, instanceId, call);
  const stream = streamOf(instanceKey);
  const concerns = (hint: Hint): boolean => mentions(hint, instanceId);
  let after = call.after?.seq ?? 0;
  for (;;) {
    signal.throwIfAborted();
    const hint = hints.next(concerns, signal);
    let page: StreamPage | undefined;
    try {
      const part = { limit: pageChunks, maxBytes: maxPageBytes };
      page = await provider.readStream({ instanceId, after, ...part });
      if (page?.instanceKey !== instanceKey) throw notFound(instanceId);
      if (page.chunks.length === 0 && !page.hasEnded) await hint.arrived;
    } finally {
      hint.end();
    }
    for (const { seq, payload, at, source } of page.chunks) {
      const missing = seq - after - 1;
      after = seq;
      if (missing > 0) {
        const cursor = formatCursor({ seq: seq - 1, stream });
        yield { kind: 'dropped', count: missing, cursor };
      }
      yield {
        kind: 'chunk',
        cursor: formatCursor({ seq, stream }),
        value: read(payload),
        at,
        source: decodeChunkSource(source),
      };
    }
    if (page.hasEnded && after >= page.lastSeq) return;
  }
}

function mentions(hint: Hint, instanceId: string): boolean {
  if (hint.kind === 'missed') return true;
  const isRelevant = hint.kind === 'emitted' || hint.kind === 'finished';
  return isRelevant && hint.instanceIds.includes(instanceId);
}

function streamOfJob(instanceId: string): PerdureError {
  return new PerdureError(
    'STREAM_TAKEN',
    `Run ${JSON.stringify(instanceId)} is a job, so its chunks are only for its caller. Read them with job.stream(), or start the run without a session.`,
  );
}

function unknownCursor(instanceId: string, cursor: string): PerdureError {
  return new PerdureError(
    'CURSOR_UNKNOWN',
    `The stream of ${JSON.stringify(instanceId)} has no cursor ${JSON.stringify(cursor)}: it belongs to another instance, or to a deleted one with the same id. Read the stream from its start, without \`after\`.`,
  );
}
