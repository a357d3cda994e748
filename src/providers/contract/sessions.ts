import type { Payload } from '../../model/values/payload.ts';
import type { InstanceStatus } from '../../model/status.ts';
import type { StopResult } from './cancellation.ts';
import type { NewInstance } from './instances.ts';
import type { Withheld } from './page-bytes.ts';
import type { NewTask } from './tasks.ts';

/**
 * `open`: takes jobs. `draining`: takes no more and waits for those it has. `closing`: stops them. `ended`: none of its
 * jobs runs any more.
 */
export type SessionState = 'open' | 'draining' | 'closing' | 'ended';

/** Why a session ends: somebody asked for it, its client said goodbye, or its lease ran out. */
export type SessionEnd = 'shutdown' | 'goodbye' | 'expired';

/** A session to be opened. */
export interface NewSession {
  readonly sessionId: string;
  readonly label: string | null;
  /** Who may use it; opaque to the store. */
  readonly owner: string | null;
  /** How long it lives without a renewal. */
  readonly leaseMs: number;
  readonly variables: Readonly<Record<string, string>>;
}

/** What is known of a session. */
export interface SessionRecord extends Withheld {
  /** Grows with every session that is opened; pages of a listing end at one. */
  readonly sessionKey: number;
  readonly sessionId: string;
  readonly label: string | null;
  readonly owner: string | null;
  readonly state: SessionState;
  readonly leaseMs: number;
  readonly createdAt: number;
  readonly expiresAt: number;
  readonly endedAt: number | null;
  /** Set by the first wish that stops its jobs; of one that drained, at its end. */
  readonly end: SessionEnd | null;
  readonly variables: Readonly<Record<string, string>>;
  /** Jobs whose run is not over, or whose late result is still to be disposed of: what keeps it from ending. */
  readonly openJobs: number;
}

/** A run to be created as a job of a session. */
export type NewJob = {
  readonly sessionId: string;
  /** Its definition disposes of a result that nobody takes. */
  readonly disposable: boolean;
} & (
  | { readonly kind: 'orchestration'; readonly instance: Omit<NewInstance, 'firstTurn'> }
  | { readonly kind: 'task'; readonly task: NewTask }
);

/** What became of one job; nothing is half-created. */
export type SubmitJobResult =
  | { readonly kind: 'created' }
  /** This very job, of this incarnation, was submitted before. */
  | { readonly kind: 'exists' }
  /** The id belongs to another run, whatever its input. */
  | { readonly kind: 'conflict'; readonly name: string }
  /** An active run holds the dedupe key of the task. */
  | { readonly kind: 'active'; readonly instanceId: string }
  /** The session takes no jobs, or is not there. */
  | { readonly kind: 'sessionClosed'; readonly state: SessionState | 'missing' }
  /** The store could not take this one; its neighbours are not affected. */
  | { readonly kind: 'refused'; readonly error: Error };

/** A job: the id of its run, and the one life of that id that is meant. */
export interface JobKey {
  readonly sessionId: string;
  readonly instanceId: string;
  readonly incarnation: string;
}

/** Which session a job belongs to. It never changes. */
export interface JobBinding {
  readonly sessionId: string;
  /** The name of its orchestration or task. */
  readonly name: string;
}

/** A job whose caller has gone. */
export interface AbandonJob extends JobKey {
  readonly reason: string;
  readonly actor: string | null;
  readonly cleanupMs: number;
}

/** A wish that a session end. */
export interface ShutdownSession {
  readonly sessionId: string;
  readonly mode: 'graceful' | 'forceful';
  readonly end: SessionEnd;
}

/**
 * What became of the wish: `accepted` changed the session, `repeated` found it that far or ended, `downgrade` found it
 * stopping its jobs already and changed nothing.
 */
export interface ShutdownResult {
  readonly kind: 'accepted' | 'repeated' | 'downgrade' | 'missing';
  readonly session: SessionRecord | undefined;
}

/** What there is to do for sessions. */
export interface DueSessions {
  /** Those to settle now. */
  readonly sessionIds: readonly string[];
  /** Whether late results wait for a worker that can dispose of them. */
  readonly hasAbandoned: boolean;
  /** When to look again at the latest, unless more comes; `null` when there is nothing to look after. */
  readonly nextAt: number | null;
}

/** A completed run whose caller has gone, claimed in order to dispose of its result. */
export interface AbandonedResult {
  readonly key: JobKey;
  readonly kind: 'orchestration' | 'task';
  /** The name of the orchestration or task. */
  readonly name: string;
  readonly output: Payload | null;
  /** How often it was claimed, this time included. */
  readonly attempt: number;
}

