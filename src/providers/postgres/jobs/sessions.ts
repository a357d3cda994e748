import { isTerminal } from '../../../model/status.ts';
import type { StopResult } from '../../contract/cancellation.ts';
import type {
  AbandonJob,
  JobKey,
  NewJob,
  SessionStore,
  SettledResult,
  SubmitJobResult,
  DueSessions,
  SessionRecord,
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
  type SessionMove,
} from '../../rules/session-rules.ts';
import type { Scope } from '../driver/scope.ts';
import type { BatchWork } from '../batches/batching.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Audit } from '../tables/audit.ts';
import type { NextDueCache } from '../wakeups/due-query.ts';
import type { JobRow, NextJobTimes } from './job-rows.ts';
import {
  abandon,
  abandonJobs,
  endAbandoned,
  settleAbandoned,
  submitJobs,
  takeJobs,
  type AbandonParts,
  type SubmitParts,
  type SubmitPaths,
} from './jobs.ts';
import type { SessionRow } from './session-rows.ts';

type SessionParts = StoreAccess &
  AbandonParts &
  SubmitParts & { readonly audit: Audit; readonly nextSession: NextDueCache };

type AbandonWork = BatchWork<AbandonJob, StopResult | undefined>;

interface SessionPaths extends SubmitPaths {
  /** Abandons running jobs in one statement. The result of other jobs is `undefined`. */
  readonly abandonInOneStatement: NonNullable<AbandonWork['runSingleStatement']>;
}

/** Implements sessions and their jobs. */
export function createSessionStore(
  store: SessionParts,
  { abandonInOneStatement, ...paths }: SessionPaths,
): SessionStore {
  const { sessionRows: rows, nextSession } = store;
  /** Awaits a write that may change when the next session is due. */
  const change = async <T>(changing: Promise<T>): Promise<T> => {
    try {
      return await changing;
    } finally {
      nextSession.invalidate();
    }
  };
  const take = store.batching({
    operation: 'takeJobs',
    run: (scope, keys: readonly JobKey[]) => takeJobs(store, scope, keys),
    maxInFlight: 1,
  });
  const abandon = createAbandon(store, abandonInOneStatement);
  const settleResults = store.batching({
    operation: 'settleAbandoned',
    run: (scope, settled: readonly SettledResult[]) => settleAbandoned(store, scope, settled),
    maxInFlight: 1,
  });
  return {
    openSession: (session) =>
      change(
        store.writeOnce('openSession', async ({ tx, nowParameter }) => {
          await rows.insert(tx, session, nowParameter);
          const [record] = await rows.get(tx, [session.sessionId]);
          if (record === undefined) throw new Error('The inserted session cannot be read.');
          return record;
        }),
      ),

    async renewSessions(sessionIds) {
      store.assertOpen('renewSessions');
      if (sessionIds.length === 0) return [];
      return store.writeOnce('renewSessions', async ({ tx, nowParameter }) => {
        await rows.renew(tx, sessionIds, nowParameter);
        return rows.get(tx, sessionIds);
      });
    },

    submitJobs: store.batching({
      operation: 'submitJobs',
      run: (scope, jobs: readonly NewJob[]) => submitJobs(store, scope, { jobs, ...paths }),
      refused: (error): SubmitJobResult => ({ kind: 'refused', error }),
      maxInFlight: 2,
    }),

    async takeJobs(keys) {
      await take(keys);
    },

    abandonJobs: (requests) => change(abandon(requests)),

    shutdownSession: (request) =>
      change(store.writeOnce('shutdownSession', (scope) => shutdownSession(store, scope, request))),

    settleSession: (sessionId, limit) =>
      change(
        store.writeOnce('settleSession', (scope) => settleSession(store, scope, sessionId, limit)),
      ),

    dueSessions: (limit) => dueSessions(store, limit),

    claimAbandoned: (request) =>
      change(
        store.writeOnce('claimAbandoned', ({ tx, nowParameter }) =>
          store.jobRows.claim(tx, request, nowParameter),
        ),
      ),

    async settleAbandoned(settled) {
      await change(settleResults(settled));
    },

    getSessions: (sessionIds) => store.read('getSessions', (tx) => rows.get(tx, sessionIds)),

    listSessions: (params) => store.read('listSessions', (tx) => rows.list(tx, params)),

    setSessionVariables: ({ sessionId, set }) =>
      store.writeOnce('setSessionVariables', async ({ tx }) => {
        const row = await rows.lock(tx, sessionId);
        if (row === undefined) return undefined;
        await rows.setVariables(tx, row, set);
        const [record] = await rows.get(tx, [sessionId]);
        return record;
      }),

    getJobBindings: (jobs) =>
      store.read('getJobBindings', (tx) => store.jobRows.bindings(tx, jobs)),

    listJobs: ({ sessionId, limit, after = 0 }) =>
      store.read('listJobs', (tx) => store.jobRows.list(tx, { sessionId, after, limit })),
  };
}

