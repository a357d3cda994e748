import type {
  SessionRecord,
  SessionStore,
  DueSessions,
  ShutdownResult,
  ShutdownSession,
} from '../../contract/sessions.ts';
import {
  sessionEndCleanupMs,
  dueSessionReservedMs,
  planShutdown,
  endedSessionKeptMs,
  maxAbandonedJobChecks,
  nextCheckAt,
  nextRemovalAt,
  reasonFor,
  settleEveryMs,
} from '../../rules/session-rules.ts';
import type { Scope } from '../batches/group-commit.ts';
import type { JobRow } from './job-rows.ts';
import {
  claimAbandoned,
  settleAbandoned,
  abandonJob,
  submitJob,
  takeJob,
  abandonRow,
  endAbandoned,
  type JobParts,
} from './jobs.ts';
import type { SessionRow } from './session-rows.ts';

/** Sessions and their jobs. */
export function createSessionStore(store: JobParts): SessionStore {
  const { sessionRows: rows } = store;
  return {
    openSession: (session) =>
      store.writeOnce('openSession', ({ now }) => {
        rows.insert(session, now);
        return present(rows.record(session.sessionId));
      }),

    renewSessions: (sessionIds) =>
      store.write('renewSessions', sessionIds, ({ now }, sessionId) => {
        rows.renew(sessionId, now);
        return rows.record(sessionId);
      }),

    submitJobs: (jobs) =>
      store.write('submitJobs', jobs, (scope, job) => submitJob(store, scope, job)),

    async takeJobs(jobs) {
      await store.write('takeJobs', jobs, (_, key) => takeJob(store, key));
    },

    abandonJobs: (jobs) =>
      store.write('abandonJobs', jobs, (scope, job) => abandonJob(store, scope, job)),

    shutdownSession: (request) =>
      store.writeOnce('shutdownSession', (scope) => shutdownSession(store, scope, request)),

    settleSession: (sessionId, limit) =>
      store.writeOnce('settleSession', (scope) => settleSession(store, scope, sessionId, limit)),

    dueSessions: (limit) => dueSessions(store, limit),

    claimAbandoned: (request) =>
      store.writeOnce('claimAbandoned', ({ now }) => claimAbandoned(store, now, request)),

    async settleAbandoned(settled) {
      await store.write('settleAbandoned', settled, ({ now }, one) =>
        settleAbandoned(store, now, one),
      );
    },

    getSessions: (sessionIds) =>
      store.read('getSessions', () => sessionIds.map((id) => rows.record(id))),

    listSessions: (params) => store.read('listSessions', () => rows.list(params)),

    setSessionVariables: ({ sessionId, set }) =>
      store.writeOnce('setSessionVariables', () => {
        const row = rows.find(sessionId);
        if (row !== undefined) rows.setVariables(row, set);
        return rows.record(sessionId);
      }),

    getJobBindings: (jobs) =>
      store.read('getJobBindings', () => jobs.map((job) => store.jobRows.binding(job))),

    listJobs: ({ sessionId, limit, after = 0 }) =>
      store.read('listJobs', () => store.jobRows.list(sessionId, after, limit)),
  };
}

function present(session: SessionRecord | undefined): SessionRecord {
  if (session === undefined) throw new Error('An existing session cannot be read.');
  return session;
}

function shutdownSession(
  { sessionRows, audit }: JobParts,
  { now }: Scope,
  { sessionId, mode, end, audit: entry }: ShutdownSession,
): ShutdownResult {
  const session = sessionRows.find(sessionId);
  if (session === undefined) return { kind: 'missing', session };
  const { sessionKey, state } = session;
  const kind = planShutdown(state, mode);
  if (kind === 'accepted') {
    const move = { sessionKey, dueAt: now };
    if (mode === 'graceful') sessionRows.move({ ...move, state: 'draining', end: null });
    else sessionRows.move({ ...move, state: 'closing', end });
    audit.record([{ entry }], now);
  }
  return { kind, session: sessionRows.record(sessionId) };
}

