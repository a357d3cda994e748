import type { SessionRecord, SessionStore } from '../../contract/sessions.ts';
import { claimAbandoned, settleAbandoned } from './abandoned-results.ts';
import { abandonJobs, submitJob, takeJob } from './jobs.ts';
import { dueSessions, settleSession, shutdownSession } from './session-ends.ts';
import type { Store } from '../store.ts';

/** Sessions and their jobs. */
export function createSessionStore(store: Store): SessionStore {
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

    async abandonJobs(jobs) {
      store.assertOpen('abandonJobs');
      if (jobs.length === 0) return [];
      return store.writeOnce('abandonJobs', (scope) => abandonJobs(store, scope, jobs));
    },

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
  if (session === undefined) throw new Error('A session that is there cannot be read.');
  return session;
}
