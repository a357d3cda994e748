import type { JobBackend } from '../../jobs/backend.ts';
import type { SessionInfo } from '../../jobs/session-info.ts';
import { sessionNotFound } from '../../jobs/job-errors.ts';
import { isUnrestrictedAdmin } from './allowed-definitions.ts';
import { Refusal } from '../http/refusal.ts';
import type { Caller } from './tokens.ts';

interface Known {
  readonly owner: string | undefined;
  readonly until: number;
}

// An owner never changes; but a session is removed some time, and then its id is anybody's.
const knownForMs = 10_000;
const maxKnown = 10_000;

/** Whether a session is the caller's own, or the caller may use those of others. */
export function mayUse({ owner }: SessionInfo, caller: Caller): boolean {
  return isUnrestrictedAdmin(caller) || owner === (caller.name ?? undefined);
}

/** A session as a caller sees it: variables may hold secrets, so only the owner and admins get them. */
export function showSession(session: SessionInfo, caller: Caller): SessionInfo {
  return mayUse(session, caller) ? session : { ...session, variables: {}, variablesHidden: true };
}

/** Lets nobody but an administrator use the sessions of somebody else. */
export class SessionOwners {
  readonly #jobs: JobBackend;
  readonly #known = new Map<string, Known>();

  constructor(jobs: JobBackend) {
    this.#jobs = jobs;
  }

  /** Refuses a caller who may not use this session. */
  async check(sessionId: string, caller: Caller): Promise<void> {
    if (isUnrestrictedAdmin(caller)) return;
    if ((await this.#ownerOf(sessionId)) === (caller.name ?? undefined)) return;
    throw new Refusal(
      'FORBIDDEN',
      'The session belongs to another token. Use a session of your own, or a token with the role admin.',
      { status: 403, reason: 'session' },
    );
  }

  async #ownerOf(sessionId: string): Promise<string | undefined> {
    const nowMs = performance.now();
    const known = this.#known.get(sessionId);
    if (known !== undefined && known.until > nowMs) return known.owner;
    const session = await this.#jobs.getSession(sessionId);
    if (session === undefined) throw sessionNotFound(sessionId);
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(sessionId, { owner: session.owner, until: nowMs + knownForMs });
    return session.owner;
  }
}
