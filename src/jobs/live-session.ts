import { isPerdureError } from '../model/failures/errors.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import type { JobBackend, JobRequest, SessionRequest } from './backend.ts';
import { canceledUnsent, sessionClosed, sessionDowngrade, sessionNotFound } from './job-errors.ts';
import { JobRun, type JobHost } from './job-run.ts';
import { pause, retrying } from './retrying.ts';
import { SendQueue } from './send-queue.ts';
import type { SessionInfo, ShutdownMode } from './session-info.ts';

export interface LiveSessionParams {
  readonly backend: JobBackend;
  readonly request: SessionRequest;
  readonly maxInFlight: number;
  /** End the session when it is idle: it has no handle that could end it. */
  readonly leavesWhenIdle?: boolean;
  /** Called when the session has ended or was left. */
  readonly onOver?: (session: LiveSession) => void;
}

// If the shutdown request fails for this long, the session ends when its lease expires.
const goodbyeMs = 3_000;

/**
 * The lifecycle of one session of this client.
 *
 * S1. New jobs are rejected once this client shuts the session down, or learns that another one did.
 * S2. A graceful shutdown is stored after all jobs that were submitted before it.
 * S3. A forceful shutdown does not wait for jobs. Unsent jobs are never sent.
 * S4. After `leave` it makes no calls except the shutdown request, and its calls reject.
 * S5. After it has ended or was left, it has no timer.
 * S6. A forceful shutdown is sent after the store knows which replies were taken. Otherwise a worker would pass them to
 *     `onAbandoned`.
 */
export class LiveSession implements JobHost {
  readonly id: string;
  readonly label: string | undefined;
  readonly backend: JobBackend;
  readonly #request: SessionRequest;
  readonly #queue: SendQueue;
  readonly #lifetime = new AbortController();
  readonly #leavesWhenIdle: boolean;
  readonly #onOver: (session: LiveSession) => void;
  /** Validations of inputs that are running. */
  readonly #checking = new Set<Promise<void>>();
  /** Requests that mark replies as taken in the store. */
  readonly #taking = new Set<Promise<void>>();
  /** Number of replies that were neither taken nor given up, plus open streams. */
  #wanted = 0;
  #keepAlive: KeepAlive | undefined;
  #opening: Promise<SessionInfo> | undefined;
  /** Only advances, in the order of `order`. */
  #state: 'open' | 'draining' | 'closing' | 'ended' = 'open';
  #leaving: Promise<void> | undefined;
  #gone: Error | undefined;
  /** Whether the session has variables, as far as this client knows. */
  #hasVariables: boolean;

  constructor(params: LiveSessionParams) {
    const { backend, request, maxInFlight } = params;
    this.#leavesWhenIdle = params.leavesWhenIdle ?? false;
    this.#onOver = params.onOver ?? (() => undefined);
    this.id = request.sessionId;
    this.label = request.label ?? undefined;
    this.backend = backend;
    this.#request = request;
    this.#hasVariables = Object.keys(request.variables).length > 0;
    this.#queue = new SendQueue(maxInFlight);
  }

  get gone(): Error | undefined {
    return this.#gone;
  }

  get lifetime(): AbortSignal {
    return this.#lifetime.signal;
  }

  /** Whether it rejects new jobs. */
  get isClosed(): boolean {
    return this.#state !== 'open';
  }

  /** Opens the session in the store, once. Jobs may be added before. */
  open(): Promise<SessionInfo> {
    this.#opening ??= this.#open();
    return this.#opening;
  }

