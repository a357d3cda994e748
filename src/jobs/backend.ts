/**
 * What jobs and sessions of a client ask of the store: directly where the client is in one process with it, over
 * HTTP where it is not. Here are the rules that every backend keeps.
 *
 * B1. A call that may help when it is made again rejects with a `ProviderError` that is `retryable` or whose
 *     `outcomeUnknown` is set: a broken connection, a busy store. It is then made again with the same ids. Every other rejection is final.
 * B2. Every call may be repeated: what it did the first time is found, not done twice.
 * B3. A call ends soon after its signal has aborted, however it ends; what it answers then is of no interest.
 * B4. `abandon`, `cancel`, `keepAlive` and `shutdown` never wait for other calls to end.
 * B5. Nothing here knows Node: everything of `src/jobs` runs in browsers.
 */
import type { InstanceInfo } from '../client/reading/instance-info.ts';
import type { TaskSettings } from '../client/starting/task-request.ts';
import type { Clock } from '../model/clock.ts';
import type { Payload } from '../model/values/payload.ts';
import type { StopResult } from '../providers/contract/cancellation.ts';
import type { JobKey, SessionState } from '../providers/contract/sessions.ts';
import type { JobPage, SessionInfo, SessionPage, ShutdownMode } from './session-info.ts';

/** A job to be sent: checked and encoded when it was submitted. */
export interface JobRequest {
  readonly key: JobKey;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  /** `null` for a task, and where the worker is to pick its newest. */
  readonly version: string | null;
  readonly payload: Payload | null;
  /** Whether its definition has a hook for a late success that nobody wants any more. */
  readonly disposable: boolean;
  /** `null` for an orchestration. */
  readonly task: TaskSettings | null;
}

/** The one reply of a job: its output, or the typed error that stands for every other end. */
export type JobReply =
  | { readonly kind: 'completed'; readonly output: Payload | null }
  | { readonly kind: 'error'; readonly error: Error };

/** A wish that a job stop. */
export interface JobStop {
  readonly reason: string;
  readonly actor: string | null;
  /** How long its code may clean up. */
  readonly cleanupMs: number;
}

/** What a handler emitted, in order. */
export interface JobChunk {
  /** 1, 2, 3, … */
  readonly seq: number;
  readonly payload: Payload;
}

/** Which chunks to read, and whether to wait for them. */
export interface ChunkPageRequest {
  readonly after: number;
  readonly limit: number;
  readonly wait: boolean;
}

/** The next chunks; `over`: the run is over and nothing comes after these. */
export interface ChunkPage {
  readonly chunks: readonly JobChunk[];
  readonly over: boolean;
}

/** A session to be opened. */
export interface SessionRequest {
  /** Made by the client, so that a repeated request opens one session. */
  readonly sessionId: string;
  readonly label: string | null;
  /** Set by a server, which knows whose token it was; `null` otherwise. */
  readonly owner: string | null;
  readonly idleTimeoutMs: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** Conditions on sessions that must all hold, and which page. */
export interface SessionQuery {
  readonly state?: readonly SessionState[] | undefined;
  readonly label?: string | undefined;
  readonly limit: number;
  readonly after?: string | undefined;
}

export interface JobBackend {
  /** Decides when to keep alive, and when a wait of the caller has timed out. */
  readonly clock: Clock;

  /** Opens a session; the same id again answers the one that is there. */
  openSession(request: SessionRequest): Promise<SessionInfo>;
  /** Renews the lease of a session in every state but `ended`; `undefined` where there is none. */
  keepAlive(sessionId: string): Promise<SessionInfo | undefined>;
  /**
   * Refuses new jobs, and cancels the others where it is `forceful`. `leaving`: its client says goodbye. Resolves once
   * that is stored. Rejects with `SESSION_DOWNGRADE` and `SESSION_NOT_FOUND`; a repeat is harmless.
   */
  shutdown(request: {
    readonly sessionId: string;
    readonly mode: ShutdownMode;
    readonly leaving: boolean;
  }): Promise<SessionInfo>;
  /** Resolves once a session has ended or is no more. Many may be waited for at once. */
  waitForEnd(sessionId: string, signal: AbortSignal): Promise<void>;
  getSession(sessionId: string): Promise<SessionInfo | undefined>;
  listSessions(query: SessionQuery): Promise<SessionPage>;
  listJobs(query: {
    readonly sessionId: string;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<JobPage>;
  /** Sets variables; `null` takes one away. Rejects with `SESSION_NOT_FOUND`, and with `SESSION_CLOSED` once it has ended. */
  setVariables(
    sessionId: string,
    set: Readonly<Record<string, string | null>>,
  ): Promise<SessionInfo>;

  /**
   * Creates the run and the job together. Rejects with `SESSION_CLOSED`, with `SESSION_NOT_FOUND`, and with
   * `INSTANCE_ALREADY_EXISTS` where the id or the dedupe key belongs to a run that this request did not create.
   */
  submit(request: JobRequest): Promise<void>;
  /** Resolves with the reply once the run is over. Many are waited for at once. */
  wait(key: JobKey, signal: AbortSignal): Promise<JobReply>;
  /** The reply has reached its caller. */
  take(key: JobKey): Promise<void>;
  /** Nobody wants the reply any more: asks the run to stop, unless it is over. `found: false` for another life of the id. */
  abandon(key: JobKey, stop: JobStop): Promise<StopResult>;
  /** Asks the run to stop; somebody still wants the reply. `found: false` for another life of the id. */
  cancel(key: JobKey, stop: JobStop): Promise<StopResult>;
  /** Reads what is known of the run; rejects with `INSTANCE_NOT_FOUND` where there is none in this life. */
  status(key: JobKey): Promise<InstanceInfo>;
  /**
   * Reads the chunks after a number; the others have been read and are forgotten. With `wait` it resolves only with at
   * least one chunk or at the end of the stream (`over`), without it at once.
   */
  read(key: JobKey, page: ChunkPageRequest, signal: AbortSignal): Promise<ChunkPage>;
}
