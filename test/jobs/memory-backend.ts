import type {
  ChunkPageRequest,
  JobBackend,
  JobChunk,
  ChunkPage,
  JobReply,
  JobRequest,
  SessionQuery,
  SessionRequest,
} from '../../src/jobs/backend.ts';
import { sessionClosed, sessionDowngrade, sessionNotFound } from '../../src/jobs/job-errors.ts';
import type {
  JobPage,
  SessionInfo,
  SessionPage,
  ShutdownMode,
} from '../../src/jobs/session-info.ts';
import {
  CanceledError,
  PerdureError,
  ProviderError,
  notFound,
} from '../../src/model/failures/errors.ts';
import type { StopResult } from '../../src/providers/contract/cancellation.ts';
import type { JobKey } from '../../src/providers/contract/sessions.ts';
import { FakeClock } from '../../src/testing/fake-clock.ts';

type Method = Exclude<keyof JobBackend, 'clock'>;

interface StoredJob {
  readonly request: JobRequest;
  reply: JobReply | undefined;
  isAbandoned: boolean;
  isTaken: boolean;
  chunks: JobChunk[];
  emitted: number;
}

/**
 * In-memory job backend for tests of the client state machines. It implements the contract and logs its calls.
 * A test can delay responses and make a call fail before or after it takes effect.
 */
export class MemoryBackend implements JobBackend {
  readonly clock = new FakeClock();
  readonly calls: string[] = [];
  readonly jobs = new Map<string, StoredJob>();
  readonly sessions = new Map<string, SessionInfo>();
  readonly #faults: { readonly method: Method; readonly when: 'before' | 'after' }[] = [];
  readonly #held = new Map<Method, PromiseWithResolvers<void>>();
  #changed = Promise.withResolvers<void>();
  readonly #ignoringCancel = new Set<string>();
  /** Number of pending waits. */
  waiting = 0;

  /** Makes the handler of a job ignore its cancel. */
  ignoreCancel(id: string): void {
    this.#ignoringCancel.add(id);
  }

  /** Makes the next call of a method fail like a broken connection. */
  failNext(method: Method, when: 'before' | 'after'): void {
    this.#faults.push({ method, when });
  }

  /** Delays the responses of a method until the returned function is called. The calls take effect immediately. */
  holdResponses(method: Method): () => void {
    const held = Promise.withResolvers<void>();
    this.#held.set(method, held);
    return () => {
      this.#held.delete(method);
      held.resolve();
    };
  }

  end(id: string, reply: JobReply): void {
    const job = this.#job(id);
    job.reply ??= reply;
    this.#notify();
  }

  complete(id: string, output: unknown): void {
    this.end(id, { kind: 'completed', output: JSON.stringify(output) });
  }

  emit(id: string, ...values: readonly unknown[]): void {
    const job = this.#job(id);
    for (const value of values) {
      job.emitted += 1;
      job.chunks.push({ seq: job.emitted, payload: JSON.stringify(value) });
    }
    this.#notify();
  }

