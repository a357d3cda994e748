import type { Payload } from '../../../model/values/payload.ts';
import type {
  AppendChunks,
  AppendResult,
  ChunkPage,
  ReadChunksParams,
  StreamStore,
  StreamChunk,
} from '../../contract/streams.ts';
import { parseToken, formatToken, type LockToken } from '../../shared/lock-token.ts';
import { numbers, text, texts } from '../driver/arrays.ts';
import type { Transaction, Statement } from '../driver/connection.ts';
import { placeOf } from '../driver/lateral-lookup.ts';
import { nowSql, type Scope } from '../driver/scope.ts';
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

/** The stream of a job, as far as it is not read. */
export interface StreamRow {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly isUnread: boolean;
  readonly lastSeq: number;
  readonly waitingChunks: number;
  readonly waitingBytes: number;
}

/** Where a reader stands. */
interface ReadStream {
  readonly instanceKey: number;
  readonly isOver: boolean;
  readonly hasRead: boolean;
}

/** A chunk to be inserted. */
export interface ChunkRow {
  readonly instanceKey: number;
  readonly seq: number;
  readonly payload: Payload;
}

/** The rows of `chunks`, and what their jobs know of them. */
export class ChunkRows {
  readonly #held: Statement;
  readonly #lock: Statement;
  readonly #insert: Statement;
  readonly #count: Statement;
  readonly #find: Statement;
  readonly #select: Statement;
  readonly #delete: Statement;

