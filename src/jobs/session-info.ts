import type { InstanceStatus } from '../model/status.ts';
import type { SessionEnd, SessionState } from '../providers/contract/sessions.ts';

/** How to shut a session down: `graceful` lets its jobs end, `forceful` cancels them. */
export type ShutdownMode = 'graceful' | 'forceful';

/** What is known of a session. All times are milliseconds since the epoch. */
export interface SessionInfo {
  readonly id: string;
  readonly label?: string;
  /** Who opened it, where a server knows that. */
  readonly owner?: string;
  readonly state: SessionState;
  /** Why it ends. */
  readonly end?: SessionEnd;
  /** How long it may go unheard of. */
  readonly idleTimeoutMs: number;
  readonly createdAt: number;
  /** When it ends by itself, unless it is heard of before. */
  readonly expiresAt: number;
  readonly endedAt?: number;
  readonly variables: Readonly<Record<string, string>>;
  /** Set where a server does not show the variables, because the session belongs to another token. */
  readonly variablesHidden?: true;
  /** Its jobs that run, or whose late result is still to be disposed of: what keeps it from ending. */
  readonly openJobs: number;
}

/** One job of a session, as an operator sees it. */
export interface JobInfo {
  readonly id: string;
  readonly kind: 'orchestration' | 'task';
  readonly name: string;
  readonly status: InstanceStatus;
  readonly createdAt: number;
  /** Since when nobody wants its reply any more. */
  readonly abandonedAt?: number;
}

/** A page of sessions, the newest first. */
export interface SessionPage {
  readonly items: readonly SessionInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}

/** A page of the jobs of a session, the oldest first. */
export interface JobPage {
  readonly items: readonly JobInfo[];
  /** The `after` of the next page; absent on the last. */
  readonly nextAfter?: string;
}