  openSession(request: SessionRequest): Promise<SessionInfo> {
    return this.#call('openSession', request.sessionId, () => {
      const { sessionId: id, label, idleTimeoutMs, variables } = request;
      const createdAt = this.clock.now();
      const session: SessionInfo = this.sessions.get(id) ?? {
        id,
        ...(label !== null && { label }),
        state: 'open',
        idleTimeoutMs,
        createdAt,
        expiresAt: createdAt + idleTimeoutMs,
        variables,
        openJobs: 0,
      };
      this.sessions.set(id, session);
      return session;
    });
  }

  keepAlive(sessionId: string): Promise<SessionInfo | undefined> {
    return this.#call('keepAlive', sessionId, () => this.sessions.get(sessionId));
  }

  shutdown(request: {
    readonly sessionId: string;
    readonly mode: ShutdownMode;
    readonly leaving: boolean;
  }): Promise<SessionInfo> {
    const { sessionId, mode, leaving } = request;
    return this.#call('shutdown', `${mode}${leaving ? ', leaving' : ''}`, () => {
      const session = this.sessions.get(sessionId);
      if (session === undefined) throw sessionNotFound(sessionId);
      if (session.state === 'ended') return session;
      if (mode === 'graceful') {
        if (session.state === 'closing') throw sessionDowngrade(sessionId);
        return this.#move(session, 'draining');
      }
      const closing = this.#move(session, 'closing');
      for (const job of this.#jobsOf(sessionId)) this.#stop(job, 'its session was shut down', true);
      return closing;
    });
  }

  async waitForEnd(sessionId: string, signal: AbortSignal): Promise<void> {
    await this.#call('waitForEnd', sessionId, () => undefined);
    await this.#until(signal, () => {
      const session = this.sessions.get(sessionId);
      if (session === undefined) return true;
      if (this.#jobsOf(sessionId).some(({ reply }) => reply === undefined)) return undefined;
      if (session.state === 'open') return undefined;
      this.#move(session, 'ended');
      return true;
    });
  }

  getSession(sessionId: string): Promise<SessionInfo | undefined> {
    return this.#call('getSession', sessionId, () => this.sessions.get(sessionId));
  }

  listSessions(query: SessionQuery): Promise<SessionPage> {
    return this.#call('listSessions', query.label ?? '', () => {
      const items = [...this.sessions.values()].filter(
        ({ label, state }) =>
          (query.label ?? label) === label && (query.state ?? [state]).includes(state),
      );
      return { items: items.toReversed().slice(0, query.limit) };
    });
  }

  listJobs(query: { readonly sessionId: string }): Promise<JobPage> {
    return this.#call('listJobs', query.sessionId, () => ({ items: [] }));
  }

  setVariables(
    sessionId: string,
    set: Readonly<Record<string, string | null>>,
  ): Promise<SessionInfo> {
    return this.#call('setVariables', Object.keys(set).join(), () => {
      const session = this.sessions.get(sessionId);
      if (session === undefined) throw sessionNotFound(sessionId);
      const merged = Object.entries({ ...session.variables, ...set });
      const variables = Object.fromEntries(
        merged.filter((entry): entry is [string, string] => entry[1] !== null),
      );
      const changed = { ...session, variables };
      this.sessions.set(sessionId, changed);
      return changed;
    });
  }

  submit(request: JobRequest): Promise<void> {
    const { instanceId, incarnation, sessionId } = request.key;
    return this.#call('submit', instanceId, () => {
      const existing = this.jobs.get(instanceId);
      if (existing?.request.key.incarnation === incarnation) return;
      const state = this.sessions.get(sessionId)?.state;
      if (state !== 'open') throw sessionClosed(sessionId, state ?? 'missing');
      if (existing !== undefined) {
        throw new PerdureError('INSTANCE_ALREADY_EXISTS', `${instanceId} is taken.`);
      }
      this.jobs.set(instanceId, {
        request,
        reply: undefined,
        isAbandoned: false,
        isTaken: false,
        chunks: [],
        emitted: 0,
      });
    });
  }

  async wait(key: JobKey, signal: AbortSignal): Promise<JobReply> {
    await this.#call('wait', key.instanceId, () => undefined);
    return this.#until(signal, () => this.#find(key)?.reply);
  }

  take(key: JobKey): Promise<void> {
    return this.#call('take', key.instanceId, () => {
      const job = this.#find(key);
      if (job !== undefined) job.isTaken = true;
    });
  }

  abandon(key: JobKey): Promise<StopResult> {
    return this.#call('abandon', key.instanceId, () => {
      return this.#stop(this.#find(key), 'closed by its caller', true);
    });
  }

  cancel(key: JobKey, { reason }: { readonly reason: string }): Promise<StopResult> {
    return this.#call('cancel', key.instanceId, () => this.#stop(this.#find(key), reason, false));
  }

  status(key: JobKey) {
    return this.#call('status', key.instanceId, () => {
      const job = this.#find(key);
      if (job === undefined) throw notFound(key.instanceId);
      const { kind, name } = job.request;
      const status =
        job.reply === undefined
          ? ('running' as const)
          : job.reply.kind === 'completed'
            ? ('completed' as const)
            : ('canceled' as const);
      return { id: key.instanceId, kind, name, status, executionId: 1, createdAt: 0 };
    });
  }

  async read(key: JobKey, page: ChunkPageRequest, signal: AbortSignal): Promise<ChunkPage> {
    await this.#call('read', `${key.instanceId} after ${page.after}`, () => undefined);
    return this.#until(signal, () => {
      const job = this.#find(key);
      if (job === undefined) return { chunks: [], over: true };
      job.chunks = job.chunks.filter(({ seq }) => seq > page.after);
      const chunks = job.chunks.slice(0, page.limit);
      const over = job.reply !== undefined && chunks.length === job.chunks.length;
      return chunks.length > 0 || over || !page.wait ? { chunks, over } : undefined;
    });
  }

  #stop(job: StoredJob | undefined, reason: string, isAbandoned: boolean): StopResult {
    if (job === undefined) return { found: false, changed: false, status: null };
    job.isAbandoned ||= isAbandoned;
    const changed = job.reply === undefined;
    if (this.#ignoringCancel.has(job.request.key.instanceId)) {
      return { found: true, changed, status: 'canceling' };
    }
    job.reply ??= { kind: 'error', error: new CanceledError(reason, 'cancel') };
    this.#notify();
    return { found: true, changed, status: 'canceled' };
  }

  #move(session: SessionInfo, state: SessionInfo['state']): SessionInfo {
    const moved = { ...session, state };
    this.sessions.set(session.id, moved);
    this.#notify();
    return moved;
  }

  #jobsOf(sessionId: string): readonly StoredJob[] {
    return [...this.jobs.values()].filter(({ request }) => request.key.sessionId === sessionId);
  }

  #job(id: string): StoredJob {
    const job = this.jobs.get(id);
    if (job === undefined) throw new Error(`${id} was not sent.`);
    return job;
  }

  #find({ instanceId, incarnation }: JobKey): StoredJob | undefined {
    const job = this.jobs.get(instanceId);
    return job?.request.key.incarnation === incarnation ? job : undefined;
  }

  async #call<Value>(method: Method, what: string, act: () => Value): Promise<Value> {
    this.calls.push(`${method} ${what}`);
    await Promise.resolve();
    const place = this.#faults.findIndex((fault) => fault.method === method);
    const fault = place < 0 ? undefined : this.#faults.splice(place, 1)[0];
    if (fault?.when === 'before') throw connectionBroken(method);
    const value = act();
    await this.#held.get(method)?.promise;
    if (fault?.when === 'after') throw connectionBroken(method);
    return value;
  }

  async #until<Value>(signal: AbortSignal, query: () => Value | undefined): Promise<Value> {
    this.waiting += 1;
    const aborted = Promise.withResolvers<never>();
    aborted.promise.catch(() => undefined);
    const abort = (): void => aborted.reject(signal.reason);
    signal.addEventListener('abort', abort);
    try {
      for (;;) {
        signal.throwIfAborted();
        const value = query();
        if (value !== undefined) return value;
        await Promise.race([this.#changed.promise, aborted.promise]);
      }
    } finally {
      this.waiting -= 1;
      signal.removeEventListener('abort', abort);
    }
  }

  #notify(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers<void>();
    resolve();
  }
}

function connectionBroken(operation: string): ProviderError {
  return new ProviderError({ operation, message: 'the connection broke', retryable: true });
}
