import { randomToken, timeOrderedId } from '../model/values/random-id.ts';
import type { MiddlewareChain } from '../model/middleware.ts';
import { beginCall, sendJob, type CallTelemetry } from '../client/starting/traced-call.ts';
import type { JobBackend, JobRequest } from './backend.ts';
import { Job } from './job.ts';
import { readJob, type ReadJob, type Submitter } from './job-request.ts';
import type { JobRun } from './job-run.ts';
import { LiveSession } from './live-session.ts';
import { Session, Sessions } from './sessions.ts';
import { readSessionOptions, type ChosenSession, type OpenSessionOptions } from './session-info.ts';

export interface AttachedWorkParams {
  readonly backend: JobBackend;
  readonly payloadLimitBytes: number;
  /** Throws if the client must not be used. */
  readonly assertOpen: () => void;
  readonly telemetry?: CallTelemetry | undefined;
  readonly middleware?: MiddlewareChain | undefined;
}

/** The jobs and sessions of a client. */
export class AttachedWork implements Submitter {
  readonly sessions: Sessions;
  readonly #params: AttachedWorkParams;
  readonly #lifetime = new AbortController();
  readonly #live = new Set<LiveSession>();
  #closed: Error | undefined;
  /** The session of jobs submitted with `client.submit`. */
  #own: LiveSession | undefined;

  constructor(params: AttachedWorkParams) {
    this.#params = params;
    const { backend } = params;
    const assertOpen = () => this.#assertOpen();
    this.sessions = new Sessions({ backend, assertOpen, lifetime: this.#lifetime.signal });
  }

  submit(definition: unknown, ...args: readonly unknown[]): Job<never> {
    this.#assertOpen();
    return this.#submitTo(this.#ownSession(), definition, args);
  }

  async openSession(options?: OpenSessionOptions): Promise<Session> {
    this.#assertOpen();
    const live = this.#begin(readSessionOptions(options), false);
    await live.open();
    const submit = (definition: unknown, ...args: readonly unknown[]): Job<never> => {
      this.#assertOpen();
      return this.#submitTo(live, definition, args);
    };
    return new Session(live, submit);
  }

  /** Closes all sessions: their jobs reject with this error and are canceled. Idempotent. */
  async close(reason: Error): Promise<void> {
    this.#closed ??= reason;
    const leaving = [...this.#live].map((live) => live.leave(reason));
    this.#lifetime.abort(reason);
    await Promise.all(leaving);
  }

  #assertOpen(): void {
    this.#params.assertOpen();
    if (this.#closed !== undefined) throw this.#closed;
  }

  #submitTo(live: LiveSession, definition: unknown, args: readonly unknown[]): Job<never> {
    const { backend, payloadLimitBytes } = this.#params;
    const context = { sessionId: live.id, nowMs: backend.clock.now(), payloadLimitBytes };
    const { request, checked } = readJob(definition, args, context);
    const { telemetry } = this.#params;
    if (telemetry === undefined) return new Job(this.#add(live, { request, checked }), live);
    const span = beginCall(telemetry, toCall(request));
    const traced = { ...request, trace: span.trace };
    const run = this.#add(live, { request: traced, checked });
    if (span.end !== undefined) void run.stored().then(() => span.end?.());
    return new Job(run, live);
  }

  /** Adds a job to its session. With middleware, it is sent once the middleware calls `next()`. */
  #add(live: LiveSession, { request, checked }: ReadJob): JobRun {
    const { middleware } = this.#params;
    if (middleware === undefined || middleware.isEmpty('client')) return live.add(request, checked);
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => undefined);
    const run = live.add(request, ready.promise);
    const send = async (): Promise<void> => {
      ready.resolve();
      await run.submitted();
    };
    const around = async (): Promise<void> => {
      try {
        await checked;
        if (!run.isOver) await sendJob(middleware, toCall(request), send);
      } catch (error) {
        ready.reject(error);
        run.fail(error as Error);
      }
    };
    void around();
    return run;
  }

  #ownSession(): LiveSession {
    if (this.#own === undefined || this.#own.isClosed) {
      this.#own = this.#begin(readSessionOptions(undefined), true);
      // Its jobs reject with the error.
      this.#own.open().catch(() => undefined);
    }
    return this.#own;
  }

  #begin({ maxInFlight, ...chosen }: ChosenSession, leavesWhenIdle: boolean): LiveSession {
    const { backend } = this.#params;
    const sessionId = `${timeOrderedId(backend.clock.now())}${randomToken()}`;
    const live = new LiveSession({
      backend,
      request: { ...chosen, sessionId, owner: null },
      maxInFlight,
      leavesWhenIdle,
      onOver: (over) => this.#live.delete(over),
    });
    this.#live.add(live);
    return live;
  }
}

function toCall({ name, key }: JobRequest) {
  return { kind: 'start', name, instanceId: key.instanceId } as const;
}