  constructor(schema: string) {
    const { chunks, jobs } = { chunks: `${schema}.chunks`, jobs: `${schema}.jobs` };
    this.#held = {
      name: 'perdure_instances_of_claims',
      text: `SELECT item_key AS "key", lock_token AS "secret", item.instance_key AS "instanceKey"
        FROM unnest($2::bigint[], $3::text[]) AS wanted (item_key, secret) CROSS JOIN LATERAL (
          SELECT lock_token, instance_key FROM ${schema}.worker_queue AS one
          WHERE one.item_key = wanted.item_key AND lock_token = secret AND locked_until > ${nowSql} OFFSET 0) AS item`,
    };
    this.#lock = {
      name: 'perdure_lock_streams',
      text: `SELECT job.instance_key AS "instanceKey", instance_id AS "instanceId",
          abandoned_at IS NOT NULL OR instance.ended_at IS NOT NULL AS "isUnread", last_seq AS "lastSeq",
          waiting_chunks AS "waitingChunks", waiting_bytes AS "waitingBytes"
        FROM ${jobs} AS job CROSS JOIN LATERAL (
          SELECT instance_id, ended_at FROM ${schema}.instances AS one
          WHERE one.instance_key = job.instance_key OFFSET 0) AS instance
        WHERE job.instance_key = ANY ($1::bigint[]) ORDER BY job.instance_key FOR UPDATE OF job`,
    };
    this.#insert = {
      name: 'perdure_insert_chunks',
      text: `INSERT INTO ${chunks} (instance_key, seq, bytes, payload)
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[])`,
    };
    this.#count = {
      name: 'perdure_count_chunks',
      text: `UPDATE ${jobs} AS job
        SET last_seq = new.last_seq, waiting_chunks = new.waiting_chunks, waiting_bytes = new.waiting_bytes
        FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
          AS new (instance_key, last_seq, waiting_chunks, waiting_bytes)
        ${placeOf(jobs, 'one.instance_key = new.instance_key')}
        WHERE job.ctid = found.place`,
    };
    this.#find = {
      name: 'perdure_find_stream',
      text: `SELECT job.instance_key AS "instanceKey", instance.ended_at IS NOT NULL AS "isOver",
          EXISTS (SELECT 1 FROM ${chunks} AS chunk
                  WHERE chunk.instance_key = job.instance_key AND chunk.seq <= $3::bigint) AS "hasRead"
        FROM ${schema}.instances AS instance CROSS JOIN LATERAL (
          SELECT instance_key FROM ${jobs} AS one WHERE one.instance_key = instance.instance_key
            AND ($4::text IS NULL
              OR session_key = (SELECT session_key FROM ${schema}.sessions WHERE session_id = $4::text))
          OFFSET 0) AS job
        WHERE instance_id = $1 AND incarnation = $2`,
    };
    this.#select = {
      name: 'perdure_select_chunks',
      text: `SELECT seq, payload FROM ${chunks} WHERE instance_key = $1::bigint AND seq > $2::bigint
        ORDER BY seq LIMIT $3::bigint`,
    };
    // The job first, as everyone locks it who adds or drops chunks.
    this.#delete = {
      name: 'perdure_delete_chunks',
      text: `WITH job AS MATERIALIZED (SELECT instance_key FROM ${jobs} WHERE instance_key = $1::bigint FOR UPDATE),
        gone AS (DELETE FROM ${chunks}
          WHERE instance_key = (SELECT instance_key FROM job) AND seq <= $2::bigint RETURNING bytes)
        UPDATE ${jobs} SET waiting_chunks = waiting_chunks - (SELECT count(*) FROM gone),
          waiting_bytes = waiting_bytes - (SELECT coalesce(sum(bytes), 0)::bigint FROM gone)
        WHERE instance_key = $1::bigint`,
    };
  }

  /** The instances of claims that are held, by their tokens. */
  async held(
    tx: Transaction,
    tokens: readonly LockToken[],
    nowParameter: number | null,
  ): Promise<ReadonlyMap<string, number>> {
    const rows = await tx.query<LockToken & { readonly instanceKey: number }>(this.#held, [
      nowParameter,
      numbers(tokens.map(({ key }) => key)),
      texts(tokens.map(({ secret }) => secret)),
    ]);
    return new Map(rows.map((row) => [formatToken(row.key, row.secret), row.instanceKey]));
  }

  async lock(tx: Transaction, instanceKeys: readonly number[]): Promise<readonly StreamRow[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<StreamRow>(this.#lock, [numbers(instanceKeys)]);
  }

  /** Adds chunks, and notes how their streams stand then. */
  async append(
    tx: Transaction,
    rows: readonly ChunkRow[],
    streams: readonly StreamRow[],
  ): Promise<void> {
    if (rows.length === 0) return;
    await Promise.all([
      tx.execute(this.#insert, [
        numbers(rows.map(({ instanceKey }) => instanceKey)),
        numbers(rows.map(({ seq }) => seq)),
        numbers(rows.map(({ payload }) => Buffer.byteLength(payload))),
        texts(rows.map(({ payload }) => payload)),
      ]),
      tx.execute(this.#count, [
        numbers(streams.map(({ instanceKey }) => instanceKey)),
        numbers(streams.map(({ lastSeq }) => lastSeq)),
        numbers(streams.map(({ waitingChunks }) => waitingChunks)),
        numbers(streams.map(({ waitingBytes }) => waitingBytes)),
      ]),
    ]);
  }

  async find(
    tx: Transaction,
    reader: Omit<ReadChunksParams, 'limit'>,
  ): Promise<ReadStream | undefined> {
    const { instanceId, incarnation, after, sessionId } = reader;
    const session = sessionId === undefined ? null : text(sessionId);
    const values = [text(instanceId), text(incarnation), after, session];
    const [row] = await tx.query<ReadStream>(this.#find, values);
    return row;
  }

  select(
    tx: Transaction,
    instanceKey: number,
    page: { readonly after: number; readonly limit: number },
  ): Promise<readonly StreamChunk[]> {
    return tx.query<StreamChunk>(this.#select, [instanceKey, page.after, page.limit]);
  }

  /** Deletes the chunks up to a number. */
  async deleteUpTo(tx: Transaction, instanceKey: number, upTo: number): Promise<void> {
    await tx.execute(this.#delete, [instanceKey, upTo]);
  }
}