// Slices of a large call: the database works on two at a time, and handlers are signaled after each.
const abandonedAtOnce = { maxInFlight: 2, maxItems: 500 };

/** Abandons running jobs in one statement, then the others in a transaction. */
function createAbandon(
  store: SessionParts,
  runSingleStatement: NonNullable<AbandonWork['runSingleStatement']>,
): (requests: readonly AbandonJob[]) => Promise<readonly StopResult[]> {
  const run = (scope: Scope, requests: readonly AbandonJob[]) =>
    abandonJobs(store, scope, requests);
  const operation = 'abandonJobs';
  const abandonAny = store.batching({ operation, run, ...abandonedAtOnce });
  const abandonInOneStatement = store.batching<AbandonJob, StopResult | undefined>({
    operation,
    run,
    runSingleStatement,
    ...abandonedAtOnce,
  });
  const { maxItems } = abandonedAtOnce;
  return async (requests) => {
    const slices: Promise<readonly (StopResult | undefined)[]>[] = [];
    for (let start = 0; start < requests.length; start += maxItems) {
      slices.push(abandonInOneStatement(requests.slice(start, start + maxItems)));
    }
    const results = (await Promise.all(slices)).flat();
    const left = requests.filter((_, index) => results[index] === undefined);
    const others = (await abandonAny(left)).values();
    return results.map((result) => result ?? present(others.next().value));
  };
}

function present(result: StopResult | undefined): StopResult {
  if (result === undefined) throw new Error('An abandoned job has no result.');
  return result;
}

/** Starts a graceful or immediate shutdown of a session. */
async function shutdownSession(
  { sessionRows, audit }: SessionParts,
  scope: Scope,
  { sessionId, mode, end, audit: entry }: ShutdownSession,
): Promise<ShutdownResult> {
  const { tx } = scope;
  const [row] = await scope.begin(sessionRows.lock(tx, sessionId));
  if (row === undefined) return { kind: 'missing', session: undefined };
  const kind = planShutdown(row.state, mode);
  if (kind === 'accepted') {
    const how =
      mode === 'graceful'
        ? ({ state: 'draining', end: null } as const)
        : ({ state: 'closing', end } as const);
    await sessionRows.move(tx, [{ sessionKey: row.sessionKey, dueAt: scope.now, ...how }]);
    await audit.record(tx, [{ entry }], scope.now);
  }
  const [session] = await sessionRows.get(tx, [sessionId]);
  return { kind, session };
}

/** Abandons up to `limit` jobs of a closing session, and ends the session if no open jobs are left. */
async function settleSession(
  store: SessionParts,
  scope: Scope,
  sessionId: string,
  limit: number,
): Promise<SessionRecord | undefined> {
  const { sessionRows, jobRows } = store;
  const { tx } = scope;
  const [session] = await scope.begin(sessionRows.lock(tx, sessionId));
  if (session?.state === 'closing' || session?.state === 'draining') {
    const hasMore =
      session.state === 'closing' && (await abandonSome(store, scope, session, limit));
    await endAbandoned(store, scope, await jobRows.lockEnded(tx, session.sessionKey, limit));
    await endIfEmpty(store, scope, { session, hasMore });
  }
  const [record] = await sessionRows.get(tx, [sessionId]);
  return record;
}

/** Abandons up to `limit` jobs of a session. Returns whether there are more. */
async function abandonSome(
  store: SessionParts,
  scope: Scope,
  session: SessionRow,
  limit: number,
): Promise<boolean> {
  const most = Math.max(limit, 0);
  const open = await store.jobRows.selectOpen(scope.tx, session.sessionKey, most + 1);
  const keys = open.slice(0, most);
  if (keys.length > 0) {
    const batch = store.newBatch(scope);
    await batch.instances.lock({ keys, parents: 'ending' });
    const jobs = await store.jobRows.lockByKey(scope.tx, keys);
    const request = { reason: reasonFor(session.end), actor: null, cleanupMs: sessionEndCleanupMs };
    const requests = jobs.map(({ instanceKey }) => ({ ...request, instanceKey }));
    await abandon(store, batch, { jobs, requests });
  }
  return open.length > most;
}

