import type { LocalJobs } from '../../client/local-jobs.ts';
import { sessionNotFound } from '../../jobs/job-errors.ts';
import { readVariable, readVariables, type SessionInfo } from '../../jobs/session-info.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import type { Handlers } from '../call.ts';
import { firstSettled } from '../reading/first-settled.ts';
import { longestPollMs } from '../routes/route.ts';
import type { sessionRoutes } from '../routes/sessions.ts';
import { mayUse, showSession } from '../access/session-owners.ts';
import type { Caller } from '../access/tokens.ts';

const defaultLimit = 100;

/** Opens sessions, keeps them, shows them, ends them. */
export const sessionHandlers: Handlers<typeof sessionRoutes> = {
  async openSession({ body, caller }, { jobs, owners }) {
    const session = await jobs.openSession({
      sessionId: checkInstanceId(body.id),
      label: body.label === undefined ? null : checkName(body.label, 'Label'),
      owner: caller.name,
      idleTimeoutMs: body.idleTimeoutMs,
      variables: readVariables(body.variables),
    });
    // The id may be that of a session which is there, and somebody else's.
    await owners.check(session.id, caller);
    return session;
  },
  async listSessions({ query, caller }, { jobs }) {
    const page = await jobs.listSessions({ ...query, limit: query.limit ?? defaultLimit });
    const seen = page.items.filter((session) => maySee(session, caller));
    return { ...page, items: seen.map((session) => showSession(session, caller)) };
  },
  async getSession({ params, caller }, { jobs }) {
    return showSession(await seenSession(params.id, caller, jobs), caller);
  },
  async keepAlive({ params, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const session = await jobs.keepAlive(params.id);
    if (session === undefined) throw sessionNotFound(params.id);
    return session;
  },
  async shutdownSession({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const { mode, leaving = false } = body;
    return jobs.shutdown({ sessionId: params.id, mode, leaving });
  },
  async waitForSession({ params, query, caller, signal }, { jobs, owners }) {
    if (caller.definitions !== undefined) await owners.check(params.id, caller);
    const { timeoutMs = longestPollMs } = query;
    const ends = await firstSettled(timeoutMs, signal, (inner) => [
      jobs.waitForEnd(params.id, inner).then(() => true),
    ]);
    return { ended: ends.length > 0 };
  },
  async setSessionVariables({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const set = Object.entries(body.set).map(([name, value]) => readVariable(name, value));
    return jobs.setVariables(params.id, Object.fromEntries(set));
  },
  async listJobs({ params, query, caller }, { jobs, owners }) {
    if (caller.definitions !== undefined) await owners.check(params.id, caller);
    const { limit = defaultLimit, after } = query;
    const page = await jobs.listJobs({ sessionId: params.id, limit, after });
    if (page.items.length > 0) return page;
    // No jobs and no session are told apart.
    if ((await jobs.getSession(params.id)) === undefined) throw sessionNotFound(params.id);
    return page;
  },
};

/** A caller who is restricted to some definitions sees no sessions of others: their jobs may be of any definition. */
function maySee(session: SessionInfo, caller: Caller): boolean {
  return caller.definitions === undefined || mayUse(session, caller);
}

async function seenSession(id: string, caller: Caller, jobs: LocalJobs): Promise<SessionInfo> {
  const session = await jobs.getSession(id);
  if (session === undefined || !maySee(session, caller)) throw sessionNotFound(id);
  return session;
}
