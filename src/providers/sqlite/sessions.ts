import type { SessionStore } from '../sessions.ts';
import type { Store } from './store.ts';

/** Sessions and their jobs. */
export function createSessionStore(store: Store): SessionStore {
  const unbuilt = async (): Promise<never> => {
    store.assertOpen('sessions');
    throw new Error('Not built yet.');
  };
  return {
    openSession: unbuilt,
    renewSessions: unbuilt,
    submitJobs: unbuilt,
    takeJobs: unbuilt,
    abandonJobs: unbuilt,
    shutdownSession: unbuilt,
    settleSession: unbuilt,
    dueSessions: unbuilt,
    claimAbandoned: unbuilt,
    settleAbandoned: unbuilt,
    getSessions: unbuilt,
    listSessions: unbuilt,
    setSessionVariables: unbuilt,
    listJobs: unbuilt,
  };
}
