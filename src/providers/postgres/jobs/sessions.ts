import type { StopResult } from '../../contract/cancellation.ts';
import type {
  AbandonJob,
  JobKey,
  NewJob,
  SessionStore,
  SettledResult,
  SubmitJobResult,
} from '../../contract/sessions.ts';
import { abandonJobs, settleAbandoned, takeJobs } from './jobs.ts';
import type { Scope } from '../driver/scope.ts';
import { dueSessions, settleSession, shutdownSession } from './session-ends.ts';
import type { Store } from '../store.ts';
import { submitJobs } from './submits.ts';

// Of many that are closed at once, handlers are told while the next are being written, on two processors of the database.
const abandonedAtOnce = { maxInFlight: 2, maxItems: 500 };

/** Abandons jobs: those that run in the short way, then the others. */
function createAbandon(
  store: Store,
): (requests: readonly AbandonJob[]) => Promise<readonly StopResult[]> {
  const run = (scope: Scope, requests: readonly AbandonJob[]) =>
    abandonJobs(store, scope, requests);
  const runSingleStatement = (requests: readonly AbandonJob[]) =>
    store.singleStatementAbandons.abandon(requests, store.nowParameter);
  const operation = 'abandonJobs';
  const abandonAny = store.batching({ operation, run, ...abandonedAtOnce });
  const abandonPlain = store.batching<AbandonJob, StopResult | undefined>({
    operation,
    run,
    runSingleStatement,
    ...abandonedAtOnce,
  });
  const { maxItems } = abandonedAtOnce;
  return async (requests) => {
    const slices: Promise<readonly (StopResult | undefined)[]>[] = [];
    for (let start = 0; start < requests.length; start += maxItems) {
      slices.push(abandonPlain(requests.slice(start, start + maxItems)));
    }
    const results = (await Promise.all(slices)).flat();
    const left = requests.filter((_, index) => results[index] === undefined);
    const others = (await abandonAny(left)).values();
    return results.map((result) => result ?? present(others.next().value));
  };
}

function present(result: StopResult | undefined): StopResult {
  if (result === undefined) throw new Error('A job that was abandoned was not answered.');
  return result;
}

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
  const abandon = createAbandon(store);
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

    getJobBindings: (jobs) =>
      store.read('getJobBindings', (tx) => store.jobRows.bindings(tx, jobs)),

    listJobs: ({ sessionId, limit, after = 0 }) =>
      store.read('listJobs', (tx) => store.jobRows.list(tx, { sessionId, after, limit })),
  };
}