/** Runs one step of ending a session. */
function settleSession(
  store: JobParts,
  scope: Scope,
  sessionId: string,
  limit: number,
): SessionRecord | undefined {
  const { sessionRows, jobRows } = store;
  const session = sessionRows.find(sessionId);
  if (session?.state === 'closing' || session?.state === 'draining') {
    const { sessionKey, state } = session;
    const hasMore = state === 'closing' && abandonSome(store, scope, session, limit);
    for (const job of jobRows.selectEnded(sessionKey, limit)) endAbandoned(store, scope, job);
    const { now } = scope;
    if (hasMore) sessionRows.setDue(sessionKey, now);
    else if (sessionRows.countOpenJobs(sessionKey) === 0) {
      sessionRows.end(sessionKey, now, now + endedSessionKeptMs);
    } else sessionRows.setDue(sessionKey, now + settleEveryMs);
  }
  return sessionRows.record(sessionId);
}

/** Abandons jobs of a session. Returns whether some are left. */
function abandonSome(store: JobParts, scope: Scope, session: SessionRow, limit: number): boolean {
  const most = Math.max(limit, 0);
  const jobs = store.jobRows.selectOpen(session.sessionKey, most + 1);
  const reason = reasonFor(session.end);
  for (const job of jobs.slice(0, most)) {
    abandonRow(store, scope, job, { reason, actor: null, cleanupMs: sessionEndCleanupMs });
  }
  return jobs.length > most;
}

/** Returns the due sessions. Writes nothing if none is due. */
async function dueSessions(store: JobParts, limit: number): Promise<DueSessions> {
  const ahead = await store.read('dueSessions', () => readNextDue(store, store.now()));
  if (!ahead.isDue) return { sessionIds: [], ...ahead.next };
  return store.writeOnce('dueSessions', (scope) => {
    for (const job of store.jobRows.selectToCheck(scope.now, maxAbandonedJobChecks))
      check(store, scope, job);
    const sessionIds = store.sessionRows
      .selectDue(scope.now, limit)
      .flatMap((session) => handOut(store, scope, session));
    return { sessionIds, ...readNextDue(store, scope.now).next };
  });
}

function readNextDue({ sessionRows, jobRows }: JobParts, now: number) {
  const { checkAt, disposeAt } = jobRows.nextAt();
  const dueAt = Math.min(sessionRows.nextDueAt() ?? Infinity, checkAt ?? Infinity);
  const nextAt = Math.min(dueAt, disposeAt ?? Infinity);
  return {
    isDue: dueAt <= now,
    next: {
      hasAbandoned: disposeAt !== null && disposeAt <= now,
      nextAt: nextAt === Infinity ? null : nextAt,
    },
  };
}

/** Ends an abandoned job whose run has ended, or schedules the next check. */
function check(store: JobParts, scope: Scope, job: JobRow): void {
  if (job.hasEnded === 1) {
    endAbandoned(store, scope, job);
    return;
  }
  const { now } = scope;
  store.jobRows.setCheck(job.instanceKey, nextCheckAt(job.abandonedAt ?? now, now));
}

/** Reserves a session for the caller. Returns its id if it must be settled. */
function handOut(store: JobParts, { now }: Scope, session: SessionRow): readonly string[] {
  const { sessionRows } = store;
  const { sessionKey, sessionId, state, expiresAt } = session;
  if (state === 'ended') {
    remove(store, session, now);
    return [];
  }
  const isExpired = expiresAt <= now;
  if (state === 'open' && !isExpired) {
    sessionRows.setDue(sessionKey, expiresAt);
    return [];
  }
  const dueAt = now + dueSessionReservedMs;
  if (isExpired) sessionRows.move({ sessionKey, state: 'closing', end: 'expired', dueAt });
  else sessionRows.setDue(sessionKey, dueAt);
  return [sessionId];
}

/** Deletes an ended session, after the disposal of replies that were not taken. */
function remove({ sessionRows, jobRows }: JobParts, { sessionKey }: SessionRow, now: number): void {
  if (jobRows.abandonAll(sessionKey, now)) sessionRows.setDue(sessionKey, nextRemovalAt(now));
  else sessionRows.delete(sessionKey);
}
