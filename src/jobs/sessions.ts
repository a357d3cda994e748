import { readAuditOptions, type AuditOptions } from '../model/audit-options.ts';
import { PerdureError } from '../model/failures/errors.ts';
import { invalid, readFields } from '../model/option-fields.ts';
import { checkInstanceId, checkName } from '../model/values/names.ts';
import type { SessionState } from '../providers/contract/sessions.ts';
import type { JobBackend } from './backend.ts';
import { ambiguousSession, sessionNotFound, sessionClosed } from './job-errors.ts';
import type { Submitter } from './job-request.ts';
import type { LiveSession } from './live-session.ts';
import { retrying } from './retrying.ts';
import {
  readMode,
  readVariable,
  type JobPage,
  type SessionInfo,
  type SessionPage,
  type ShutdownMode,
} from './session-info.ts';

/**
 * A group of jobs of this client. The client renews its lease in the background. If the process dies, the session ends
 * forcefully when the lease expires.
 */
export class Session implements Submitter, AsyncDisposable {
  readonly id: string;
  readonly label: string | undefined;
  readonly submit: Submitter['submit'];
  readonly #live: LiveSession;

  constructor(live: LiveSession, submit: Submitter['submit']) {
    this.id = live.id;
    this.label = live.label;
    this.submit = submit;
    this.#live = live;
  }

  /**
   * Rejects new jobs with `SESSION_CLOSED` and resolves when the session has ended: `graceful` waits for its jobs,
   * `forceful` cancels them. Graceful may become forceful, not the reverse (`SESSION_DOWNGRADE`). Idempotent.
   */
  async shutdown(mode: ShutdownMode): Promise<void> {
    await this.#live.shutdown(readMode(mode));
  }

  /**
   * Gives up all its jobs and cancels them; later calls on them reject. Does not wait for their end. Never rejects.
   */
  async close(): Promise<void> {
    await this.#live.leave(sessionClosed(this.id, 'ended'));
  }

  /** Reads the session. */
  info(): Promise<SessionInfo> {
    return this.#live.info();
  }

  /** Sets a variable. */
  async setVariable(name: string, value: string): Promise<void> {
    await this.#live.setVariables(Object.fromEntries([readVariable(name, value)]));
  }

  /** Deletes a variable. */
  async unsetVariable(name: string): Promise<void> {
    await this.#live.setVariables(Object.fromEntries([readVariable(name, null)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** Conditions on sessions that must all hold. Absent: any. */
export interface SessionFilter {
  readonly state?: SessionState | readonly SessionState[] | undefined;
  readonly label?: string | undefined;
}

/** Selects a page of sessions or jobs. */
export interface SessionPageOptions {
  /** 1 to 1,000. Default 100. */
  readonly limit?: number | undefined;
  /** The `nextAfter` of the previous page. */
  readonly after?: string | undefined;
}

const states: readonly string[] = ['open', 'draining', 'closing', 'ended'] satisfies SessionState[];
const live: readonly SessionState[] = ['open', 'draining', 'closing'];

/**
 * All sessions of a store. A session is referenced by its id or its label. A label selects its only session that has not
 * ended, or else its only ended one; otherwise calls reject with `AMBIGUOUS_SESSION`.
 */
export class Sessions {
  readonly #backend: JobBackend;
  readonly #lifetime: AbortSignal;
  readonly #assertOpen: () => void;

  constructor(params: {
    readonly backend: JobBackend;
    readonly lifetime: AbortSignal;
    /** Throws if the client must not be used. */
    readonly assertOpen: () => void;
  }) {
    this.#backend = params.backend;
    this.#lifetime = params.lifetime;
    this.#assertOpen = params.assertOpen;
  }

  /** Lists sessions, newest first, one page at a time. */
  async list(filter?: SessionFilter, page?: SessionPageOptions): Promise<SessionPage> {
    this.#assertOpen();
    const query = { ...readFilter(filter), ...readPage(page) };
    return this.#ask(() => this.#backend.listSessions(query));
  }

  /** Reads a session. Rejects with `SESSION_NOT_FOUND` if it does not exist. */
  async get(reference: string): Promise<SessionInfo> {
    this.#assertOpen();
    const id = checkInstanceId(reference);
    const session = await this.#ask(() => this.#backend.getSession(id));
    return session ?? (await this.#byLabel(id));
  }

  /** Shuts a session down; resolves when it has ended. See `Session.shutdown`. */
  async shutdown(reference: string, mode: ShutdownMode, options?: AuditOptions): Promise<void> {
    const chosen = readMode(mode);
    const note = readAuditOptions(options, 'sessions.shutdown()');
    const { id: sessionId } = await this.get(reference);
    const request = { sessionId, mode: chosen, leaving: false, note };
    await this.#ask(() => this.#backend.shutdown(request));
    await this.#ask(() => this.#backend.waitForEnd(sessionId, this.#lifetime));
  }

  /** Sets a variable of a session; `null` deletes it. */
  async setVariable(reference: string, name: string, value: string | null): Promise<SessionInfo> {
    const set = Object.fromEntries([readVariable(name, value)]);
    const { id } = await this.get(reference);
    return this.#ask(() => this.#backend.setVariables(id, set));
  }

  /** Lists the jobs of a session, oldest first, one page at a time. */
  async jobs(reference: string, page?: SessionPageOptions): Promise<JobPage> {
    const chosen = readPage(page);
    const { id: sessionId } = await this.get(reference);
    return this.#ask(() => this.#backend.listJobs({ sessionId, ...chosen }));
  }

  async #byLabel(label: string): Promise<SessionInfo> {
    const found = (await this.#withLabel(label, live)) ?? (await this.#withLabel(label, ['ended']));
    if (found === undefined) throw sessionNotFound(label);
    return found;
  }

  async #withLabel(
    label: string,
    state: readonly SessionState[],
  ): Promise<SessionInfo | undefined> {
    const query = { label, state, limit: 5 };
    const { items } = await this.#ask(() => this.#backend.listSessions(query));
    if (items.length <= 1) return items[0];
    throw ambiguousSession(
      label,
      items.map(({ id }) => id),
    );
  }

  #ask<Value>(call: () => Promise<Value>): Promise<Value> {
    return retrying({ signal: this.#lifetime }, call);
  }
}

function readFilter(filter: unknown): {
  readonly state?: readonly SessionState[];
  readonly label?: string;
} {
  const { state, label } = readFields(filter, 'the filter of sessions.list()', [
    'state',
    'label',
  ] as const);
  return {
    ...(state !== undefined && { state: readStates(state) }),
    ...(label !== undefined && { label: checkName(label, 'Session label') }),
  };
}

function readStates(state: unknown): readonly SessionState[] {
  const given: readonly unknown[] = Array.isArray(state) ? state : [state];
  const wrong = given.find((one) => typeof one !== 'string' || !states.includes(one));
  if (wrong === undefined && given.length > 0) return given as readonly SessionState[];
  throw invalid('state', wrong, `one or more of ${states.join(', ')}`);
}

function readPage(page: unknown): { readonly limit: number; readonly after?: string } {
  const { limit = 100, after } = readFields(page, 'the page', ['limit', 'after'] as const);
  if (!Number.isSafeInteger(limit) || (limit as number) < 1 || (limit as number) > 1_000) {
    throw invalid('limit', limit, 'a whole number from 1 to 1,000');
  }
  if (after === undefined) return { limit: limit as number };
  if (typeof after === 'string') return { limit: limit as number, after };
  throw new PerdureError(
    'INVALID_INPUT',
    'Invalid `after`: must be the `nextAfter` of the previous page.',
  );
}
