import type Database from 'better-sqlite3';
import type {
  ListSessionsParams,
  NewSession,
  SessionEnd,
  SessionRecord,
  SessionState,
} from '../../contract/sessions.ts';
import { bytesOfTexts, takeWithin } from '../../contract/page-bytes.ts';
import type { SessionMove } from '../../rules/session-rules.ts';

/** A row of `sessions`. */
export type SessionRow = Omit<SessionRecord, 'variables' | 'openJobs' | 'withheld'> & {
  readonly variables: string;
};

const columns = `session_key AS sessionKey, session_id AS sessionId, label, owner, state, lease_ms AS leaseMs,
  created_at AS createdAt, expires_at AS expiresAt, ended_at AS endedAt, end_reason AS "end", variables`;

/** The rows of `sessions`. An ended session is only read and deleted. */
export class SessionRows {
  readonly #insert;
  readonly #select;
  readonly #countOpenJobs;
  readonly #renew;
  readonly #move;
  readonly #end;
  readonly #setDue;
  readonly #setVariables;
  readonly #selectDue;
  readonly #nextDueAt;
  readonly #list;
  readonly #listByLabel;
  readonly #delete;

  constructor(db: Database.Database) {
    this.#insert = db.prepare<[Readonly<Record<string, string | number | null>>]>(
      `INSERT INTO sessions (session_id, label, owner, state, lease_ms, created_at, expires_at, variables, due_at)
       VALUES (:sessionId, :label, :owner, 'open', :leaseMs, :now, :expiresAt, :variables, :expiresAt)
       ON CONFLICT (session_id) DO NOTHING`,
    );
    this.#select = db.prepare<[string], SessionRow>(
      `SELECT ${columns} FROM sessions WHERE session_id = ?`,
    );
    this.#countOpenJobs = db
      .prepare<[number], number>(
        `SELECT count(*) FROM jobs JOIN instances USING (instance_key)
         WHERE session_key = ? AND (ended_at IS NULL
           OR (abandoned_at IS NOT NULL AND disposable = 1 AND status = 'completed'))`,
      )
      .pluck();
    // A session that waits for its settlement keeps its due time.
    this.#renew = db.prepare<[number, number, string]>(
      `UPDATE sessions SET expires_at = ? + lease_ms, due_at = iif(state = 'open', ? + lease_ms, due_at)
       WHERE session_id = ? AND ended_at IS NULL`,
    );
    this.#move = db.prepare<[SessionState, SessionEnd | null, number, number]>(
      `UPDATE sessions SET state = ?, end_reason = coalesce(end_reason, ?), due_at = ?
       WHERE session_key = ? AND ended_at IS NULL`,
    );
    this.#end = db.prepare<[number, number, number]>(
      `UPDATE sessions
       SET state = 'ended', end_reason = coalesce(end_reason, 'shutdown'), ended_at = ?, due_at = ?
       WHERE session_key = ? AND ended_at IS NULL`,
    );
    this.#setDue = db.prepare<[number, number]>(
      'UPDATE sessions SET due_at = ? WHERE session_key = ?',
    );
    this.#setVariables = db.prepare<[string, number]>(
      'UPDATE sessions SET variables = ? WHERE session_key = ? AND ended_at IS NULL',
    );
    this.#selectDue = db.prepare<[number, number], SessionRow>(
      `SELECT ${columns} FROM sessions WHERE due_at <= ? ORDER BY due_at LIMIT +?`,
    );
    this.#nextDueAt = db.prepare<[], number | null>('SELECT min(due_at) FROM sessions').pluck();
    const list = (label: string) =>
      db.prepare<
        [{ states: string | null; label: string | null; after: number; limit: number }],
        SessionRow
      >(
        `SELECT ${columns} FROM sessions
         WHERE session_key < :after ${label}
           AND (:states IS NULL OR state IN (SELECT value FROM json_each(:states)))
         ORDER BY session_key DESC LIMIT :limit`,
      );
    this.#list = list('');
    this.#listByLabel = list('AND label = :label');
    this.#delete = db.prepare<[number]>('DELETE FROM sessions WHERE session_key = ?');
  }

  /** Inserts a session, unless its id exists. */
  insert({ sessionId, label, owner, leaseMs, variables }: NewSession, now: number): void {
    const lease = Math.ceil(leaseMs);
    this.#insert.run({
      sessionId,
      label,
      owner,
      leaseMs: lease,
      now,
      expiresAt: now + lease,
      variables: JSON.stringify(variables),
    });
  }

  find(sessionId: string): SessionRow | undefined {
    return this.#select.get(sessionId);
  }

  /** Returns a session as a record of the contract. */
  record(sessionId: string): SessionRecord | undefined {
    const row = this.#select.get(sessionId);
    return row === undefined ? undefined : this.#toRecord(row);
  }

  renew(sessionId: string, now: number): void {
    this.#renew.run(now, now, sessionId);
  }

  /** Changes the state. The first end reason is kept. */
  move({ sessionKey, state, end, dueAt }: SessionMove): void {
    this.#move.run(state, end, dueAt, sessionKey);
  }

  /** Ends a session. It is deleted at `removeAt`. */
  end(sessionKey: number, now: number, removeAt: number): void {
    this.#end.run(now, removeAt, sessionKey);
  }

  setDue(sessionKey: number, dueAt: number): void {
    this.#setDue.run(dueAt, sessionKey);
  }

  setVariables({ sessionKey, variables }: SessionRow, set: Changes): void {
    const merged = new Map(Object.entries(parseVariables(variables)));
    for (const [name, value] of Object.entries(set)) {
      if (value === null) merged.delete(name);
      else merged.set(name, value);
    }
    this.#setVariables.run(JSON.stringify(Object.fromEntries(merged)), sessionKey);
  }

  countOpenJobs(sessionKey: number): number {
    return this.#countOpenJobs.get(sessionKey) ?? 0;
  }

  selectDue(now: number, limit: number): readonly SessionRow[] {
    return this.#selectDue.all(now, limit);
  }

  /** When the next session is due, or `null`. */
  nextDueAt(): number | null {
    return this.#nextDueAt.get() ?? null;
  }

  list({
    state,
    label,
    limit,
    after,
    maxBytes = Number.POSITIVE_INFINITY,
  }: ListSessionsParams): readonly SessionRecord[] {
    const statement = label === undefined ? this.#list : this.#listByLabel;
    const values = {
      states: state === undefined ? null : JSON.stringify(state),
      label: label ?? null,
      after: after ?? Number.MAX_SAFE_INTEGER,
      limit: Math.max(limit, 0),
    };
    const { rows, withheld } = takeWithin(statement.iterate(values), {
      maxBytes,
      bytesOf: ({ variables }) => bytesOfTexts(variables),
    });
    const records = rows.map((row) => this.#toRecord(row));
    if (withheld === undefined) return records;
    return [...records, { ...this.#toRecord({ ...withheld, variables: '{}' }), withheld: true }];
  }

  delete(sessionKey: number): void {
    this.#delete.run(sessionKey);
  }

  #toRecord(row: SessionRow): SessionRecord {
    return {
      ...row,
      variables: parseVariables(row.variables),
      openJobs: this.countOpenJobs(row.sessionKey),
    };
  }
}

type Changes = Readonly<Record<string, string | null>>;

function parseVariables(text: string): Readonly<Record<string, string>> {
  return JSON.parse(text) as Record<string, string>;
}