/** What became of an attempt to dispose of a result. */
export interface SettledResult {
  readonly key: JobKey;
  /** When to try again; `null`: it is done. */
  readonly retryInMs: number | null;
}

/** What is known of a job. */
export interface JobRecord extends JobKey {
  /** Grows with every job of the session; pages of a listing end at one. */
  readonly jobKey: number;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly status: InstanceStatus;
  readonly disposable: boolean;
  readonly createdAt: number;
  /** Since when its caller is gone. */
  readonly abandonedAt: number | null;
}

/** Conditions that must all hold, and where the page begins. */
export interface ListSessionsParams {
  readonly state?: readonly SessionState[];
  readonly label?: string;
  readonly limit: number;
  /** Only sessions older than this key: where the last page ended. */
  readonly after?: number;
  /** End the page at the first entry whose variables would take it over so many bytes. Default: no bound. */
  readonly maxBytes?: number;
}

/**
 * Sessions, and the jobs that belong to them. A job is a run (an instance) with a row that stands while somebody may
 * want its reply.
 *
 * A provider must:
 * - let a session end once none of its jobs runs and no late result waits, and not before; it never changes again
 *   (session/ends-when-nothing-runs, session/waits-for-late-results, session/an-ended-one-stays-as-it-is)
 * - delete the job and its chunks with its instance (job/goes-with-its-instance)
 * - leave runs that are nobody's job, and jobs of other sessions, alone (session/leaves-others-alone)
 * - keep text as it is: ids, labels, owners and variables (session/text-is-only-text)
 * - let every process see the same sessions (shared/a-session-is-seen-everywhere)
 */
export interface SessionStore {
  /**
   * Opens a session.
   *
   * A provider must:
   * - make it `open`, with a lease from now (session/opens-with-a-lease)
   * - answer one that is there as it is, ended or not (session/opens-once)
   */
  openSession(session: NewSession): Promise<SessionRecord>;

  /**
   * Extends leases; answers in the order asked, with `undefined` for a missing one.
   *
   * A provider must:
   * - extend the lease from now, in every state but `ended`, also one that has run out but was not noticed
   *   (session/a-renewal-extends-the-lease, session/is-renewed-while-it-drains,
   *   session/comes-back-before-it-is-closed, session/an-ended-one-stays-as-it-is)
   */
  renewSessions(sessionIds: readonly string[]): Promise<readonly (SessionRecord | undefined)[]>;

  /**
   * Creates runs as jobs of their sessions.
   *
   * A provider must, per job:
   * - do what `createInstances` or `createTasks` does, and insert the job in the same transaction
   *   (job/is-a-run-of-its-session, job/of-an-orchestration-is-claimed-as-any, job/names-the-run-with-its-key)
   * - answer `exists` for the id with this incarnation, whatever became of its session, and `conflict` for any
   *   other life of the id, also with the same input (job/the-same-submit-exists,
   *   job/never-joins-a-run-of-others, job/concurrent-submits-have-one-winner)
   * - answer `sessionClosed` unless its session is open, creating nothing, however they race
   *   (job/needs-an-open-session, job/races-with-a-shutdown)
   * - keep one bad job from spoiling its neighbours (job/a-bad-one-spares-its-neighbours)
   */
  submitJobs(jobs: readonly NewJob[]): Promise<readonly SubmitJobResult[]>;

  /**
   * Notes that replies have reached their callers.
   *
   * A provider must, per job:
   * - forget the job of a run that is over, with its chunks; its run stays (job/a-taken-reply-ends-it)
   * - change nothing for a run that goes on, another incarnation or another session
   *   (job/cannot-be-taken-early, job/is-meant-by-its-whole-key)
   */
  takeJobs(jobs: readonly JobKey[]): Promise<void>;

  /**
   * Notes that callers have gone.
   *
   * A provider must, per job:
   * - mark it, drop its chunks and, unless its run is over, do what `requestCancel` does
   *   (job/an-abandoned-run-is-asked-to-stop, job/an-abandoned-pending-run-ends-at-once)
   * - answer `found: false`, changing nothing, for another incarnation, another session or nobody; one whose reply
   *   was taken is found and over (job/is-meant-by-its-whole-key, job/an-abandon-after-the-reply-changes-nothing,
   *   job/what-is-none-is-told-how-its-run-stands)
   * - make a completed run that is disposable ready for `claimAbandoned` (abandoned/a-result-that-came-before-it)
   * - be harmless when repeated (job/can-be-abandoned-twice)
   * - answer each of a batch for itself, whatever the others have come to (job/are-abandoned-each-for-itself)
   */
  abandonJobs(jobs: readonly AbandonJob[]): Promise<readonly StopResult[]>;

