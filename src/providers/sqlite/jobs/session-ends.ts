import {
  cleanupMs,
  handedOutMs,
  judgeShutdown,
  keptMs,
  maxChecks,
  nextCheckAt,
  nextRemovalAt,
  reasonFor,
  settleEveryMs,
} from '../../rules/session-rules.ts';
import type {
  DueSessions,
  SessionRecord,
  ShutdownResult,
  ShutdownSession,
} from '../../contract/sessions.ts';
import type { Scope } from '../batches/group-commit.ts';
import { abandonRow, endAbandoned } from './jobs.ts';
import type { JobRow } from './job-rows.ts';
import type { SessionRow } from './session-rows.ts';
import type { Store } from '../store.ts';

export function shutdownSession(
  { sessionRows }: Store,
  { now }: Scope,
  { sessionId, mode, end }: ShutdownSession,
): ShutdownResult {
  const session = sessionRows.find(sessionId);
  if (session === undefined) return { kind: 'missing', session };
  const { sessionKey, state } = session;
  const kind = judgeShutdown(state, mode);
  if (kind === 'accepted') {
    const move = { sessionKey, dueAt: now };
    if (mode === 'graceful') sessionRows.move({ ...move, state: 'draining', end: null });
    else sessionRows.move({ ...move, state: 'closing', end });
  }
  return { kind, session: sessionRows.record(sessionId) };
}

/** One step towards the end of a session that is to end. */
export function settleSession(
  store: Store,
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
      sessionRows.end(sessionKey, now, now + keptMs);
    } else sessionRows.setDue(sessionKey, now + settleEveryMs);
  }
  return sessionRows.record(sessionId);
}

/** Abandons jobs of a session; says whether there are more. */
function abandonSome(store: Store, scope: Scope, session: SessionRow, limit: number): boolean {
  const most = Math.max(limit, 0);
  const jobs = store.jobRows.selectOpen(session.sessionKey, most + 1);
  const reason = reasonFor(session.end);
  for (const job of jobs.slice(0, most)) {
    abandonRow(store, scope, job, { reason, actor: null, cleanupMs });
  }
  return jobs.length > most;
}

/** What there is to do; nothing is written where there is nothing. */
export async function dueSessions(store: Store, limit: number): Promise<DueSessions> {
  const look = await store.read('dueSessions', () => lookAhead(store, store.now()));
  if (!look.isDue) return { sessionIds: [], ...look.next };
  return store.writeOnce('dueSessions', (scope) => {
    for (const job of store.jobRows.selectToCheck(scope.now, maxChecks)) check(store, scope, job);
    const sessionIds = store.sessionRows
      .selectDue(scope.now, limit)
      .flatMap((session) => handOut(store, scope, session));
    return { sessionIds, ...lookAhead(store, scope.now).next };
  });
}

function lookAhead({ sessionRows, jobRows }: Store, now: number) {
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

/** Sees what became of the run of an abandoned job. */
function check(store: Store, scope: Scope, job: JobRow): void {
  if (job.isOver === 1) {
    endAbandoned(store, scope, job);
    return;
  }
  const { now } = scope;
  store.jobRows.setCheck(job.instanceKey, nextCheckAt(job.abandonedAt ?? now, now));
}

/** Hands a session to whoever asked, if it is to be settled; answers its id then. */
function handOut(store: Store, { now }: Scope, session: SessionRow): readonly string[] {
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
  const dueAt = now + handedOutMs;
  if (isExpired) sessionRows.move({ sessionKey, state: 'closing', end: 'expired', dueAt });
  else sessionRows.setDue(sessionKey, dueAt);
  return [sessionId];
}

/** Takes away a session that has ended; replies that nobody took are disposed of first. */
function remove({ sessionRows, jobRows }: Store, { sessionKey }: SessionRow, now: number): void {
  if (jobRows.abandonAll(sessionKey, now)) sessionRows.setDue(sessionKey, nextRemovalAt(now));
  else sessionRows.delete(sessionKey);
}
