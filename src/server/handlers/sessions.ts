import type { LocalJobs } from '../../client/local-jobs.ts';
import { sessionNotFound } from '../../jobs/job-errors.ts';
import { readVariable, readVariables, type SessionInfo } from '../../jobs/session-info.ts';
import { readAuditOptions } from '../../model/audit-options.ts';
import { checkInstanceId, checkName } from '../../model/values/names.ts';
import type { Handlers } from '../server-context.ts';
import { firstSettled } from './long-poll.ts';
import { longestPollMs } from '../routes/route.ts';
import type { sessionRoutes } from '../routes/sessions.ts';
import { mayUse, toSessionResponse } from '../access/session-access.ts';
import { actorOf, type Caller } from '../access/tokens.ts';

const defaultLimit = 100;

export const sessionHandlers: Handlers<typeof sessionRoutes> = {
  async openSession({ body, caller }, { jobs, owners }) {
    const session = await jobs.openSession({
      sessionId: checkInstanceId(body.id),
      label: body.label === undefined ? null : checkName(body.label, 'Label'),
      owner: caller.name,
      idleTimeoutMs: body.idleTimeoutMs,
      variables: readVariables(body.variables),
    });
    // A session with this id may already exist and belong to another caller.
    await owners.check(session.id, caller);
    return session;
  },
  async listSessions({ query, caller }, { jobs }) {
    const page = await jobs.listSessions({ ...query, limit: query.limit ?? defaultLimit });
    const visible = page.items.filter((session) => isVisible(session, caller));
    return { ...page, items: visible.map((session) => toSessionResponse(session, caller)) };
  },
  async getSession({ params, caller }, { jobs }) {
    return toSessionResponse(await getVisibleSession(params.id, caller, jobs), caller);
  },
  async keepAlive({ params, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const session = await jobs.keepAlive(params.id);
    if (session === undefined) throw sessionNotFound(params.id);
    return session;
  },
  async shutdownSession({ params, body, caller }, { jobs, owners }) {
    await owners.check(params.id, caller);
    const { mode, leaving = false, reason } = body;
    const note = readAuditOptions({ actor: actorOf(caller, body.actor), reason }, 'shutdown');
    // A program that ends its own session is no operator. Without authentication, sessions have no owner.
    const isOperator =
      caller.name === null ||
      body.actor !== undefined ||
      (await jobs.getSession(params.id))?.owner !== caller.name;
    const audited = !leaving && isOperator ? { note } : {};
    return jobs.shutdown({ sessionId: params.id, mode, leaving, ...audited });
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
    // Distinguishes an empty session from an unknown one.
    if ((await jobs.getSession(params.id)) === undefined) throw sessionNotFound(params.id);
    return page;
  },
};

/** Whether a session is visible. Restricted callers only see their own: other jobs may have any definition. */
function isVisible(session: SessionInfo, caller: Caller): boolean {
  return caller.definitions === undefined || mayUse(session, caller);
}

async function getVisibleSession(
  id: string,
  caller: Caller,
  jobs: LocalJobs,
): Promise<SessionInfo> {
  const session = await jobs.getSession(id);
  if (session === undefined || !isVisible(session, caller)) throw sessionNotFound(id);
  return session;
}
