import type { Payload } from '../../../model/values/payload.ts';
import type { ReadChunksParams, StreamChunk } from '../../contract/streams.ts';
import { formatToken, type LockToken } from '../../shared/lock-token.ts';
import { keys, one, optional, prepare, rowsOf, rowIdOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** The unread part of a job's stream. */
export interface StreamRow {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly isUnread: boolean;
  readonly lastSeq: number;
  readonly waitingChunks: number;
  readonly waitingBytes: number;
}

/** The state of a stream for its reader. */
interface ReadStream {
  readonly instanceKey: number;
  readonly isOver: boolean;
  readonly hasRead: boolean;
}

/** A run whose handler or step holds a claim. */
export interface HeldRun {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly hasEnded: boolean;
}

/** A chunk to insert. */
export interface ChunkRow {
  readonly instanceKey: number;
  readonly seq: number;
  readonly payload: Payload;
}

/** Reads and writes `chunks`, and the counters of their jobs. */
export class ChunkRows {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /**
   * Returns the runs of claims that are held, by lock token. Locks the runs and the claims, so that none of them ends
   * before this transaction does.
   */
  async lockHeld(
    tx: Transaction,
    tokens: readonly LockToken[],
    nowParameter: number | null,
    claim: 'instance' | 'workItem',
  ): Promise<ReadonlyMap<string, HeldRun>> {
    const claimKeys = tokens.map(({ key }) => key);
    const { lockItems, held, lockInstances, heldInstances } = this.#statements;
    const wanted = { now: nowParameter, tokens };
    const [, rows] = await Promise.all([
      tx.execute(...(claim === 'instance' ? lockInstances : lockItems)({ claimKeys })),
      // A statement of its own: it reads the rows as they are under the locks.
      tx.query<LockToken & HeldRun>(...(claim === 'instance' ? heldInstances : held)(wanted)),
    ]);
    return new Map(rows.map((row) => [formatToken(row.key, row.secret), row]));
  }

  async lock(tx: Transaction, instanceKeys: readonly number[]): Promise<readonly StreamRow[]> {
    if (instanceKeys.length === 0) return [];
    return tx.query<StreamRow>(...this.#statements.lock({ instanceKeys }));
  }

  /** Inserts chunks, and updates the counters of their streams. */
  async append(
    tx: Transaction,
    chunks: readonly ChunkRow[],
    streams: readonly StreamRow[],
  ): Promise<void> {
    if (chunks.length === 0) return;
    const { insert, count } = this.#statements;
    await Promise.all([tx.execute(...insert({ chunks })), tx.execute(...count({ streams }))]);
  }

  async find(
    tx: Transaction,
    reader: Omit<ReadChunksParams, 'limit'>,
  ): Promise<ReadStream | undefined> {
    const { instanceId, incarnation, after, sessionId } = reader;
    const [row] = await tx.query<ReadStream>(
      ...this.#statements.find({ instanceId, incarnation, after, sessionId }),
    );
    return row;
  }

  select(
    tx: Transaction,
    instanceKey: number,
    page: { readonly after: number; readonly limit: number },
  ): Promise<readonly StreamChunk[]> {
    return tx.query<StreamChunk>(...this.#statements.select({ instanceKey, ...page }));
  }

  /** Deletes the chunks up to and including a sequence number. */
  async deleteUpTo(tx: Transaction, instanceKey: number, upTo: number): Promise<void> {
    await tx.execute(...this.#statements.deleteUpTo({ instanceKey, upTo }));
  }
}

const tokenRows = rowsOf<LockToken>()({
  claim_key: ['bigint', ({ key }) => key],
  secret: ['text', ({ secret }) => secret],
});
const chunkRows = rowsOf<ChunkRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  seq: ['bigint', ({ seq }) => seq],
  bytes: ['bigint', ({ payload }) => Buffer.byteLength(payload)],
  payload: ['text', ({ payload }) => payload],
});
const streamRows = rowsOf<StreamRow>()({
  instance_key: ['bigint', ({ instanceKey }) => instanceKey],
  last_seq: ['bigint', ({ lastSeq }) => lastSeq],
  waiting_chunks: ['bigint', ({ waitingChunks }) => waitingChunks],
  waiting_bytes: ['bigint', ({ waitingBytes }) => waitingBytes],
});

function statements(schema: string) {
  const chunks = `${schema}.chunks`;
  const jobs = `${schema}.jobs`;
  const instanceKey = one<number>('bigint');
  return {
    held: prepare(
      'perdure_instances_of_claims',
      { now: one<number | null>('bigint'), tokens: tokenRows },
      ({ tokens }) =>
        `SELECT claim_key AS "key", lock_token AS "secret", item.instance_key AS "instanceKey", instance_id AS "instanceId",
          ended_at IS NOT NULL AS "hasEnded"
        FROM ${tokens.as('wanted')} CROSS JOIN LATERAL (
          SELECT lock_token, instance_key FROM ${schema}.worker_queue AS one
          WHERE one.item_key = wanted.claim_key AND lock_token = secret AND locked_until > ${nowSql} OFFSET 0) AS item
        CROSS JOIN LATERAL (
          SELECT instance_id, ended_at FROM ${schema}.instances AS one
          WHERE one.instance_key = item.instance_key OFFSET 0) AS run`,
    ),
    // Instances before items, in key order, as an ack does.
    lockItems: prepare(
      'perdure_lock_claims_of_chunks',
      { claimKeys: keys() },
      ({ claimKeys }) => `WITH run AS MATERIALIZED (
          SELECT FROM ${schema}.instances WHERE instance_key = ANY (ARRAY(
            SELECT instance_key FROM ${schema}.worker_queue WHERE item_key = ANY (${claimKeys})))
          ORDER BY instance_key FOR NO KEY UPDATE
        ), item AS MATERIALIZED (
          SELECT FROM ${schema}.worker_queue
          WHERE item_key = ANY (${claimKeys}) AND (SELECT count(*) FROM run) IS NOT NULL
          ORDER BY item_key FOR SHARE
        )
        SELECT FROM item`,
    ),
    heldInstances: prepare(
      'perdure_instances_held_for_chunks',
      { now: one<number | null>('bigint'), tokens: tokenRows },
      ({ tokens }) =>
        `SELECT claim_key AS "key", lock_token AS "secret", run.instance_key AS "instanceKey", instance_id AS "instanceId",
          ended_at IS NOT NULL AS "hasEnded"
        FROM ${tokens.as('wanted')} CROSS JOIN LATERAL (
          SELECT lock_token FROM ${schema}.instance_locks AS one
          WHERE one.instance_key = wanted.claim_key AND lock_token = secret AND locked_until > ${nowSql} OFFSET 0) AS lock
        CROSS JOIN LATERAL (
          SELECT instance_key, instance_id, ended_at FROM ${schema}.instances AS one
          WHERE one.instance_key = wanted.claim_key OFFSET 0) AS run`,
    ),
    // Instances before their locks, in key order, as the ack of a turn does.
    lockInstances: prepare(
      'perdure_lock_instances_of_chunks',
      { claimKeys: keys() },
      ({ claimKeys }) => `WITH run AS MATERIALIZED (
          SELECT FROM ${schema}.instances WHERE instance_key = ANY (${claimKeys})
          ORDER BY instance_key FOR NO KEY UPDATE
        ), held AS MATERIALIZED (
          SELECT FROM ${schema}.instance_locks
          WHERE instance_key = ANY (${claimKeys}) AND (SELECT count(*) FROM run) IS NOT NULL
          ORDER BY instance_key FOR SHARE
        )
        SELECT FROM held`,
    ),
    lock: prepare(
      'perdure_lock_streams',
      { instanceKeys: keys() },
      ({ instanceKeys }) => `SELECT job.instance_key AS "instanceKey", instance_id AS "instanceId",
          abandoned_at IS NOT NULL OR instance.ended_at IS NOT NULL AS "isUnread", last_seq AS "lastSeq",
          waiting_chunks AS "waitingChunks", waiting_bytes AS "waitingBytes"
        FROM ${jobs} AS job CROSS JOIN LATERAL (
          SELECT instance_id, ended_at FROM ${schema}.instances AS one
          WHERE one.instance_key = job.instance_key OFFSET 0) AS instance
        WHERE job.instance_key = ANY (${instanceKeys}) ORDER BY job.instance_key FOR UPDATE OF job`,
    ),
    insert: prepare(
      'perdure_insert_chunks',
      { chunks: chunkRows },
      ({ chunks: rows }) =>
        `INSERT INTO ${chunks} (${rows.names}) SELECT ${rows.names} FROM ${rows.as('new')}`,
    ),
    count: prepare(
      'perdure_count_chunks',
      { streams: streamRows },
      ({ streams }) => `UPDATE ${jobs} AS job
        SET last_seq = new.last_seq, waiting_chunks = new.waiting_chunks, waiting_bytes = new.waiting_bytes
        FROM ${streams.as('new')}
        ${rowIdOf(jobs, 'one.instance_key = new.instance_key')}
        WHERE job.ctid = found.row_id`,
    ),
    find: prepare(
      'perdure_find_stream',
      {
        instanceId: one<string>('text'),
        incarnation: one<string>('text'),
        after: one<number>('bigint'),
        sessionId: optional(one<string>('text')),
      },
      ({ instanceId, incarnation, after, sessionId }) =>
        `SELECT job.instance_key AS "instanceKey", instance.ended_at IS NOT NULL AS "isOver",
          EXISTS (SELECT 1 FROM ${chunks} AS chunk
                  WHERE chunk.instance_key = job.instance_key AND chunk.seq <= ${after}) AS "hasRead"
        FROM ${schema}.instances AS instance CROSS JOIN LATERAL (
          SELECT instance_key FROM ${jobs} AS one WHERE one.instance_key = instance.instance_key
            AND (${sessionId} IS NULL
              OR session_key = (SELECT session_key FROM ${schema}.sessions WHERE session_id = ${sessionId}))
          OFFSET 0) AS job
        WHERE instance_id = ${instanceId} AND incarnation = ${incarnation}`,
    ),
    select: prepare(
      'perdure_select_chunks',
      { instanceKey, after: one<number>('bigint'), limit: one<number>('bigint') },
      ({ instanceKey, after, limit }) =>
        `SELECT seq, payload FROM ${chunks} WHERE instance_key = ${instanceKey} AND seq > ${after}
        ORDER BY seq LIMIT ${limit}`,
    ),
    // Locks the job first, as every writer of chunks does.
    deleteUpTo: prepare(
      'perdure_delete_chunks',
      { instanceKey, upTo: one<number>('bigint') },
      ({ instanceKey, upTo }) =>
        `WITH job AS MATERIALIZED (SELECT instance_key FROM ${jobs} WHERE instance_key = ${instanceKey} FOR UPDATE),
        gone AS (DELETE FROM ${chunks}
          WHERE instance_key = (SELECT instance_key FROM job) AND seq <= ${upTo} RETURNING bytes)
        UPDATE ${jobs} SET waiting_chunks = waiting_chunks - (SELECT count(*) FROM gone),
          waiting_bytes = waiting_bytes - (SELECT coalesce(sum(bytes), 0)::bigint FROM gone)
        WHERE instance_key = ${instanceKey}`,
    ),
  };
}
