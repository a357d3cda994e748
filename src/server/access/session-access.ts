import type { JobBackend } from '../../jobs/backend.ts';
import { sessionNotFound } from '../../jobs/job-errors.ts';
import type { SessionInfo } from '../../jobs/session-info.ts';
import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { JobBinding, JobKey } from '../../providers/contract/sessions.ts';
import { HttpError } from '../http/errors.ts';
import { isUnrestrictedAdmin } from './allowed-definitions.ts';
import type { Caller } from './tokens.ts';

interface KnownOwner {
  readonly owner: string | undefined;
  readonly until: number;
}

// The owner of a session never changes. But once the session is deleted, another caller can reuse its id.
const knownForMs = 10_000;
const maxKnownOwners = 10_000;

/** Whether a caller owns a session or is an unrestricted admin. */
export function mayUse({ owner }: SessionInfo, caller: Caller): boolean {
  return isUnrestrictedAdmin(caller) || owner === (caller.name ?? undefined);
}

/** Hides the variables of a session from callers other than its owner and admins: they may be secrets. */
export function toSessionResponse(session: SessionInfo, caller: Caller): SessionInfo {
  return mayUse(session, caller) ? session : { ...session, variables: {}, variablesHidden: true };
}

/** Restricts sessions to their owners and unrestricted admins. Caches owners for 10 s. */
export class SessionOwners {
  readonly #jobs: JobBackend;
  readonly #known = new Map<string, KnownOwner>();

  constructor(jobs: JobBackend) {
    this.#jobs = jobs;
  }

  /** Throws 403 if the caller must not use the session, and `SESSION_NOT_FOUND` if it does not exist. */
  async check(sessionId: string, caller: Caller): Promise<void> {
    if (isUnrestrictedAdmin(caller)) return;
    if ((await this.#ownerOf(sessionId)) === (caller.name ?? undefined)) return;
    throw new HttpError(
      'FORBIDDEN',
      'The session belongs to another token. Use your own session, or an admin token without `definitions`.',
      { status: 403, reason: 'session' },
    );
  }

  async #ownerOf(sessionId: string): Promise<string | undefined> {
    const nowMs = performance.now();
    const known = this.#known.get(sessionId);
    if (known !== undefined && known.until > nowMs) return known.owner;
    const session = await this.#jobs.getSession(sessionId);
    if (session === undefined) throw sessionNotFound(sessionId);
    if (this.#known.size >= maxKnownOwners) this.#known.clear();
    this.#known.set(sessionId, { owner: session.owner, until: nowMs + knownForMs });
    return session.owner;
  }
}

/** The access that a job key gives. */
export type JobAccess =
  /** A job of the session. */
  | { readonly kind: 'job'; readonly name: string }
  /** An ended run whose job was deleted. It can be read but not changed. */
  | { readonly kind: 'ended'; readonly name: string; readonly status: InstanceStatus }
  /** A job of another session, a run that was never a job, or an unknown run. */
  | { readonly kind: 'none' };

const maxKnownBindings = 10_000;

/**
 * Checks that jobs belong to the session of a request. The id and incarnation of a run are not secret (an export has
 * both), so they must not give access to a job of another session.
 */
export class JobBindings {
  readonly #provider: Provider;
  /** Cache without expiry: the binding of a job never changes. */
  readonly #known = new Map<string, JobBinding>();

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  /** Caches the binding of a job that this server created. */
  remember(key: JobKey, name: string): void {
    if (this.#known.size >= maxKnownBindings) this.#forgetOldest();
    this.#known.set(toText(key), { sessionId: key.sessionId, name });
  }

  /** Returns the access that each key gives, in the order of the keys. */
  async check(keys: readonly JobKey[]): Promise<readonly JobAccess[]> {
    const unknown = keys.filter((key) => !this.#known.has(toText(key)));
    if (unknown.length > 0) await this.#read(unknown);
    const access = keys.map((key) => this.#accessOf(key));
    const gone = keys.filter((_, index) => access[index] === undefined);
    if (gone.length === 0) return access.map((one) => one ?? none);
    const ended = await this.#readEnded(gone);
    return access.map((one, index) => one ?? ended.get(toText(keys[index] as JobKey)) ?? none);
  }

  #accessOf(key: JobKey): JobAccess | undefined {
    const binding = this.#known.get(toText(key));
    if (binding === undefined) return undefined;
    return binding.sessionId === key.sessionId ? { kind: 'job', name: binding.name } : none;
  }

  async #read(keys: readonly JobKey[]): Promise<void> {
    const bindings = await this.#provider.getJobBindings(keys);
    for (const [index, binding] of bindings.entries()) {
      const key = keys[index];
      if (binding === undefined || key === undefined) continue;
      this.remember({ ...key, sessionId: binding.sessionId }, binding.name);
    }
  }

  // A job is deleted once its reply was taken or given up, so its run has ended.
  async #readEnded(keys: readonly JobKey[]): Promise<ReadonlyMap<string, JobAccess>> {
    const records = await this.#provider.getInstances(keys.map(({ instanceId }) => instanceId));
    const found = new Map<string, JobAccess>();
    for (const [index, record] of records.entries()) {
      const key = keys[index];
      if (key === undefined || record?.incarnation !== key.incarnation) continue;
      const { name, status } = record;
      if (isTerminal(status)) found.set(toText(key), { kind: 'ended', name, status });
    }
    return found;
  }

  #forgetOldest(): void {
    const [oldest] = this.#known.keys();
    if (oldest !== undefined) this.#known.delete(oldest);
  }
}

const none: JobAccess = { kind: 'none' };

function toText({ instanceId, incarnation }: JobKey): string {
  return JSON.stringify([instanceId, incarnation]);
}
