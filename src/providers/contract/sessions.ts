import type { Payload } from '../../model/values/payload.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { StopResult } from './cancellation.ts';
import type { NewInstance } from './instances.ts';
import type { AuditEntry } from './management.ts';
import type { Withheld } from './page-bytes.ts';
import type { NewTask } from './tasks.ts';

/**
 * `open`: accepts jobs. `draining`: accepts no jobs and waits for existing ones. `closing`: stops them.
 * `ended`: none of its jobs runs.
 */
export type SessionState = 'open' | 'draining' | 'closing' | 'ended';

/** Why a session ends: it was shut down, its client closed it, or its lease expired. */
export type SessionEnd = 'shutdown' | 'goodbye' | 'expired';

/** A session to open. */
export interface NewSession {
  readonly sessionId: string;
  readonly label: string | null;
  /** The owner. Opaque to the store. */
  readonly owner: string | null;
  /** The lease without a renewal, in milliseconds. */
  readonly leaseMs: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** A session as stored. */
export interface SessionRecord extends Withheld {
  /** Grows with every session. The cursor of a listing. */
  readonly sessionKey: number;
  readonly sessionId: string;
  readonly label: string | null;
  readonly owner: string | null;
  readonly state: SessionState;
  readonly leaseMs: number;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly endedAt: number | null;
  /** Set by the first request that stops its jobs. For a drained session: at its end. */
  readonly end: SessionEnd | null;
  readonly variables: Readonly<Record<string, string>>;
  /** Jobs whose run has not ended, or whose result is still to be disposed of. They keep the session from ending. */
  readonly openJobs: number;
}

/** A run to create as a job of a session. */
export type NewJob = {
  readonly sessionId: string;
  /** Whether its definition disposes of a result that is not taken. */
  readonly disposable: boolean;
} & (
  | { readonly kind: 'orchestration'; readonly instance: Omit<NewInstance, 'firstTurn'> }
  | { readonly kind: 'task'; readonly task: NewTask }
);

/** The result of one job. None is created partially. */
export type SubmitJobResult =
  | { readonly kind: 'created' }
  /** A repeat: the job with this incarnation exists. */
  | { readonly kind: 'exists' }
  /** The id belongs to another run, with any input. */
  | { readonly kind: 'conflict'; readonly name: string }
  /** An active run holds the dedupe key of the task. */
  | { readonly kind: 'active'; readonly instanceId: string }
  /** The session does not accept jobs, or is missing. */
  | { readonly kind: 'sessionClosed'; readonly state: SessionState | 'missing' }
  /** The store rejected this one. Other items are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** Identifies a job: the id and incarnation of its run, and its session. */
export interface JobKey {
  readonly sessionId: string;
  readonly instanceId: string;
  readonly incarnation: string;
}

/** The session of a job. It never changes. */
export interface JobBinding {
  readonly sessionId: string;
  /** The name of its orchestration or task. */
  readonly name: string;
}

/** A job to abandon, because its caller is gone. */
export interface AbandonJob extends JobKey {
  readonly reason: string;
  readonly actor: string | null;
  readonly cleanupMs: number;
}

/** A request to end a session. */
export interface ShutdownSession {
  readonly sessionId: string;
  readonly mode: 'graceful' | 'forceful';
  readonly end: SessionEnd;
  /** Recorded in the same transaction if the request is accepted. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/**
 * The result of the request. `accepted`: it changed the session. `repeated`: the session was in that state or had ended.
 * `downgrade`: the session was already stopping its jobs, so nothing changed.
 */
export interface ShutdownResult {
  readonly kind: 'accepted' | 'repeated' | 'downgrade' | 'missing';
  readonly session: SessionRecord | undefined;
}

/** The work that is due for sessions. */
export interface DueSessions {
  /** The sessions to settle now. */
  readonly sessionIds: readonly string[];
  /** Whether results of abandoned jobs wait for a worker that can dispose of them. */
  readonly hasAbandoned: boolean;
  /** When to poll next at the latest. `null` if nothing is pending. */
  readonly nextAt: number | null;
}

/** A completed run of an abandoned job, claimed in order to dispose of its result. */
export interface AbandonedResult {
  readonly key: JobKey;
  readonly kind: 'orchestration' | 'task';
  /** The name of the orchestration or task. */
  readonly name: string;
  readonly output: Payload | null;
  /** The number of claims, including this one. */
  readonly attempt: number;
}

/** The outcome of an attempt to dispose of a result. */
export interface SettledResult {
  readonly key: JobKey;
  /** When to retry. `null`: done. */
  readonly retryInMs: number | null;
}

/** A job as stored. */
export interface JobRecord extends JobKey {
  /** Grows with every job of the session. The cursor of a listing. */
  readonly jobKey: number;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly status: InstanceStatus;
  readonly disposable: boolean;
  readonly createdAt: number;
  /** Since when it is abandoned. */
  readonly abandonedAt: number | null;
}

/** Conditions that must all hold, and the cursor of the page. */
export interface ListSessionsParams {
  readonly state?: readonly SessionState[];
  readonly label?: string;
  readonly limit: number;
  /** Only sessions with a smaller key. Pass the last key of the previous page. */
  readonly after?: number;
  /** End the page at the entry whose variables exceed this total, in bytes. Default: no limit. */
  readonly maxBytes?: number;
}

/**
 * Sessions and their jobs. A job is a run (an instance) with a row in `jobs` while a caller may want its reply.
 *
 * A provider must:
 * - end a session when none of its jobs runs and no result waits for disposal, and not before; never change it
 *   afterwards (session/ends-when-nothing-runs, session/waits-for-late-results, session/an-ended-one-stays-as-it-is)
 * - delete the job and its chunks with its instance (job/goes-with-its-instance)
 * - leave runs that are not jobs, and jobs of other sessions, unchanged (session/leaves-others-alone)
 * - store text unchanged: ids, labels, owners and variables (session/text-is-only-text)
 * - show the same sessions to every process (shared/a-session-is-seen-everywhere)
 */
export interface SessionStore {
  /**
   * Opens a session.
   *
   * A provider must:
   * - make it `open`, with a lease from now (session/opens-with-a-lease)
   * - return an existing one unchanged, ended or not (session/opens-once)
   */
  openSession(session: NewSession): Promise<SessionRecord>;

