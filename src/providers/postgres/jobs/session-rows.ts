import type {
  ListSessionsParams,
  NewSession,
  SessionEnd,
  SessionRecord,
  SessionState,
} from '../../contract/sessions.ts';
import type { SessionMove } from '../../rules/session-rules.ts';
import { numbers, text, texts } from '../driver/arrays.ts';
import type { Statement, Transaction } from '../driver/connection.ts';
import { placeOf } from '../driver/columns.ts';
import { nowSql } from '../driver/scope.ts';

/** A session as those who move it read it. */
export interface SessionRow {
  readonly sessionKey: number;
  readonly sessionId: string;
  readonly state: SessionState;
  readonly expiresAt: number;
  readonly end: SessionEnd | null;
  readonly variables: string;
}

type RecordRow = Omit<SessionRecord, 'variables'> & { readonly variables: string };

const columns = `session_key AS "sessionKey", session_id AS "sessionId", state, expires_at AS "expiresAt",
  end_reason AS "end", variables`;

/** The rows of `sessions`; one that has ended is only read and removed. */
export class SessionRows {
  readonly #insert: Statement;
  readonly #share: Statement;
  readonly #lock: Statement;
  readonly #lockDue: Statement;
  readonly #renew: Statement;
  readonly #move: Statement;
  readonly #end: Statement;
  readonly #setVariables: Statement;
  readonly #get: Statement;
  readonly #list: Statement;
  readonly #listWithin: Statement;
  readonly #delete: Statement;

