import type { InstanceInfo } from '../client/reading/instance-info.ts';
import { isPerdureError } from '../model/failures/errors.ts';
import { decodePayload } from '../model/values/payload.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { JobKey } from '../providers/contract/sessions.ts';
import type { JobBackend, JobReply, JobRequest, JobStop } from './backend.ts';
import { canceledUnsent, jobClosed, resultTimedOut, sessionClosed } from './job-errors.ts';

/** What a job asks of its session. */
export interface JobHost {
  readonly backend: JobBackend;
  /** Makes a call again while that may help. */
  retry<Value>(call: () => Promise<Value>): Promise<Value>;
  /** Something of a job is going to be read that its session is needed for; `settled()` says when that is over. */
  wanted(): void;
  /** A job has been answered or given up: nothing will be asked of it that its session is needed for. */
  settled(): void;
  /** The store takes no more jobs of this session. */
  refused(): void;
  /** Takes a job that was not sent out of the queue. */
  withdraw(run: JobRun): void;
  /** Aborts when nothing can be asked of its jobs any more. */
  readonly lifetime: AbortSignal;
  /** Why that is. */
  readonly gone: Error | undefined;
}

interface Waiter {
  readonly resolve: (reply: JobReply) => void;
  readonly reject: (error: Error) => void;
  cancelAlarm: (() => void) | undefined;
}

const closedByCaller: JobStop = {
  reason: 'closed by its caller',
  actor: null,
  cleanupMs: 300_000,
};

// Nobody sees it, and a job must not have to make an error with a stack for each of thousands that are closed at once.
const nobodyWantsIt = Symbol('nobody wants the reply');

/** How far a job has come: `over` once it has its reply, whether or not it was ever sent. */
type Phase = 'unsent' | 'sending' | 'sent' | 'over';

/**
 * The life of one job, from its submission to the moment at which nobody wants its reply any more.
 *
 * J1. A job has exactly one reply. It is set once, and every `result()` is answered with it.
 * J2. A reply is either taken or given up, never both: who comes first decides, and only the taking delivers it.
 * J3. What was given up is abandoned in the store, exactly when the store may know of it: never before its submission
 *     is settled, so that no submission can overtake its own cancel; not at all when it was never sent.
 * J4. `close()` never waits and never throws. What it leaves to do is done in the background.
 * J5. Every request names the id and the incarnation, so it can only concern this run.
 */
export class JobRun {
  readonly request: JobRequest;
  readonly #host: JobHost;
  readonly #waiters = new Set<Waiter>();
  readonly #unwanted = new AbortController();
  /** Settled once the store has answered the submission, or will never be asked. */
  readonly #submitted = Promise.withResolvers<void>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #createdAt: number;
  #phase: Phase = 'unsent';
  #reply: JobReply | undefined;
  #fate: 'wanted' | 'taken' | 'givenUp' = 'wanted';
  #isClosed = false;
  /** Whether the store has it. */
  #isStored = false;
  #isForced = false;
  /** Its output is left to whoever disposes of it. */
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

  /** Whether the store was asked for it and has not answered. */
  get isSending(): boolean {
    return this.#phase === 'sending';
  }

  get isOver(): boolean {
    return this.#phase === 'over';
  }

  /** Aborts once nobody wants anything of it. */
  get unwanted(): AbortSignal {
    return this.#unwanted.signal;
  }

  /** Resolves once the store has it; `false`: it will never have it. */
  async stored(): Promise<boolean> {
    await this.#submitted.promise;
    return this.#isStored;
  }

