import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { decodePayload } from '../model/values/payload.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import type { JobBackend, JobReply, JobRequest, JobStop } from './backend.ts';
import { canceledUnsent, jobClosed, resultTimedOut, sessionClosed } from './job-errors.ts';

/** The calls that a job makes on its session. */
export interface JobHost {
  readonly backend: JobBackend;
  /** Retries a call while its error is retryable. */
  retry<Value>(call: () => Promise<Value>): Promise<Value>;
  /** Keeps the session alive for a reply or a stream, until `settled()`. */
  wanted(): void;
  /** Ends what `wanted()` began: the reply was taken or given up, or the stream was closed. */
  settled(): void;
  /** The store rejected a job because its session is closed. */
  refused(): void;
  /** Tells the store that a reply was taken, before any shutdown request of the session. */
  sendTaken(key: JobKey): void;
  /** Removes an unsent job from the queue. */
  withdraw(run: JobRun): void;
  /** Aborts when the session is left. */
  readonly lifetime: AbortSignal;
  /** The error of calls after the session was left. */
  readonly gone: Error | undefined;
}

interface Waiter {
  readonly resolve: (reply: JobReply) => void;
  readonly reject: (error: Error) => void;
  cancelTimer: (() => void) | undefined;
}

const closedByCaller: JobStop = {
  reason: 'closed by its caller',
  actor: null,
  cleanupMs: 300_000,
};

// An abort reason that no caller sees. Not an error: its stack would be costly when thousands of jobs are closed.
const replyGivenUp = Symbol('reply given up');

/** The progress of a job: `over` once it has its reply, sent or not. */
type Phase = 'unsent' | 'sending' | 'sent' | 'over';

/**
 * The lifecycle of one job, from its submission until its reply is taken or given up.
 *
 * J1. A job has exactly one reply. It is set once, and every `result()` settles with it.
 * J2. A reply is either taken or given up, whichever comes first. Only a taken reply is delivered.
 * J3. A job that was given up is abandoned in the store after its submission has settled, so that the submission cannot
 *     overtake the cancel. An unsent job is not abandoned.
 * J4. `close()` never waits and never throws. It finishes in the background.
 * J5. Every request carries the id and the incarnation, so it affects only this run.
 */
export class JobRun {
  readonly request: JobRequest;
  readonly #host: JobHost;
  readonly #waiters = new Set<Waiter>();
  readonly #unwanted = new AbortController();
  /** Resolves once the submission has settled, or will never be made. */
  readonly #submitted = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #createdAt: number;
  #phase: Phase = 'unsent';
  #reply: JobReply | undefined;
  #fate: 'wanted' | 'taken' | 'givenUp' = 'wanted';
  #isClosed = false;
  /** Whether the store has the run. */
  #isStored = false;
  #isForced = false;
  /** Its output is left to the `onAbandoned` hook. */
  #isWithheld = false;
  #abandoning: Promise<void> | undefined;
  #stopListening: (() => void) | undefined;
  #holds = 0;

  constructor(request: JobRequest, host: JobHost) {
    this.request = request;
    this.#host = host;
    this.#createdAt = host.backend.clock.now();
  }

