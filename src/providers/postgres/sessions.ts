import type {
  AbandonJob,
  JobKey,
  NewJob,
  SessionStore,
  SettledResult,
  SubmitJobResult,
} from '../sessions.ts';
import { abandonJobs, settleAbandoned, takeJobs } from './jobs.ts';
import { dueSessions, settleSession, shutdownSession } from './session-ends.ts';
import type { Store } from './store.ts';
import { submitJobs } from './submits.ts';

/** Sessions and their jobs. */
export function createSessionStore(store: Store): SessionStore {
  const { sessionRows: rows, nextSession } = store;
  /** Makes another time due; what was known of that is forgotten. */
  const change = async <T>(changing: Promise<T>): Promise<T> => {
    try {
      return await changing;
    } finally {
      nextSession.changed();
    }
  };
  const take = store.batching({
    operation: 'takeJobs',
    run: (scope, keys: readonly JobKey[]) => takeJobs(store, scope, keys),
    maxInFlight: 1,
  });
  const abandon = store.batching({
    operation: 'abandonJobs',
    run: (scope, requests: readonly AbandonJob[]) => abandonJobs(store, scope, requests),
    maxInFlight: 1,
  });
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
          if (record === undefined) throw new Error('A session that is there cannot be read.');
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
      run: (scope, jobs: readonly NewJob[]) => submitJobs(store, scope, jobs),
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

    listJobs: ({ sessionId, limit, after = 0 }) =>
      store.read('listJobs', (tx) => store.jobRows.list(tx, { sessionId, after, limit })),
  };
}
