import { isPerdureError } from '../model/failures/errors.ts';
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
  /** Leave once it was idle for a while: nobody holds it, so nobody else will end it. */
  readonly leavesWhenIdle?: boolean;
  /** It has ended or gone. */
  readonly onOver?: (session: LiveSession) => void;
}

// A goodbye that does not get through in this time is left to the end of the lease.
const goodbyeMs = 3_000;

/**
 * The life of one session of this client.
 *
 * S1. New jobs are refused from the moment at which its end was asked for here, or was found to have been asked for
 *     elsewhere.
 * S2. A graceful shutdown is stored only after all jobs that were submitted before it: they are not new.
 * S3. A forceful one is stored at once. What was not sent is never sent.
 * S4. After its goodbye nothing of it is asked of the store, and it answers nothing.
 * S5. When it has ended or gone, no timer is left.
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
  /** Inputs that are being checked. */
  readonly #checking = new Set<Promise<void>>();
  /** How many replies somebody may want, and how many streams somebody reads. */
  #wanted = 0;
  #keepAlive: KeepAlive | undefined;
  #opening: Promise<SessionInfo> | undefined;
  /** What it can still become; only ever goes forward. */
  #state: 'open' | 'draining' | 'closing' | 'ended' = 'open';
  #leaving: Promise<void> | undefined;
  #gone: Error | undefined;

  constructor(params: LiveSessionParams) {
    const { backend, request, maxInFlight } = params;
    this.#leavesWhenIdle = params.leavesWhenIdle ?? false;
    this.#onOver = params.onOver ?? (() => undefined);
    this.id = request.sessionId;
    this.label = request.label ?? undefined;
    this.backend = backend;
    this.#request = request;
    this.#queue = new SendQueue(maxInFlight);
  }

  get gone(): Error | undefined {
    return this.#gone;
  }

  get lifetime(): AbortSignal {
    return this.#lifetime.signal;
  }

  /** Whether it takes no more jobs. */
  get isClosed(): boolean {
    return this.#state !== 'open';
  }

  /** Opens it in the store, once; jobs may be added before. */
  open(): Promise<SessionInfo> {
    this.#opening ??= this.#open();
    return this.#opening;
  }

  add(request: JobRequest, ready: Promise<void> | undefined): JobRun {
    const run = new JobRun(request, this);
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

  /** Resolves when it has ended. */
  async shutdown(mode: ShutdownMode): Promise<void> {
    if (this.#gone !== undefined) throw this.#gone;
    if (mode === 'graceful') await this.#drain();
    else await this.#force();
    await this.retry(() => this.backend.waitForEnd(this.id, this.lifetime));
    if (this.#gone === undefined) this.#onState('ended');
  }

  /** Says goodbye, which ends it forcefully, and gives up all its jobs with this error. */
  leave(error: Error): Promise<void> {
    this.#leaving ??= this.#leave(error);
    return this.#leaving;
  }

  async info(): Promise<SessionInfo> {
    const session = await this.retry(() => this.backend.getSession(this.id));
    if (session === undefined) throw sessionNotFound(this.id);
    return session;
  }

  setVariables(set: Readonly<Record<string, string | null>>): Promise<SessionInfo> {
    return this.retry(() => this.backend.setVariables(this.id, set));
  }

  async #open(): Promise<SessionInfo> {
    const { backend } = this;
    try {
      const session = await this.retry(() => backend.openSession(this.#request));
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

  /** Goes forward, never back. What was not sent has no chance where others asked for the end. */
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
      // Our own upgrade may have overtaken it.
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
    await this.#sayGoodbye(opening);
  }

  /** Ends it for want of anything to do. Nobody gave up its jobs, so what became of them can still be read. */
  #retire(): void {
    this.#onState('ended');
    void this.#sayGoodbye(this.open());
  }

  async #sayGoodbye(opening: Promise<unknown>): Promise<void> {
    const { id: sessionId, backend } = this;
    const late = new AbortController();
    const tell = opening
      .catch(() => undefined)
      .then(() => {
        const goodbye = { sessionId, mode: 'forceful', leaving: true } as const;
        return retrying({ signal: late.signal }, () => backend.shutdown(goodbye));
      })
      // The end of the lease does the same, later.
      .catch(() => undefined);
    const timeout = pause({ signal: late.signal }, goodbyeMs);
    await Promise.race([tell, timeout]);
    late.abort();
  }
}

const order: readonly string[] = ['open', 'draining', 'closing', 'ended'];

export interface KeepAliveParams {
  readonly backend: JobBackend;
  readonly sessionId: string;
  readonly idleTimeoutMs: number;
  /** What was found of the session at each renewal; `undefined`: it is no more. */
  readonly onRenewed: (session: SessionInfo | undefined) => void;
}

/** Renews the lease of a session at a third of it, until stopped. */
export class KeepAlive {
  readonly #params: KeepAliveParams;
  readonly #stopped = new AbortController();
  #cancelAlarm: (() => void) | undefined;

  constructor(params: KeepAliveParams) {
    this.#params = params;
    this.#setAlarm();
  }

  stop(): void {
    this.#stopped.abort();
    this.#cancelAlarm?.();
  }

  #setAlarm(): void {
    const { backend, idleTimeoutMs } = this.#params;
    const { clock } = backend;
    this.#cancelAlarm = clock.setTimer(Math.floor(idleTimeoutMs / 3), () => {
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
      // Whatever cannot be mended by a repeat is told to whoever asks something of the session; it may yet pass.
    }
    if (!signal.aborted) this.#setAlarm();
  }
}
