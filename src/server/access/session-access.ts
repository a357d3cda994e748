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

// An owner never changes; but a session is removed some time, and then its id is anybody's.
const knownForMs = 10_000;
const maxKnownOwners = 10_000;

/** Whether a session is the caller's own, or the caller may use those of others. */
export function mayUse({ owner }: SessionInfo, caller: Caller): boolean {
  return isUnrestrictedAdmin(caller) || owner === (caller.name ?? undefined);
}

/** A session as a caller sees it: variables may hold secrets, so only the owner and admins get them. */
export function toSessionResponse(session: SessionInfo, caller: Caller): SessionInfo {
  return mayUse(session, caller) ? session : { ...session, variables: {}, variablesHidden: true };
}

/** Lets nobody but an administrator use the sessions of somebody else. */
export class SessionOwners {
  readonly #jobs: JobBackend;
  readonly #known = new Map<string, KnownOwner>();

  constructor(jobs: JobBackend) {
    this.#jobs = jobs;
  }

  /** Refuses a caller who may not use this session. */
  async check(sessionId: string, caller: Caller): Promise<void> {
    if (isUnrestrictedAdmin(caller)) return;
    if ((await this.#ownerOf(sessionId)) === (caller.name ?? undefined)) return;
    throw new HttpError(
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
    if (this.#known.size >= maxKnownOwners) this.#known.clear();
    this.#known.set(sessionId, { owner: session.owner, until: nowMs + knownForMs });
    return session.owner;
  }
}

/** How a caller may use the run that a key names. */
export type JobAccess =
  /** A job of the session. */
  | { readonly kind: 'job'; readonly name: string }
  /** A run that has ended and is no job any more: it can be read, and nothing changes it. */
  | { readonly kind: 'ended'; readonly name: string; readonly status: InstanceStatus }
  /** A job of another session, a run that was never a job, or an unknown one. */
  | { readonly kind: 'none' };

const maxKnownBindings = 10_000;

/**
 * Binds job calls to the session they name. The id and incarnation of a run are no secret (an export shows both), so
 * they alone must not give access to the job of another session.
 */
export class JobBindings {
  readonly #provider: Provider;
  /** The binding of a job never changes, so a known one is not read again. */
  readonly #known = new Map<string, JobBinding>();

  constructor(provider: Provider) {
    this.#provider = provider;
  }

  /** Remembers a job that this server created. */
  remember(key: JobKey, name: string): void {
    if (this.#known.size >= maxKnownBindings) this.#forgetOldest();
    this.#known.set(toText(key), { sessionId: key.sessionId, name });
  }

  /** Returns the access that each key gives, in order. */
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

  // A job is forgotten once its reply was taken or abandoned, which only happens to a run that has ended.
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
