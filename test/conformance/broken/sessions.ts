import type { Provider } from '../../../src/providers/contract/provider.ts';
import type { BrokenProvider, Intact } from './broken-provider.ts';

/** Changes something below the provider right before sessions are settled. */
function beforeSettling({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    settleSession(sessionId, limit) {
      db.exec(sql);
      return provider.settleSession(sessionId, limit);
    },
  };
}

/** Changes something below the provider right before it looks what is due. */
function beforeLooking({ provider, db }: Intact, sql: string): Partial<Provider> {
  return {
    dueSessions(limit) {
      db.exec(sql);
      return provider.dueSessions(limit);
    },
  };
}

/** Sessions, each with one guard taken out. */
export const brokenSessions: readonly BrokenProvider[] = [
  {
    fault: 'a session that is there is opened anew',
    rejectedBy: 'session/opens-once',
    override: ({ provider, db }) => ({
      openSession(session) {
        db.prepare('DELETE FROM sessions WHERE session_id = ?').run(session.sessionId);
        return provider.openSession(session);
      },
    }),
  },
  {
    fault: 'a renewal extends nothing',
    rejectedBy: 'session/a-renewal-extends-the-lease',
    override: ({ provider }) => ({ renewSessions: (ids) => provider.getSessions(ids) }),
  },
  {
    fault: 'a session that drains is not renewed',
    rejectedBy: 'session/is-renewed-while-it-drains',
    override: ({ provider }) => ({
      async renewSessions(ids) {
        const [session] = await provider.getSessions(ids);
        return session?.state === 'open' ? provider.renewSessions(ids) : [session];
      },
    }),
  },
  {
    fault: 'a lease that ran out is never noticed',
    rejectedBy: 'session/an-expired-lease-closes-it',
    override: (intact) =>
      beforeLooking(intact, `UPDATE sessions SET due_at = 1e15 WHERE state = 'open'`),
  },
  {
    fault: 'a session that drains outlives its lease',
    rejectedBy: 'session/an-expired-lease-closes-a-draining-one',
    override: (intact) =>
      beforeLooking(intact, `UPDATE sessions SET expires_at = 1e15 WHERE state = 'draining'`),
  },
  {
    fault: 'a graceful shutdown calls off a forceful one',
    rejectedBy: 'session/shutdown-goes-one-way',
    override: ({ provider, db }) => ({
      shutdownSession(request) {
        if (request.mode === 'graceful') db.exec(`UPDATE sessions SET state = 'open'`);
        return provider.shutdownSession(request);
      },
    }),
  },
  {
    fault: 'the last reason counts',
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
    fault: 'a session ends although a late result waits',
    rejectedBy: 'session/waits-for-late-results',
    override: (intact) => beforeSettling(intact, 'UPDATE jobs SET disposable = 0'),
  },
  {
    fault: 'the replies of a drained session are gone with it',
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
    fault: 'an open session is settled',
    rejectedBy: 'session/an-open-one-is-not-settled',
    override: (intact) => beforeSettling(intact, `UPDATE sessions SET state = 'draining'`),
  },
  {
    fault: 'all jobs are stopped in one go',
    rejectedBy: 'session/closes-in-steps',
    override: ({ provider }) => ({ settleSession: (id) => provider.settleSession(id, 1_000_000) }),
  },
  {
    fault: 'everybody is told of a session that is to end',
    rejectedBy: 'session/is-handed-to-one-settler-at-a-time',
    override: (intact) =>
      beforeLooking(intact, `UPDATE sessions SET due_at = 0 WHERE state <> 'open'`),
  },
  {
    fault: 'nobody is told when to look again',
    rejectedBy: 'session/tells-when-to-look-again',
    override: ({ provider }) => ({
      dueSessions: async (limit) => ({ ...(await provider.dueSessions(limit)), nextAt: null }),
    }),
  },
  {
    fault: 'ended sessions stay for ever',
    rejectedBy: 'session/is-removed-a-day-later',
    override: (intact) =>
      beforeLooking(intact, `UPDATE sessions SET due_at = 1e15 WHERE state = 'ended'`),
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
    fault: 'variables are set all anew',
    rejectedBy: 'session/has-variables',
    override: ({ provider, db }) => ({
      setSessionVariables(request) {
        db.exec(`UPDATE sessions SET variables = '{}'`);
        return provider.setSessionVariables(request);
      },
    }),
  },
  {
    fault: 'a listing is oldest first',
    rejectedBy: 'session/is-listed-newest-first',
    override: ({ provider }) => ({
      listSessions: async (params) => (await provider.listSessions(params)).toReversed(),
    }),
  },
  {
    fault: 'a listing is bounded in entries, not in bytes',
    rejectedBy: 'session/list-ends-at-its-bytes',
    override: ({ provider }) => ({
      listSessions: ({ maxBytes: _maxBytes, ...params }) => provider.listSessions(params),
    }),
  },
];
