import { sessionNotFound } from '../../jobs/job-errors.ts';
import { readVariable, readVariables } from '../../jobs/session-options.ts';
import { checkInstanceId, checkName } from '../../model/names.ts';
import type { Handlers } from '../call.ts';
import { firstSettled } from '../first-settled.ts';
import { longestPollMs } from '../routes/route.ts';
import type { sessionRoutes } from '../routes/sessions.ts';

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
  listSessions({ query }, { jobs }) {
    return jobs.listSessions({ ...query, limit: query.limit ?? defaultLimit });
  },
  async getSession({ params }, { jobs }) {
    const session = await jobs.getSession(params.id);
    if (session === undefined) throw sessionNotFound(params.id);
    return session;
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
  async waitForSession({ params, query, signal }, { jobs }) {
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
  async listJobs({ params, query }, { jobs }) {
    const { limit = defaultLimit, after } = query;
    const page = await jobs.listJobs({ sessionId: params.id, limit, after });
    if (page.items.length > 0) return page;
    // No jobs and no session are told apart.
    if ((await jobs.getSession(params.id)) === undefined) throw sessionNotFound(params.id);
    return page;
  },
};