  /**
   * Extends leases. Returns the sessions in the order of the ids, with `undefined` for a missing one.
   *
   * A provider must:
   * - extend the lease from now in every state except `ended`, even if it has expired unnoticed
   *   (session/a-renewal-extends-the-lease, session/is-renewed-while-it-drains,
   *   session/comes-back-before-it-is-closed, session/an-ended-one-stays-as-it-is)
   */
  renewSessions(sessionIds: readonly string[]): Promise<readonly (SessionRecord | undefined)[]>;

  /**
   * Creates runs as jobs of their sessions.
   *
   * A provider must, per job:
   * - do what `createInstances` or `createTasks` does, and insert the job in the same transaction
   *   (job/is-a-run-of-its-session, job/of-an-orchestration-is-claimed-as-any, job/names-the-run-with-its-key,
   *   job/has-the-tags-of-its-start)
   * - return `exists` for the id with this incarnation in any state of its session, and `conflict` for another
   *   incarnation, even with the same input (job/the-same-submit-exists, job/never-joins-a-run-of-others,
   *   job/concurrent-submits-have-one-winner)
   * - with `isRepeat` of its run, return `exists` if that run was deleted, in any state of its session
   *   (repeat/of-a-deleted-job)
   * - enqueue the `event` of a new run, and never at an existing one (job/brings-an-event)
   * - with `terminateExisting`, replace a run that is not a job (job/replaces-a-run)
   * - return `sessionClosed` unless its session is open, creating nothing, also in a race with a shutdown
   *   (job/needs-an-open-session, job/races-with-a-shutdown)
   * - isolate errors: one bad job does not affect the others (job/a-bad-one-spares-its-neighbours)
   */
  submitJobs(jobs: readonly NewJob[]): Promise<readonly SubmitJobResult[]>;

  /**
   * Records that callers have their replies.
   *
   * A provider must, per job:
   * - delete the job of an ended run, with its chunks; keep the run (job/a-taken-reply-ends-it)
   * - change nothing for a live run, another incarnation or another session (job/cannot-be-taken-early,
   *   job/is-meant-by-its-whole-key)
   */
  takeJobs(jobs: readonly JobKey[]): Promise<void>;

  /**
   * Records that callers are gone.
   *
   * A provider must, per job:
   * - mark it as abandoned, delete its chunks and, unless its run has ended, do what `requestCancel` does
   *   (job/an-abandoned-run-is-asked-to-stop, job/an-abandoned-pending-run-ends-at-once)
   * - return `found: false`, changing nothing, for another incarnation, another session or an unknown id; a job whose
   *   reply was taken is found and has ended (job/is-meant-by-its-whole-key,
   *   job/an-abandon-after-the-reply-changes-nothing, job/what-is-none-is-told-how-its-run-stands)
   * - make the result of a completed disposable run available to `claimAbandoned`
   *   (abandoned/a-result-that-came-before-it)
   * - be idempotent (job/can-be-abandoned-twice)
   * - return a result for each job of a batch, independent of the others (job/are-abandoned-each-for-itself)
   */
  abandonJobs(jobs: readonly AbandonJob[]): Promise<readonly StopResult[]>;