  get key(): JobKey {
    return this.request.key;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether its submission is running. */
  get isSending(): boolean {
    return this.#phase === 'sending';
  }

  get isOver(): boolean {
    return this.#phase === 'over';
  }

  /** Aborts once the reply is given up. */
  get unwanted(): AbortSignal {
    return this.#unwanted.signal;
  }

  /** Resolves with whether the store has the run, once its submission has settled. */
  async stored(): Promise<boolean> {
    await this.#submitted.promise;
    return this.#isStored;
  }

  /** Resolves once the store has the run. Rejects with the error of the submission. */
  async submitted(): Promise<void> {
    const isStored = await this.stored();
    if (!isStored && this.#reply?.kind === 'error') throw this.#reply.error;
  }

  /** Submits the job; resolves once it has ended or was given up. */
  async send(): Promise<void> {
    if (this.#phase !== 'unsent') return;
    const { backend } = this.#host;
    this.#phase = 'sending';
    try {
      let { request } = this;
      await this.#host.retry(() => {
        const attempt = backend.submit(request);
        request = { ...this.request, isRepeat: true };
        return attempt;
      });
    } catch (error) {
      if (isPerdureError(error, 'SESSION_CLOSED')) this.#host.refused();
      this.#end({ kind: 'error', error: error as Error });
      return;
    }
    this.#isStored = true;
    this.#phase = 'sent';
    this.#submitted.resolve();
    if (this.#fate === 'wanted') await this.#listen();
    if (this.#fate === 'givenUp') await this.#abandon();
  }

  /** Rejects an unsent job. */
  refuse(error: Error): void {
    if (this.#phase !== 'unsent') return;
    this.#end({ kind: 'error', error });
  }

  /** The middleware of its submission failed: rejects the reply, and abandons a stored run that has not ended. */
  fail(error: Error): void {
    this.refuse(error);
    if (this.#phase !== 'sent' || this.#fate !== 'wanted') return;
    this.#fate = 'givenUp';
    this.#host.settled();
    this.#reply = { kind: 'error', error };
    for (const waiter of this.#waiters) this.#deliver(waiter, this.#reply);
    this.#waiters.clear();
    this.#unwanted.abort(replyGivenUp);
    void this.#abandon();
  }

  /** Marks that its session stops it. */
  force(): void {
    this.#isForced = true;
  }

  /** Gives up the reply because its session was left. */
  leave(): void {
    if (this.#fate !== 'wanted') return;
    this.#giveUp();
    this.#stopListening?.();
    if (this.#phase === 'unsent') this.#end({ kind: 'error', error: this.#goneError() });
  }

  async result(timeoutMs: number | undefined): Promise<unknown> {
    const reply = await this.#take(timeoutMs);
    if (reply.kind === 'error') throw reply.error;
    return decodePayload(reply.output);
  }

  /** Keeps the chunks in the store while they are read; returns a function that releases them. */
  hold(): () => void {
    this.#holds += 1;
    this.#host.wanted();
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#holds -= 1;
      this.#host.settled();
      this.#sendTaken();
    };
  }

  /** Resolves with the error of the job and takes the reply; `undefined` if the job completed. */
  async takeError(): Promise<Error | undefined> {
    await this.#ended.promise;
    if (this.#reply?.kind !== 'error') return undefined;
    this.#markTaken();
    return this.#reply.error;
  }

  async cancel(stop: JobStop, waits: boolean): Promise<StopResult> {
    if (this.#phase === 'unsent') {
      this.#host.withdraw(this);
      this.#end({ kind: 'error', error: canceledUnsent(stop.reason) });
      return { found: true, changed: true, status: 'canceled' };
    }
    const { backend } = this.#host;
    if (!(await this.stored())) return this.#unstoredStop();
    const result = await this.#host.retry(() => backend.cancel(this.key, stop));
    if (!waits || !result.found) return result;
    const { lifetime } = this.#host;
    if (this.#reply === undefined) await this.#host.retry(() => backend.wait(this.key, lifetime));
    try {
      return { ...result, status: (await this.status()).status };
    } catch (error) {
      // Deleted during the wait, so it has stopped.
      if (isPerdureError(error, 'INSTANCE_NOT_FOUND')) return { ...result, status: null };
      throw error;
    }
  }

  async status(): Promise<InstanceInfo> {
    if (!this.#isStored && (this.#phase !== 'over' || this.#wasCanceledUnsent)) {
      const { key, kind, name } = this.request;
      const status = this.#phase === 'over' ? 'canceled' : 'pending';
      return { id: key.instanceId, kind, name, status, executionId: 1, createdAt: this.#createdAt };
    }
    return this.#host.retry(() => this.#host.backend.status(this.key));
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#phase === 'unsent') {
      this.#host.withdraw(this);
      this.#end({ kind: 'error', error: canceledUnsent('closed before it was sent') });
    }
    if (this.#fate !== 'wanted') return;
    this.#giveUp();
    // Otherwise `send` abandons it once the submission has settled.
    if (this.#isStored) void this.#abandon();
  }

  get #wasCanceledUnsent(): boolean {
    return this.#reply?.kind === 'error' && isPerdureError(this.#reply.error, 'OPERATION_CANCELED');
  }

  #unstoredStop(): StopResult {
    if (!this.#wasCanceledUnsent) return { found: false, changed: false, status: null };
    return { found: true, changed: false, status: 'canceled' };
  }

  /** Waits for the reply. */
  async #listen(): Promise<void> {
    const { backend } = this.#host;
    const { signal, abort } = newListening();
    this.#stopListening = abort;
    let reply: JobReply;
    try {
      reply = await this.#host.retry(() => backend.wait(this.key, signal));
      const mayBeDisposedOf = reply.kind === 'completed' && this.request.disposable;
      if (mayBeDisposedOf && (await this.#isStopped())) this.force();
    } catch (error) {
      reply = { kind: 'error', error: error as Error };
    }
    if (this.#fate === 'givenUp') this.#finish();
    else this.#end(reply);
  }

  /** Whether another client shut the session down forcefully, or its lease expired. */
  async #isStopped(): Promise<boolean> {
    const { backend } = this.#host;
    const session = await this.#host.retry(() => backend.getSession(this.key.sessionId));
    if (session === undefined || session.state === 'closing') return true;
    return session.end === 'expired' || session.end === 'goodbye';
  }

  #end(reply: JobReply): void {
    this.#reply = this.#deliverable(reply);
    this.#finish();
    for (const waiter of this.#waiters) this.#deliver(waiter, this.#reply);
    this.#waiters.clear();
  }

  #finish(): void {
    this.#phase = 'over';
    this.#submitted.resolve();
    this.#ended.resolve();
  }

  // The session was stopped, so a worker passes the output to `onAbandoned`; the caller must not use it.
  #deliverable(reply: JobReply): JobReply {
    if (!this.#isForced || !this.request.disposable || reply.kind === 'error') return reply;
    this.#isWithheld = true;
    return { kind: 'error', error: sessionClosed(this.key.sessionId, 'closing') };
  }

  #deliver(waiter: Waiter, reply: JobReply): void {
    waiter.cancelTimer?.();
    this.#markTaken();
    waiter.resolve(reply);
  }

  #take(timeoutMs: number | undefined): Promise<JobReply> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { resolve, reject, cancelTimer: undefined };
      const refusal = this.#refusal();
      if (refusal !== undefined) return reject(refusal);
      if (this.#reply !== undefined) return this.#deliver(waiter, this.#reply);
      this.#waiters.add(waiter);
      if (timeoutMs === undefined) return;
      const { clock } = this.#host.backend;
      waiter.cancelTimer = clock.setTimer(timeoutMs, () => {
        this.#waiters.delete(waiter);
        reject(resultTimedOut(this.key.instanceId, timeoutMs));
      });
    });
  }

  /** Returns why the reply is unavailable. The reply of an unsent job stays available. */
  #refusal(): Error | undefined {
    if (this.#reply !== undefined && !this.#isStored) return undefined;
    if (this.#isClosed) return jobClosed(this.key.instanceId);
    return this.#fate === 'taken' ? undefined : this.#host.gone;
  }

  #markTaken(): void {
    if (this.#fate !== 'wanted') return;
    this.#fate = 'taken';
    this.#host.settled();
    this.#sendTaken();
  }

  #sendTaken(): void {
    if (this.#fate !== 'taken' || !this.#isStored || this.#isWithheld || this.#holds > 0) return;
    this.#host.sendTaken(this.key);
  }

  #giveUp(): void {
    this.#fate = 'givenUp';
    this.#host.settled();
    for (const waiter of this.#waiters) {
      waiter.cancelTimer?.();
      waiter.reject(this.#goneError());
    }
    this.#waiters.clear();
    this.#unwanted.abort(replyGivenUp);
  }

  #goneError(): Error {
    return this.#host.gone ?? jobClosed(this.key.instanceId);
  }

  /**
   * Abandons the job in the store once, then stops waiting for the reply. In this order, because the cancels of thousands
   * of closed jobs must not wait for their aborted waits. A final error means that the session has ended.
   */
  #abandon(): Promise<void> {
    if (this.#host.gone !== undefined) return Promise.resolve();
    const stopListening = (): void => this.#stopListening?.();
    this.#abandoning ??= this.#host
      .retry(() => this.#host.backend.abandon(this.key, closedByCaller))
      .then(stopListening, stopListening);
    return this.#abandoning;
  }
}

function newListening(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(replyGivenUp) };
}