  /** Sends it and stays with it until it is over or given up. */
  async send(): Promise<void> {
    if (this.#phase !== 'unsent') return;
    const { backend } = this.#host;
    this.#phase = 'sending';
    try {
      await this.#host.retry(() => backend.submit(this.request));
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

  /** Refuses it before it was sent. */
  refuse(error: Error): void {
    if (this.#phase !== 'unsent') return;
    this.#end({ kind: 'error', error });
  }

  /** Its session is going to stop it. */
  force(): void {
    this.#isForced = true;
  }

  /** Its session has gone and has given up all its jobs. */
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

  /** Keeps what belongs to it in the store (its chunks) while they are being read; returns how to let go. */
  hold(): () => void {
    this.#holds += 1;
    this.#host.wanted();
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#holds -= 1;
      this.#host.settled();
      this.#tellTaken();
    };
  }

  /** The error that it ended with, which thereby reaches its caller; `undefined` if it completed. */
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
      // Deleted meanwhile: it has stopped, and there is nothing left to tell of it.
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
    // Otherwise its submission is on the way, and `send` abandons it after that.
    if (this.#isStored) void this.#abandon();
  }

  get #wasCanceledUnsent(): boolean {
    return this.#reply?.kind === 'error' && isPerdureError(this.#reply.error, 'OPERATION_CANCELED');
  }

  #unstoredStop(): StopResult {
    if (!this.#wasCanceledUnsent) return { found: false, changed: false, status: null };
    return { found: true, changed: false, status: 'canceled' };
  }

  /** Waits for the reply of the store. */
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

  /** Whether its session was told elsewhere to stop its jobs, or ended because nobody heard of this client. */
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

  // A worker disposes of it, because the session was told to stop it: what is disposed of must not be used.
  #deliverable(reply: JobReply): JobReply {
    if (!this.#isForced || !this.request.disposable || reply.kind === 'error') return reply;
    this.#isWithheld = true;
    return { kind: 'error', error: sessionClosed(this.key.sessionId, 'closing') };
  }

  #deliver(waiter: Waiter, reply: JobReply): void {
    waiter.cancelAlarm?.();
    this.#markTaken();
    waiter.resolve(reply);
  }

  #take(timeoutMs: number | undefined): Promise<JobReply> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = { resolve, reject, cancelAlarm: undefined };
      const refusal = this.#refusal();
      if (refusal !== undefined) return reject(refusal);
      if (this.#reply !== undefined) return this.#deliver(waiter, this.#reply);
      this.#waiters.add(waiter);
      if (timeoutMs === undefined) return;
      const { clock } = this.#host.backend;
      waiter.cancelAlarm = clock.setTimer(timeoutMs, () => {
        this.#waiters.delete(waiter);
        reject(resultTimedOut(this.key.instanceId, timeoutMs));
      });
    });
  }

  /** Why a reply cannot be had any more; one that never reached the store has it for ever. */
  #refusal(): Error | undefined {
    if (this.#reply !== undefined && !this.#isStored) return undefined;
    if (this.#isClosed) return jobClosed(this.key.instanceId);
    return this.#fate === 'taken' ? undefined : this.#host.gone;
  }

  #markTaken(): void {
    if (this.#fate !== 'wanted') return;
    this.#fate = 'taken';
    this.#host.settled();
    this.#tellTaken();
  }

  #tellTaken(): void {
    if (this.#fate !== 'taken' || !this.#isStored || this.#isWithheld || this.#holds > 0) return;
    // Should this never get through, the row goes with its session.
    this.#host.retry(() => this.#host.backend.take(this.key)).catch(() => undefined);
  }

  #giveUp(): void {
    this.#fate = 'givenUp';
    this.#host.settled();
    for (const waiter of this.#waiters) {
      waiter.cancelAlarm?.();
      waiter.reject(this.#goneError());
    }
    this.#waiters.clear();
    this.#unwanted.abort(nobodyWantsIt);
  }

  #goneError(): Error {
    return this.#host.gone ?? jobClosed(this.key.instanceId);
  }

  /**
   * Tells the store once, and stops to wait for the reply after that: of thousands that are closed at once, the cancels
   * must not wait until all waits are broken off. A failure that no repeat can mend means that its session, and so the
   * job, is at its end.
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
  return { signal: controller.signal, abort: () => controller.abort(nobodyWantsIt) };
}