  constructor(schema: string) {
    const table = `${schema}.sessions`;
    const recordColumns = `${columns}, label, owner, lease_ms AS "leaseMs", created_at AS "createdAt",
      ended_at AS "endedAt", (
        SELECT count(*) FROM ${schema}.jobs AS job CROSS JOIN LATERAL (
          SELECT status, ended_at FROM ${schema}.instances AS one
          WHERE one.instance_key = job.instance_key OFFSET 0) AS instance
        WHERE job.session_key = session.session_key AND (instance.ended_at IS NULL
          OR (job.abandoned_at IS NOT NULL AND job.disposable AND instance.status = 'completed'))) AS "openJobs"`;
    this.#insert = {
      name: 'perdure_insert_session',
      text: `INSERT INTO ${table} (session_id, label, owner, state, lease_ms, created_at, expires_at, variables, due_at)
        VALUES ($2, $3, $4, 'open', $5::bigint, ${nowSql}, ${nowSql} + $5::bigint, $6, ${nowSql} + $5::bigint)
        ON CONFLICT (session_id) DO NOTHING`,
    };
    const byIds = `SELECT ${columns} FROM ${table}
      WHERE session_key = ANY (ARRAY(SELECT session_key FROM ${table} WHERE session_id = ANY ($1::text[])))
      ORDER BY session_key`;
    this.#share = { name: 'perdure_share_sessions', text: `${byIds} FOR SHARE` };
    this.#lock = { name: 'perdure_lock_sessions', text: `${byIds} FOR UPDATE` };
    this.#lockDue = {
      name: 'perdure_lock_due_sessions',
      text: `SELECT ${columns} FROM ${table} WHERE due_at <= $1::bigint ORDER BY due_at LIMIT $2::bigint
        FOR UPDATE SKIP LOCKED`,
    };
    // What waits to be settled is due before its lease ends.
    this.#renew = {
      name: 'perdure_renew_sessions',
      text: `WITH live AS MATERIALIZED (
          SELECT session_key FROM ${table}
          WHERE session_key = ANY (ARRAY(SELECT session_key FROM ${table} WHERE session_id = ANY ($2::text[])))
            AND ended_at IS NULL
          ORDER BY session_key FOR UPDATE)
        UPDATE ${table} SET expires_at = ${nowSql} + lease_ms,
          due_at = CASE WHEN state = 'open' THEN ${nowSql} + lease_ms ELSE due_at END
        WHERE session_key = ANY (ARRAY(SELECT session_key FROM live))`,
    };
    this.#move = {
      name: 'perdure_move_sessions',
      text: `UPDATE ${table} AS session
        SET state = move.state, end_reason = coalesce(session.end_reason, move.end_reason), due_at = move.due_at
        FROM unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[]) AS move (session_key, state, end_reason, due_at)
        ${placeOf(table, 'one.session_key = move.session_key')}
        WHERE session.ctid = found.place`,
    };
    this.#end = {
      name: 'perdure_end_session',
      text: `UPDATE ${table} SET state = 'ended', end_reason = coalesce(end_reason, 'shutdown'),
          ended_at = $2::bigint, due_at = $3::bigint
        WHERE session_key = $1::bigint AND ended_at IS NULL`,
    };
    this.#setVariables = {
      name: 'perdure_set_session_variables',
      text: `UPDATE ${table} SET variables = $2 WHERE session_key = $1::bigint AND ended_at IS NULL`,
    };
    this.#get = {
      name: 'perdure_get_sessions',
      text: `SELECT ${recordColumns} FROM ${table} AS session WHERE session_id = ANY ($1::text[])`,
    };
    this.#list = {
      name: 'perdure_list_sessions',
      text: `SELECT ${recordColumns} FROM ${table} AS session
        WHERE session_key < $1::bigint AND ($2::text IS NULL OR label = $2)
          AND ($3::text[] IS NULL OR state = ANY ($3::text[]))
        ORDER BY session_key DESC LIMIT $4::bigint`,
    };
    // Sizes first: what does not fit is never read.
    const isWithheld = 'coalesce(session_key = (SELECT session_key FROM cut), FALSE)';
    this.#listWithin = {
      name: 'perdure_list_sessions_within',
      text: `WITH sized AS MATERIALIZED (
          SELECT session_key, bytes, sum(bytes) OVER (ORDER BY session_key DESC) AS total FROM (
            SELECT session_key, octet_length(variables) AS bytes FROM ${table}
            WHERE session_key < $1::bigint AND ($2::text IS NULL OR label = $2)
              AND ($3::text[] IS NULL OR state = ANY ($3::text[]))
            ORDER BY session_key DESC LIMIT $4::bigint) AS page),
        cut AS MATERIALIZED (
          SELECT max(session_key) AS session_key FROM sized WHERE total > $5::bigint AND total > bytes)
        SELECT ${recordColumns.replace(/\bvariables\b/, `CASE WHEN ${isWithheld} THEN '{}' ELSE variables END AS variables`)},
          ${isWithheld} AS "isWithheld"
        FROM ${table} AS session WHERE session_key = ANY (ARRAY(
          SELECT session_key FROM sized WHERE session_key >= coalesce((SELECT session_key FROM cut), 0)))
        ORDER BY session_key DESC`,
    };
    this.#delete = {
      name: 'perdure_delete_sessions',
      text: `DELETE FROM ${table} WHERE session_key = ANY ($1::bigint[])`,
    };
  }

  /** Inserts a session, unless there is one of its id. */
  async insert(
    tx: Transaction,
    { sessionId, label, owner, leaseMs, variables }: NewSession,
    nowParameter: number | null,
  ): Promise<void> {
    await tx.execute(this.#insert, [
      nowParameter,
      text(sessionId),
      label === null ? null : text(label),
      owner === null ? null : text(owner),
      Math.ceil(leaseMs),
      text(JSON.stringify(variables)),
    ]);
  }

  /** Keeps sessions as they are until the transaction ends. */
  share(tx: Transaction, sessionIds: readonly string[]): Promise<readonly SessionRow[]> {
    return tx.query<SessionRow>(this.#share, [texts(sessionIds)]);
  }

  /** Locks one session in order to move it. */
  async lock(tx: Transaction, sessionId: string): Promise<SessionRow | undefined> {
    const [row] = await tx.query<SessionRow>(this.#lock, [texts([sessionId])]);
    return row;
  }

  /** Locks sessions that are due and that nobody else is about to move. */
  lockDue(tx: Transaction, now: number, limit: number): Promise<readonly SessionRow[]> {
    return tx.query<SessionRow>(this.#lockDue, [now, Math.max(limit, 0)]);
  }

  async renew(
    tx: Transaction,
    sessionIds: readonly string[],
    nowParameter: number | null,
  ): Promise<void> {
    await tx.execute(this.#renew, [nowParameter, texts(sessionIds)]);
  }

  /** Changes states of locked sessions; the first reason stays. */
  async move(tx: Transaction, moves: readonly SessionMove[]): Promise<void> {
    if (moves.length === 0) return;
    await tx.execute(this.#move, [
      numbers(moves.map(({ sessionKey }) => sessionKey)),
      texts(moves.map(({ state }) => state)),
      texts(moves.map(({ end }) => end)),
      numbers(moves.map(({ dueAt }) => dueAt)),
    ]);
  }

  /** Ends a session, which is removed later. */
  async end(tx: Transaction, sessionKey: number, now: number, removeAt: number): Promise<void> {
    await tx.execute(this.#end, [sessionKey, now, removeAt]);
  }

  async setVariables(
    tx: Transaction,
    { sessionKey, variables }: SessionRow,
    set: Readonly<Record<string, string | null>>,
  ): Promise<void> {
    const merged = new Map(Object.entries(parseVariables(variables)));
    for (const [name, value] of Object.entries(set)) {
      if (value === null) merged.delete(name);
      else merged.set(name, value);
    }
    const all = JSON.stringify(Object.fromEntries(merged));
    await tx.execute(this.#setVariables, [sessionKey, text(all)]);
  }

  /** Sessions as the contract shows them, in the order asked. */
  async get(
    tx: Transaction,
    sessionIds: readonly string[],
  ): Promise<readonly (SessionRecord | undefined)[]> {
    const rows = await tx.query<RecordRow>(this.#get, [texts([...new Set(sessionIds)])]);
    const byId = new Map(rows.map((row) => [row.sessionId, toRecord(row)]));
    return sessionIds.map((id) => byId.get(id));
  }

  async list(
    tx: Transaction,
    { state, label, limit, after, maxBytes }: ListSessionsParams,
  ): Promise<readonly SessionRecord[]> {
    const values = [
      after ?? Number.MAX_SAFE_INTEGER,
      label === undefined ? null : text(label),
      state === undefined ? null : texts(state),
      Math.max(limit, 0),
    ];
    if (maxBytes === undefined) {
      return (await tx.query<RecordRow>(this.#list, values)).map(toRecord);
    }
    const within = [...values, Math.max(Math.floor(maxBytes), 0)];
    const rows = await tx.query<RecordRow & { readonly isWithheld: boolean }>(
      this.#listWithin,
      within,
    );
    return rows.map(({ isWithheld, ...row }) =>
      isWithheld ? { ...toRecord(row), withheld: true } : toRecord(row),
    );
  }

  async delete(tx: Transaction, sessionKeys: readonly number[]): Promise<void> {
    if (sessionKeys.length > 0) await tx.execute(this.#delete, [numbers(sessionKeys)]);
  }
}

function toRecord(row: RecordRow): SessionRecord {
  return { ...row, variables: parseVariables(row.variables) };
}

function parseVariables(stored: string): Readonly<Record<string, string>> {
  return JSON.parse(stored) as Record<string, string>;
}
