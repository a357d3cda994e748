import type {
  ListSessionsParams,
  NewSession,
  SessionEnd,
  SessionRecord,
  SessionState,
} from '../../contract/sessions.ts';
import type { SessionMove } from '../../rules/session-rules.ts';
import { keys, one, optional, prepare, rowsOf, strings, rowIdOf } from '../driver/columns.ts';
import type { Transaction } from '../driver/connection.ts';
import { nowSql } from '../driver/scope.ts';

/** A locked session. */
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

/** Reads and writes `sessions`. A session that has ended is only read and deleted. */
export class SessionRows {
  readonly #statements: ReturnType<typeof statements>;

  constructor(schema: string) {
    this.#statements = statements(schema);
  }

  /** Inserts a session, unless its id exists. */
  async insert(
    tx: Transaction,
    { sessionId, label, owner, leaseMs, variables }: NewSession,
    nowParameter: number | null,
  ): Promise<void> {
    await tx.execute(
      ...this.#statements.insert({
        now: nowParameter,
        sessionId,
        label,
        owner,
        leaseMs: Math.ceil(leaseMs),
        variables: JSON.stringify(variables),
      }),
    );
  }

  /** Locks sessions against changes, shared with other readers. */
  share(tx: Transaction, sessionIds: readonly string[]): Promise<readonly SessionRow[]> {
    return tx.query<SessionRow>(...this.#statements.share({ sessionIds }));
  }

  /** Locks one session for a change. */
  async lock(tx: Transaction, sessionId: string): Promise<SessionRow | undefined> {
    const [row] = await tx.query<SessionRow>(...this.#statements.lock({ sessionIds: [sessionId] }));
    return row;
  }

  /** Locks due sessions that no other transaction has locked. */
  lockDue(tx: Transaction, now: number, limit: number): Promise<readonly SessionRow[]> {
    const most = Math.max(limit, 0);
    return tx.query<SessionRow>(...this.#statements.lockDue({ at: now, limit: most }));
  }

  async renew(
    tx: Transaction,
    sessionIds: readonly string[],
    nowParameter: number | null,
  ): Promise<void> {
    await tx.execute(...this.#statements.renew({ now: nowParameter, sessionIds }));
  }

  /** Changes the states of locked sessions. The first end reason of each is kept. */
  async move(tx: Transaction, moves: readonly SessionMove[]): Promise<void> {
    if (moves.length > 0) await tx.execute(...this.#statements.move({ moves }));
  }

  /** Ends a session. It is deleted at `deleteAt`. */
  async end(tx: Transaction, sessionKey: number, now: number, deleteAt: number): Promise<void> {
    await tx.execute(...this.#statements.end({ sessionKey, at: now, deleteAt }));
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
    await tx.execute(...this.#statements.setVariables({ sessionKey, variables: all }));
  }

  /** Sessions as records of the contract, in input order. */
  async get(
    tx: Transaction,
    sessionIds: readonly string[],
  ): Promise<readonly (SessionRecord | undefined)[]> {
    const unique = [...new Set(sessionIds)];
    const rows = await tx.query<RecordRow>(...this.#statements.get({ sessionIds: unique }));
    const byId = new Map(rows.map((row) => [row.sessionId, toRecord(row)]));
    return sessionIds.map((id) => byId.get(id));
  }

  async list(
    tx: Transaction,
    { state, label, limit, after, maxBytes }: ListSessionsParams,
  ): Promise<readonly SessionRecord[]> {
    const page = {
      after: after ?? Number.MAX_SAFE_INTEGER,
      label,
      states: state,
      limit: Math.max(limit, 0),
    };
    if (maxBytes === undefined) {
      return (await tx.query<RecordRow>(...this.#statements.list(page))).map(toRecord);
    }
    const rows = await tx.query<RecordRow & { readonly isWithheld: boolean }>(
      ...this.#statements.listWithin({ ...page, maxBytes: Math.max(Math.floor(maxBytes), 0) }),
    );
    return rows.map(({ isWithheld, ...row }) =>
      isWithheld ? { ...toRecord(row), withheld: true } : toRecord(row),
    );
  }

  async delete(tx: Transaction, sessionKeys: readonly number[]): Promise<void> {
    if (sessionKeys.length > 0) await tx.execute(...this.#statements.delete({ sessionKeys }));
  }
}

const moveRows = rowsOf<SessionMove>()({
  session_key: ['bigint', ({ sessionKey }) => sessionKey],
  state: ['text', ({ state }) => state],
  end_reason: ['text', ({ end }) => end],
  due_at: ['bigint', ({ dueAt }) => dueAt],
});

function statements(schema: string) {
  const table = `${schema}.sessions`;
  const number = one<number>('bigint');
  const now = one<number | null>('bigint');
  const recordColumns = `${columns}, label, owner, lease_ms AS "leaseMs", created_at AS "createdAt",
      ended_at AS "endedAt", (
        SELECT count(*) FROM ${schema}.jobs AS job CROSS JOIN LATERAL (
          SELECT status, ended_at FROM ${schema}.instances AS one
          WHERE one.instance_key = job.instance_key OFFSET 0) AS instance
        WHERE job.session_key = session.session_key AND (instance.ended_at IS NULL
          OR (job.abandoned_at IS NOT NULL AND job.disposable AND instance.status = 'completed'))) AS "openJobs"`;
  const keysOf = (sessionIds: string) =>
    `ARRAY(SELECT session_key FROM ${table} WHERE session_id = ANY (${sessionIds}))`;
  const byIds = (name: string, lock: 'FOR SHARE' | 'FOR UPDATE') =>
    prepare(
      name,
      { sessionIds: strings() },
      ({ sessionIds }) => `SELECT ${columns} FROM ${table}
        WHERE session_key = ANY (${keysOf(sessionIds)}) ORDER BY session_key ${lock}`,
    );
  const page = {
    after: number,
    label: optional(one<string>('text')),
    states: optional(strings()),
    limit: number,
  };
  const isOnPage = ({
    after,
    label,
    states,
  }: Readonly<Record<'after' | 'label' | 'states', string>>) =>
    `session_key < ${after} AND (${label} IS NULL OR label = ${label})
          AND (${states} IS NULL OR state = ANY (${states}))`;
  const isWithheld = 'coalesce(session_key = (SELECT session_key FROM cut), FALSE)';
  return {
    insert: prepare(
      'perdure_insert_session',
      {
        now,
        sessionId: one<string>('text'),
        label: optional(one<string>('text')),
        owner: optional(one<string>('text')),
        leaseMs: number,
        variables: one<string>('text'),
      },
      ({ sessionId, label, owner, leaseMs, variables }) =>
        `INSERT INTO ${table} (session_id, label, owner, state, lease_ms, created_at, expires_at, variables, due_at)
        VALUES (${sessionId}, ${label}, ${owner}, 'open', ${leaseMs}, ${nowSql}, ${nowSql} + ${leaseMs}, ${variables},
          ${nowSql} + ${leaseMs})
        ON CONFLICT (session_id) DO NOTHING`,
    ),
    share: byIds('perdure_share_sessions', 'FOR SHARE'),
    lock: byIds('perdure_lock_sessions', 'FOR UPDATE'),
    lockDue: prepare(
      'perdure_lock_due_sessions',
      { at: number, limit: number },
      ({ at, limit }) =>
        `SELECT ${columns} FROM ${table} WHERE due_at <= ${at} ORDER BY due_at LIMIT ${limit}
        FOR UPDATE SKIP LOCKED`,
    ),
    // A session that is closing or draining keeps its due time, which is before the end of its lease.
    renew: prepare(
      'perdure_renew_sessions',
      { now, sessionIds: strings() },
      ({ sessionIds }) => `WITH live AS MATERIALIZED (
          SELECT session_key FROM ${table}
          WHERE session_key = ANY (${keysOf(sessionIds)}) AND ended_at IS NULL
          ORDER BY session_key FOR UPDATE)
        UPDATE ${table} SET expires_at = ${nowSql} + lease_ms,
          due_at = CASE WHEN state = 'open' THEN ${nowSql} + lease_ms ELSE due_at END
        WHERE session_key = ANY (ARRAY(SELECT session_key FROM live))`,
    ),
    move: prepare(
      'perdure_move_sessions',
      { moves: moveRows },
      ({ moves }) => `UPDATE ${table} AS session
        SET state = move.state, end_reason = coalesce(session.end_reason, move.end_reason), due_at = move.due_at
        FROM ${moves.as('move')}
        ${rowIdOf(table, 'one.session_key = move.session_key')}
        WHERE session.ctid = found.row_id`,
    ),
    end: prepare(
      'perdure_end_session',
      { sessionKey: number, at: number, deleteAt: number },
      ({ sessionKey, at, deleteAt }) =>
        `UPDATE ${table} SET state = 'ended', end_reason = coalesce(end_reason, 'shutdown'),
          ended_at = ${at}, due_at = ${deleteAt}
        WHERE session_key = ${sessionKey} AND ended_at IS NULL`,
    ),
    setVariables: prepare(
      'perdure_set_session_variables',
      { sessionKey: number, variables: one<string>('text') },
      ({ sessionKey, variables }) =>
        `UPDATE ${table} SET variables = ${variables} WHERE session_key = ${sessionKey} AND ended_at IS NULL`,
    ),
    get: prepare(
      'perdure_get_sessions',
      { sessionIds: strings() },
      ({ sessionIds }) =>
        `SELECT ${recordColumns} FROM ${table} AS session WHERE session_id = ANY (${sessionIds})`,
    ),
    list: prepare(
      'perdure_list_sessions',
      page,
      (page) => `SELECT ${recordColumns} FROM ${table} AS session
        WHERE ${isOnPage(page)} ORDER BY session_key DESC LIMIT ${page.limit}`,
    ),
    // Sizes first: rows that do not fit are never read.
    listWithin: prepare(
      'perdure_list_sessions_within',
      { ...page, maxBytes: number },
      ({ maxBytes, ...page }) => `WITH sized AS MATERIALIZED (
          SELECT session_key, bytes, sum(bytes) OVER (ORDER BY session_key DESC) AS total FROM (
            SELECT session_key, octet_length(variables) AS bytes FROM ${table}
            WHERE ${isOnPage(page)} ORDER BY session_key DESC LIMIT ${page.limit}) AS page),
        cut AS MATERIALIZED (
          SELECT max(session_key) AS session_key FROM sized WHERE total > ${maxBytes} AND total > bytes)
        SELECT ${recordColumns.replace(/\bvariables\b/, `CASE WHEN ${isWithheld} THEN '{}' ELSE variables END AS variables`)},
          ${isWithheld} AS "isWithheld"
        FROM ${table} AS session WHERE session_key = ANY (ARRAY(
          SELECT session_key FROM sized WHERE session_key >= coalesce((SELECT session_key FROM cut), 0)))
        ORDER BY session_key DESC`,
    ),
    delete: prepare(
      'perdure_delete_sessions',
      { sessionKeys: keys() },
      ({ sessionKeys }) => `DELETE FROM ${table} WHERE session_key = ANY (${sessionKeys})`,
    ),
  };
}

function toRecord(row: RecordRow): SessionRecord {
  return { ...row, variables: parseVariables(row.variables) };
}

function parseVariables(stored: string): Readonly<Record<string, string>> {
  return JSON.parse(stored) as Record<string, string>;
}