  /**
   * Asks a session to end.
   *
   * A provider must:
   * - make an open one `draining` or, forcefully, `closing`; let `draining` become `closing` and never the reverse
   *   (session/shutdown-goes-one-way, session/needs-to-be-there)
   * - keep the first reason for stopping jobs (session/keeps-the-first-reason)
   * - not end it by itself: that is settled later (session/ends-when-nothing-runs)
   */
  shutdownSession(request: ShutdownSession): Promise<ShutdownResult>;

  /**
   * Brings a session that is to end forward, by one step; to be repeated until it has `ended` or nothing changes.
   *
   * A provider must:
   * - in `closing`, abandon at most `limit` of the jobs that were not (session/closes-in-steps)
   * - forget abandoned jobs of it whose run is over, and make late results ready for `claimAbandoned`
   *   (session/ends-when-nothing-runs, session/waits-for-late-results)
   * - make it `ended` when no run of its jobs goes on, with the reason `shutdown` if none was given; replies that were
   *   not taken stay (session/a-drained-one-keeps-its-replies, session/an-open-one-is-not-settled)
   */
  settleSession(sessionId: string, limit: number): Promise<SessionRecord | undefined>;

  /**
   * Finds what there is to do, and does what needs no step of its own.
   *
   * A provider must:
   * - close a session whose lease has run out, with the reason `expired`, and answer it
   *   (session/an-expired-lease-closes-it, session/an-expired-lease-closes-a-draining-one)
   * - answer at most `limit` sessions that are draining or closing, each to one caller for a while
   *   (session/is-handed-to-one-settler-at-a-time)
   * - forget abandoned jobs whose runs are over, whatever their session does, and make late results of disposable
   *   ones ready (job/an-abandoned-one-is-forgotten-at-its-end, abandoned/a-late-result-is-claimed)
   * - remove sessions a day after their end, with what is left of their jobs (session/is-removed-a-day-later)
   * - only read when nothing is due, and tell when something will be (session/tells-when-to-look-again)
   */
  dueSessions(limit: number): Promise<DueSessions>;

  /**
   * Claims completed runs whose callers have gone.
   *
   * A provider must:
   * - claim only runs of these names that are disposable and completed, each for `lockMs`, and count the claims
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
   * Tells what became of claimed results.
   *
   * A provider must:
   * - forget the job of one that is done, and hand the others out again after their delay
   *   (abandoned/is-retried-until-done)
   */
  settleAbandoned(settled: readonly SettledResult[]): Promise<void>;

  /**
   * Reads sessions by id.
   *
   * A provider must:
   * - answer in the order asked, with `undefined` for a missing one (session/can-be-read)
   */
  getSessions(sessionIds: readonly string[]): Promise<readonly (SessionRecord | undefined)[]>;

  /**
   * Lists sessions, the newest first, one page at a time.
   *
   * A provider must:
   * - list at most `limit` of those for which all conditions hold (session/is-listed-newest-first)
   * - with `maxBytes`, end the page with the first entry, but never the first of the page, whose variables would take it
   *   over so many bytes; that one is `withheld` and has none (session/list-ends-at-its-bytes)
   */
  listSessions(params: ListSessionsParams): Promise<readonly SessionRecord[]>;

  /**
   * Sets variables of a session that has not ended, and removes those set to `null`; answers the session.
   *
   * A provider must:
   * - leave the others as they are (session/has-variables)
   */
  setSessionVariables(request: {
    readonly sessionId: string;
    readonly set: Readonly<Record<string, string | null>>;
  }): Promise<SessionRecord | undefined>;

  /**
   * Reads which sessions jobs belong to; answers in the order asked.
   *
   * A provider must:
   * - answer `undefined` for an unknown id, another incarnation, a run that is no job, and a job that was forgotten
   *   (job/is-bound-to-its-session)
   */
  getJobBindings(
    jobs: readonly Omit<JobKey, 'sessionId'>[],
  ): Promise<readonly (JobBinding | undefined)[]>;

  /**
   * Lists the jobs of a session, the oldest first, one page at a time.
   *
   * A provider must:
   * - list at most `limit`, those after a key (job/is-listed-oldest-first)
   */
  listJobs(params: {
    readonly sessionId: string;
    readonly limit: number;
    readonly after?: number;
  }): Promise<readonly JobRecord[]>;
}
