import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Runs SQL on the database right before sessions are settled. */
function beforeSettling({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    settleSession(sessionId, limit) {
      db.exec(sql);
      return provider.settleSession(sessionId, limit);
    },
  };
}

/** Runs SQL on the database right before due sessions are read. */
function beforeDueSessions({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    dueSessions(limit) {
      db.exec(sql);
      return provider.dueSessions(limit);
    },
  };
}

/** Sessions, each with one guard removed. */
export const brokenSessions: readonly BrokenProvider[] = [
  {
    fault: 'openSession() replaces an existing session',
    rejectedBy: 'session/opens-once',
    override: ({ provider, db }) => ({
      openSession(session) {
        db.prepare('DELETE FROM sessions WHERE session_id = ?').run(session.sessionId);
        return provider.openSession(session);
      },
    }),
  },
  {
    fault: 'a renewal does not extend the lease of its session',
    rejectedBy: 'session/a-renewal-extends-the-lease',
    override: ({ provider }) => ({ renewSessions: (ids) => provider.getSessions(ids) }),
  },
  {
    fault: 'a draining session is not renewed',
    rejectedBy: 'session/is-renewed-while-it-drains',
    override: ({ provider }) => ({
      async renewSessions(ids) {
        const [session] = await provider.getSessions(ids);
        return session?.state === 'open' ? provider.renewSessions(ids) : [session];
      },
    }),
  },
  {
    fault: 'a session with an expired lease is never due',
    rejectedBy: 'session/an-expired-lease-closes-it',
    override: (intact) =>
      beforeDueSessions(intact, `UPDATE sessions SET due_at = 1e15 WHERE state = 'open'`),
  },
  {
    fault: 'the lease of a draining session never expires',
    rejectedBy: 'session/an-expired-lease-closes-a-draining-one',
    override: (intact) =>
      beforeDueSessions(intact, `UPDATE sessions SET expires_at = 1e15 WHERE state = 'draining'`),
  },
  {
    fault: 'a graceful shutdown reverts a forceful one',
    rejectedBy: 'session/shutdown-goes-one-way',
    override: ({ provider, db }) => ({
      shutdownSession(request) {
        if (request.mode === 'graceful') db.exec(`UPDATE sessions SET state = 'open'`);
        return provider.shutdownSession(request);
      },
    }),
  },
  {
    fault: 'a later shutdown overwrites the end reason',
    rejectedBy: 'session/keeps-the-first-reason',
    override: ({ provider, db }) => ({
      async shutdownSession(request) {
        const result = await provider.shutdownSession(request);
        db.prepare('UPDATE sessions SET end_reason = ?').run(request.end);
        return result;
      },
    }),
  },
  {
    fault: 'a session ends while its jobs run',
    rejectedBy: 'session/ends-when-nothing-runs',
    override: (intact) => beforeSettling(intact, 'DELETE FROM jobs'),
  },
  {
    fault: 'a session ends before its late results are disposed of',
    rejectedBy: 'session/waits-for-late-results',
    override: (intact) => beforeSettling(intact, 'UPDATE jobs SET disposable = 0'),
  },
  {
    fault: 'the replies of a drained session are deleted at its end',
    rejectedBy: 'session/a-drained-one-keeps-its-replies',
    override: ({ provider, db }) => ({
      async settleSession(sessionId, limit) {
        const session = await provider.settleSession(sessionId, limit);
        if (session?.state === 'ended') db.exec('DELETE FROM jobs');
        return session;
      },
    }),
  },
  {
    fault: 'settleSession() ends an open session',
    rejectedBy: 'session/an-open-one-is-not-settled',
    override: (intact) => beforeSettling(intact, `UPDATE sessions SET state = 'draining'`),
  },
  {
    fault: 'settleSession() ignores its limit',
    rejectedBy: 'session/closes-in-steps',
    override: ({ provider }) => ({ settleSession: (id) => provider.settleSession(id, 1_000_000) }),
  },
  {
    fault: 'a session that ends is due for several workers at a time',
    rejectedBy: 'session/is-handed-to-one-settler-at-a-time',
    override: (intact) =>
      beforeDueSessions(intact, `UPDATE sessions SET due_at = 0 WHERE state <> 'open'`),
  },
  {
    fault: 'dueSessions() returns no nextAt',
    rejectedBy: 'session/tells-when-to-look-again',
    override: ({ provider }) => ({
      dueSessions: async (limit) => ({ ...(await provider.dueSessions(limit)), nextAt: null }),
    }),
  },
  {
    fault: 'ended sessions are never deleted',
    rejectedBy: 'session/is-removed-a-day-later',
    override: (intact) =>
      beforeDueSessions(intact, `UPDATE sessions SET due_at = 1e15 WHERE state = 'ended'`),
  },
  {
    fault: 'an ended session is renewed',
    rejectedBy: 'session/an-ended-one-stays-as-it-is',
    override: ({ provider, db }) => ({
      renewSessions(ids) {
        db.exec('UPDATE sessions SET expires_at = expires_at + 1');
        return provider.renewSessions(ids);
      },
    }),
  },
  {
    fault: 'the end of a session stops jobs of others',
    rejectedBy: 'session/leaves-others-alone',
    override: (intact) =>
      beforeSettling(intact, 'UPDATE jobs SET session_key = (SELECT min(session_key) FROM jobs)'),
  },
  {
    fault: 'setSessionVariables() replaces all variables',
    rejectedBy: 'session/has-variables',
    override: ({ provider, db }) => ({
      setSessionVariables(request) {
        db.exec(`UPDATE sessions SET variables = '{}'`);
        return provider.setSessionVariables(request);
      },
    }),
  },
  {
    fault: 'listSessions() returns the oldest first',
    rejectedBy: 'session/is-listed-newest-first',
    override: ({ provider }) => ({
      listSessions: async (params) => (await provider.listSessions(params)).toReversed(),
    }),
  },
  {
    fault: 'listSessions() ignores maxBytes',
    rejectedBy: 'session/list-ends-at-its-bytes',
    override: ({ provider }) => ({
      listSessions: ({ maxBytes: _maxBytes, ...params }) => provider.listSessions(params),
    }),
  },
];