  add(request: JobRequest, ready: Promise<void> | undefined): JobRun {
    const job = this.#hasVariables ? { ...request, hasVariables: true } : request;
    const run = new JobRun(job, this);
    this.wanted();
    if (this.isClosed) run.refuse(sessionClosed(this.id, this.#state));
    else if (ready === undefined) this.#queue.add(run);
    else this.#addWhenReady(run, ready);
    return run;
  }

  retry<Value>(call: () => Promise<Value>): Promise<Value> {
    if (this.#gone !== undefined) return Promise.reject(this.#gone);
    return retrying({ signal: this.lifetime }, call);
  }

  refused(): void {
    this.#onState('draining');
  }

  withdraw(run: JobRun): void {
    this.#queue.withdraw(run);
  }

  wanted(): void {
    this.#wanted += 1;
  }

  settled(): void {
    this.#wanted -= 1;
  }

  sendTaken(key: JobKey): void {
    const settle = (): void => void this.#taking.delete(taking);
    // If this fails, the row is deleted with its session.
    const taking = this.retry(() => this.backend.take(key)).then(settle, settle);
    this.#taking.add(taking);
  }

  /** Resolves when the session has ended. */
  async shutdown(mode: ShutdownMode): Promise<void> {
    if (this.#gone !== undefined) throw this.#gone;
    if (mode === 'graceful') await this.#drain();
    else await this.#force();
    await this.retry(() => this.backend.waitForEnd(this.id, this.lifetime));
    if (this.#gone === undefined) this.#onState('ended');
  }

  /** Shuts the session down forcefully and gives up all its jobs with this error. */
  leave(error: Error): Promise<void> {
    this.#leaving ??= this.#leave(error);
    return this.#leaving;
  }

  async info(): Promise<SessionInfo> {
    const session = await this.retry(() => this.backend.getSession(this.id));
    if (session === undefined) throw sessionNotFound(this.id);
    return session;
  }

  async setVariables(set: Readonly<Record<string, string | null>>): Promise<SessionInfo> {
    const session = await this.retry(() => this.backend.setVariables(this.id, set));
    this.#onVariables(session);
    return session;
  }

  #onVariables({ variables, variablesHidden }: SessionInfo): void {
    this.#hasVariables = variablesHidden === true || Object.keys(variables).length > 0;
  }

  async #open(): Promise<SessionInfo> {
    const { backend } = this;
    try {
      const session = await this.retry(() => backend.openSession(this.#request));
      this.#onVariables(session);
      if (this.#gone === undefined) this.#begin();
      return session;
    } catch (error) {
      this.#onState('ended', error as Error);
      throw error;
    }
  }

  #begin(): void {
    const { backend, id: sessionId } = this;
    const { idleTimeoutMs } = this.#request;
    const onRenewed = (session: SessionInfo | undefined): void => {
      if (session !== undefined) this.#onVariables(session);
      if (session?.state !== 'open') this.#onState(session?.state ?? 'ended');
      else if (this.#leavesWhenIdle && this.#isIdle) this.#retire();
    };
    this.#keepAlive = new KeepAlive({ backend, sessionId, idleTimeoutMs, onRenewed });
    this.#queue.open();
  }

  get #isIdle(): boolean {
    return this.#queue.isEmpty && this.#wanted === 0;
  }

  #addWhenReady(run: JobRun, ready: Promise<void>): void {
    this.#checking.add(ready);
    const add = (): void => {
      this.#checking.delete(ready);
      if (run.isOver) return;
      if (this.#state === 'closing' || this.#state === 'ended') {
        run.refuse(this.#gone ?? sessionClosed(this.id, this.#state));
      } else {
        this.#queue.add(run);
      }
    };
    const refuse = (error: unknown): void => {
      this.#checking.delete(ready);
      run.refuse(error as Error);
    };
    ready.then(add, refuse);
  }

  /** Advances the state. Rejects unsent jobs: the store would reject them. */
  #onState(state: 'draining' | 'closing' | 'ended', reason?: Error): void {
    if (order.indexOf(state) <= order.indexOf(this.#state)) return;
    this.#state = state;
    if (state === 'ended') this.#stop();
    for (const run of this.#queue.takeUnsent()) run.refuse(reason ?? sessionClosed(this.id, state));
  }

  #stop(): void {
    this.#keepAlive?.stop();
    this.#onOver(this);
  }

  async #drain(): Promise<void> {
    if (this.#state === 'closing') throw sessionDowngrade(this.id);
    if (this.#state === 'open') this.#state = 'draining';
    await this.#opening;
    await Promise.allSettled(this.#checking);
    await this.#queue.allSent();
    if (this.#state !== 'draining') return;
    try {
      await this.#store('graceful');
    } catch (error) {
      // A forceful shutdown of this client may have overtaken it.
      const isOvertaken = isPerdureError(error, 'SESSION_DOWNGRADE') && this.#hasForced;
      if (!isOvertaken) throw error;
    }
  }

  #hasForced = false;

  async #force(): Promise<void> {
    if (this.#state === 'ended') return;
    this.#hasForced = true;
    this.#state = 'closing';
    for (const run of this.#queue.takeUnsent()) {
      run.refuse(canceledUnsent('its session was shut down'));
    }
    for (const run of this.#queue.runs()) run.force();
    await this.#opening;
    await Promise.all(this.#taking);
    await this.#store('forceful');
  }

  async #store(mode: ShutdownMode): Promise<void> {
    const { id: sessionId, backend } = this;
    await this.retry(() => backend.shutdown({ sessionId, mode, leaving: false }));
  }

  async #leave(error: Error): Promise<void> {
    const hasEnded = this.#state === 'ended';
    this.#state = 'ended';
    this.#gone = error;
    this.#stop();
    for (const run of this.#queue.takeUnsent()) run.leave();
    for (const run of this.#queue.runs()) run.leave();
    const opening = this.#opening;
    this.#lifetime.abort(error);
    if (hasEnded || opening === undefined) return;
    await this.#sendGoodbye(opening);
  }

  /** Ends an idle session. Its jobs were not given up, so their status can still be read. */
  #retire(): void {
    this.#onState('ended');
    void this.#sendGoodbye(this.open());
  }

  async #sendGoodbye(opening: Promise<unknown>): Promise<void> {
    const { id: sessionId, backend } = this;
    const late = new AbortController();
    const sent = Promise.allSettled([opening, ...this.#taking])
      .then(() => {
        const goodbye = { sessionId, mode: 'forceful', leaving: true } as const;
        return retrying({ signal: late.signal }, () => backend.shutdown(goodbye));
      })
      // The session ends when its lease expires.
      .catch(() => undefined);
    const timeout = pause({ signal: late.signal }, goodbyeMs);
    await Promise.race([sent, timeout]);
    late.abort();
  }
}

const order: readonly string[] = ['open', 'draining', 'closing', 'ended'];

export interface KeepAliveParams {
  readonly backend: JobBackend;
  readonly sessionId: string;
  readonly idleTimeoutMs: number;
  /** Called with the session after each renewal; `undefined` if it does not exist. */
  readonly onRenewed: (session: SessionInfo | undefined) => void;
}

/** Renews the lease of a session every third of it, until stopped. */
export class KeepAlive {
  readonly #params: KeepAliveParams;
  readonly #stopped = new AbortController();
  #cancelTimer: (() => void) | undefined;

  constructor(params: KeepAliveParams) {
    this.#params = params;
    this.#setTimer();
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelTimer?.();
  }

  #setTimer(): void {
    const { backend, idleTimeoutMs } = this.#params;
    const { clock } = backend;
    this.#cancelTimer = clock.setTimer(Math.floor(idleTimeoutMs / 3), () => {
      void this.#renew();
    });
  }

  async #renew(): Promise<void> {
    const { backend, sessionId, onRenewed } = this.#params;
    const { signal } = this.#stopped;
    try {
      const session = await retrying({ signal }, () => backend.keepAlive(sessionId));
      if (!signal.aborted) onRenewed(session);
    } catch {
      // A final error also rejects other calls of the session. The next renewal may succeed.
    }
    if (!signal.aborted) this.#setTimer();
  }
}