/** Ends a session without open jobs, or schedules the next step. */
async function endIfEmpty(
  { sessionRows }: SessionParts,
  { tx, now }: Scope,
  { session, hasMore }: { readonly session: SessionRow; readonly hasMore: boolean },
): Promise<void> {
  const { sessionKey, sessionId, state } = session;
  const [record] = hasMore ? [] : await sessionRows.get(tx, [sessionId]);
  if (record?.openJobs === 0) await sessionRows.end(tx, sessionKey, now, now + endedSessionKeptMs);
  else {
    const dueAt = hasMore ? now : now + settleEveryMs;
    await sessionRows.move(tx, [{ sessionKey, state, end: null, dueAt }]);
  }
}

/** Lists due sessions. If nothing is due, it needs one read, or no statement with a valid cache. */
async function dueSessions(store: SessionParts, limit: number): Promise<DueSessions> {
  store.assertOpen('dueSessions');
  const known = store.nextSession.get();
  if (known !== undefined) {
    const nextAt = known.nextAt === Infinity ? null : known.nextAt;
    return { sessionIds: [], hasAbandoned: false, nextAt };
  }
  const times = await store.read('dueSessions', (tx) =>
    store.jobRows.nextAt(tx, store.nowParameter),
  );
  const dueAt = Math.min(times.dueAt ?? Infinity, times.checkAt ?? Infinity);
  if (dueAt > times.now) return { sessionIds: [], ...toNextDue(times) };
  try {
    return await store.writeOnce('dueSessions', (scope) => handOutDue(store, scope, limit));
  } finally {
    store.nextSession.invalidate();
  }
}

function toNextDue({
  now,
  dueAt,
  checkAt,
  disposeAt,
}: NextJobTimes): Omit<DueSessions, 'sessionIds'> {
  const nextAt = Math.min(dueAt ?? Infinity, checkAt ?? Infinity, disposeAt ?? Infinity);
  return {
    hasAbandoned: disposeAt !== null && disposeAt <= now,
    nextAt: nextAt === Infinity ? null : nextAt,
  };
}

async function handOutDue(store: SessionParts, scope: Scope, limit: number): Promise<DueSessions> {
  const { tx } = scope;
  const { sessionRows, jobRows } = store;
  await scope.begin();
  await check(store, scope, await jobRows.lockToCheck(tx, scope.now, maxAbandonedJobChecks));
  const due = await sessionRows.lockDue(tx, scope.now, limit);
  const moves: SessionMove[] = [];
  const sessionIds: string[] = [];
  for (const session of due) {
    const move = moveDue(session, scope.now);
    if (move === undefined) continue;
    moves.push(move);
    if (move.state !== 'open') sessionIds.push(session.sessionId);
  }
  await sessionRows.move(tx, moves);
  await remove(
    store,
    scope,
    due.filter(({ state }) => state === 'ended'),
  );
  return { sessionIds, ...toNextDue(await jobRows.nextAt(tx, scope.now)) };
}

/** The next state of a due session; `undefined` for one that has ended. */
function moveDue(
  { sessionKey, state, expiresAt }: SessionRow,
  now: number,
): SessionMove | undefined {
  if (state === 'ended') return undefined;
  const dueAt = now + dueSessionReservedMs;
  if (expiresAt <= now) return { sessionKey, state: 'closing', end: 'expired', dueAt };
  return { sessionKey, state, end: null, dueAt: state === 'open' ? expiresAt : dueAt };
}

/** Checks whether the runs of abandoned jobs have ended. */
async function check(store: SessionParts, scope: Scope, jobs: readonly JobRow[]): Promise<void> {
  const { now } = scope;
  const ended = jobs.filter(({ status }) => isTerminal(status));
  const live = jobs.filter(({ status }) => !isTerminal(status));
  await endAbandoned(store, scope, ended);
  await store.jobRows.setTimes(
    scope.tx,
    live.map(({ instanceKey, abandonedAt, disposeAt }) => ({
      instanceKey,
      checkAt: nextCheckAt(abandonedAt ?? now, now),
      disposeAt,
    })),
  );
}

/** Deletes ended sessions. A session with late results stays until they are disposed of. */
async function remove(
  { sessionRows, jobRows }: SessionParts,
  { tx, now }: Scope,
  sessions: readonly SessionRow[],
): Promise<void> {
  const keys = sessions.map(({ sessionKey }) => sessionKey);
  const withJobs = await jobRows.abandonAll(tx, keys, now);
  const dueAt = nextRemovalAt(now);
  await sessionRows.move(
    tx,
    [...withJobs].map((sessionKey) => ({ sessionKey, state: 'ended', end: null, dueAt })),
  );
  await sessionRows.delete(
    tx,
    keys.filter((key) => !withJobs.has(key)),
  );
}