  /**
   * Requests the end of a session.
   *
   * A provider must:
   * - make an open one `draining` or, forcefully, `closing`; allow `draining` to become `closing` but never the
   *   reverse (session/shutdown-goes-one-way, session/needs-to-be-there)
   * - keep the first reason for stopping jobs (session/keeps-the-first-reason)
   * - not end it immediately: `settleSession` does (session/ends-when-nothing-runs)
   * - record the audit entry in the same transaction, exactly if it accepted the request (audit/records-shutdowns)
   */
  shutdownSession(request: ShutdownSession): Promise<ShutdownResult>;

  /**
   * Runs one step of ending a session. Repeat it until the session has `ended` or nothing changes.
   *
   * A provider must:
   * - in `closing`, abandon at most `limit` jobs that are not abandoned (session/closes-in-steps)
   * - delete abandoned jobs whose run has ended, and make disposable results available to `claimAbandoned`
   *   (session/ends-when-nothing-runs, session/waits-for-late-results)
   * - make it `ended` when no run of its jobs is live, with the reason `shutdown` if none was given; keep replies
   *   that were not taken (session/a-drained-one-keeps-its-replies, session/an-open-one-is-not-settled)
   */
  settleSession(sessionId: string, limit: number): Promise<SessionRecord | undefined>;

  /**
   * Returns the due sessions, and runs the maintenance that needs no settlement.
   *
   * A provider must:
   * - close a session whose lease has expired, with the reason `expired`, and return it
   *   (session/an-expired-lease-closes-it, session/an-expired-lease-closes-a-draining-one)
   * - return at most `limit` sessions that are draining or closing, each to one caller for a while
   *   (session/is-handed-to-one-settler-at-a-time)
   * - delete abandoned jobs whose runs have ended, in any state of their session, and make disposable results
   *   available (job/an-abandoned-one-is-forgotten-at-its-end, abandoned/a-late-result-is-claimed)
   * - delete sessions a day after their end, with the rest of their jobs (session/is-removed-a-day-later)
   * - only read if nothing is due, and return when something will be (session/tells-when-to-look-again)
   */
  dueSessions(limit: number): Promise<DueSessions>;

  /**
   * Claims completed runs of abandoned jobs.
   *
   * A provider must:
   * - claim only disposable, completed runs of these names, each for `lockMs`, and count the claims
   *   (abandoned/a-late-result-is-claimed, abandoned/only-named-ones, abandoned/only-completed-disposable-ones,
   *   abandoned/has-one-claimant-at-a-time)
   */
  claimAbandoned(request: {
    readonly orchestrations: readonly string[];
    readonly tasks: readonly string[];
    readonly limit: number;
    readonly lockMs: number;
  }): Promise<readonly AbandonedResult[]>;

  /**
   * Records the outcomes of claimed results.
   *
   * A provider must:
   * - delete the job of a result that is done, and return the others again after their delay
   *   (abandoned/is-retried-until-done)
   */
  settleAbandoned(settled: readonly SettledResult[]): Promise<void>;

  /**
   * Reads sessions by id.
   *
   * A provider must:
   * - return them in the order of the ids, with `undefined` for a missing one (session/can-be-read)
   */
  getSessions(sessionIds: readonly string[]): Promise<readonly (SessionRecord | undefined)[]>;

  /**
   * Lists sessions, newest first, one page at a time.
   *
   * A provider must:
   * - list at most `limit` sessions that match all conditions (session/is-listed-newest-first)
   * - with `maxBytes`, end the page with the first entry whose variables would exceed this size, unless it is the
   *   first of the page; that entry is `withheld` and has none (session/list-ends-at-its-bytes)
   */
  listSessions(params: ListSessionsParams): Promise<readonly SessionRecord[]>;

  /**
   * Sets variables of a session that has not ended. `null` deletes a variable. Returns the session.
   *
   * A provider must:
   * - keep the other variables (session/has-variables)
   */
  setSessionVariables(request: {
    readonly sessionId: string;
    readonly set: Readonly<Record<string, string | null>>;
  }): Promise<SessionRecord | undefined>;

  /**
   * Reads the sessions of jobs, in the order of the keys.
   *
   * A provider must:
   * - return `undefined` for an unknown id, another incarnation, a run that is not a job, and a deleted job
   *   (job/is-bound-to-its-session)
   */
  getJobBindings(
    jobs: readonly Omit<JobKey, 'sessionId'>[],
  ): Promise<readonly (JobBinding | undefined)[]>;

  /**
   * Lists the jobs of a session, oldest first, one page at a time.
   *
   * A provider must:
   * - list at most `limit`, after a key (job/is-listed-oldest-first)
   */
  listJobs(params: {
    readonly sessionId: string;
    readonly limit: number;
    readonly after?: number;
  }): Promise<readonly JobRecord[]>;
}
