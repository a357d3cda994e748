import type { InstanceStatus } from '../../model/status.ts';
import type { AuditEntry } from './management.ts';

/** The kind of a definition. */
export type DefinitionKind = 'orchestration' | 'activity' | 'task';

/** A request to pause an instance. */
export interface PauseInstance {
  readonly instanceId: string;
  /** The incarnation to pause. Absent: any. */
  readonly incarnation?: string;
  readonly reason: string | null;
  readonly actor: string | null;
  /** Whether to pause all descendants too, except those started as `abandon`. */
  readonly tree: boolean;
  /** Recorded in the same transaction if the request changes anything. Absent: not recorded. */
  readonly audit?: AuditEntry;
}

/** A request to resume an instance. */
export interface ResumeInstance {
  readonly instanceId: string;
  /** The incarnation to resume. Absent: any. */
  readonly incarnation?: string;
  /** Whether to resume all descendants too, except those started as `abandon`. */
  readonly tree: boolean;
  readonly audit?: AuditEntry;
}

/** The result of a request to an instance. An unknown or ended instance is not an error. */
export interface PauseResult {
  readonly found: boolean;
  /** Whether this request changed anything. Repeats do not. */
  readonly changed: boolean;
  readonly status: InstanceStatus | null;
  /** Whether the instance is paused now. */
  readonly paused: boolean;
}

/** When, why and by whom something was paused. */
export interface Pause {
  readonly at: number;
  readonly reason: string | null;
  readonly actor: string | null;
}

/** A request to pause a definition, for all versions and all workers. */
export interface PauseDefinition {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly reason: string | null;
  readonly actor: string | null;
  readonly audit?: AuditEntry;
}

/** A request to resume a definition. */
export interface ResumeDefinition {
  readonly kind: DefinitionKind;
  readonly name: string;
  readonly audit?: AuditEntry;
}

/** The result of a request to a definition. */
export interface DefinitionPauseResult {
  /** Whether the store has work, or had work, of this definition. An unknown one can be paused too. */
  readonly found: boolean;
  readonly changed: boolean;
}

/** A paused definition. */
export interface PausedDefinition extends Pause {
  readonly kind: DefinitionKind;
  readonly name: string;
}

/** Pauses and resumes instances and definitions. */
export interface PauseStore {
  /**
   * Pauses instances, each in one transaction.
   *
   * A provider must, per instance:
   * - return `found: false` for an unknown instance or another incarnation, and `changed: false` for one that is paused,
   *   canceling or has ended, changing nothing: the first reason, actor and time are kept
   *   (pause/a-missing-instance-is-not-found, pause/what-is-over-stays-as-it-is, pause/the-first-reason-is-kept)
   * - claim neither its turns nor its work items until it is resumed, whatever is due and whether or not a lease
   *   expired (pause/no-turn-is-claimed, pause/no-work-is-claimed, pause/a-lost-claim-waits-for-the-resume,
   *   pause/a-task-run-is-not-claimed,
   *   takeover/leaves-a-paused-instance-paused)
   * - still let any worker claim a canceled item whose lease expired, which only ends it (pause/canceled-work-is-ended)
   * - reject a turn of the fast path, with or without timers (pause/a-fast-turn-is-rejected,
   *   pause/a-timer-turn-is-rejected)
   * - accept the acks, retries and renewals of claims made before; work that such an ack schedules is not claimed,
   *   neither at its insert nor later (pause/a-turn-under-way-commits, pause/work-under-way-ends)
   * - keep messages, timers and retries, and keep accepting messages (pause/messages-are-kept, pause/a-retry-is-kept)
   * - let a cancel, terminate or deletion pass: like the end of the instance, they end the pause
   *   (pause/a-cancel-ends-the-pause, pause/a-terminate-ends-the-pause, pause/does-not-survive-a-deletion,
   *   pause/ends-with-the-instance, pause/a-cancel-in-the-batch-of-a-turn)
   * - with `tree`, pause the descendants too, and children that a turn under way starts (pause/a-whole-tree,
   *   pause/a-child-of-a-turn-under-way, pause/a-child-canceled-by-the-turn-that-starts-it)
   * - not wake waiting workers for paused work (pause/does-not-wake-workers)
   * - record the audit entry in the same transaction, unless nothing changed (pause/is-audited)
   */
  pauseInstances(requests: readonly PauseInstance[]): Promise<readonly PauseResult[]>;

  /**
   * Resumes instances, each in one transaction.
   *
   * A provider must, per instance:
   * - return `changed: false` for one that is not paused (pause/a-resume-can-be-repeated)
   * - make everything claimable that is due, with nothing lost, and later what is due later
   *   (pause/no-turn-is-claimed, pause/no-work-is-claimed, pause/a-retry-is-kept)
   * - end the waits of workers, and let fast turns commit again (pause/does-not-wake-workers,
   *   pause/a-resumed-instance-takes-fast-turns)
   */
  resumeInstances(requests: readonly ResumeInstance[]): Promise<readonly PauseResult[]>;

  /**
   * Pauses definitions by name, for all processes, each in one transaction.
   *
   * A provider must, per definition:
   * - return `changed: false` for a paused one, and keep its first reason, actor and time
   *   (pause/a-definition-keeps-its-first-reason)
   * - claim none of its turns, activities or task runs, in any process and of any version; other names and kinds are
   *   not affected (shared/a-paused-definition-is-not-claimed)
   * - reject turns of the fast path, and first turns: a start then only stores its start message
   *   (pause/a-fast-turn-of-a-definition-is-rejected, pause/a-first-turn-of-a-definition-is-not-run)
   * - claim no item of a paused activity at its insert (pause/a-paused-activity-is-not-claimed-at-insert)
   * - still claim turns of canceling instances, so that a cancel ends (pause/a-cancel-passes-a-paused-definition)
   * - not report paused work as unclaimed (pause/is-not-reported-as-unclaimed)
   */
  pauseDefinitions(requests: readonly PauseDefinition[]): Promise<readonly DefinitionPauseResult[]>;

  /**
   * Resumes definitions.
   *
   * A provider must, per definition:
   * - return `changed: false` for one that is not paused (pause/a-definition-is-resumed)
   * - end the waits of workers, in every process (pause/a-definition-is-resumed)
   */
  resumeDefinitions(
    requests: readonly ResumeDefinition[],
  ): Promise<readonly DefinitionPauseResult[]>;

  /**
   * Lists the paused definitions by kind and name.
   *
   * A provider must:
   * - list exactly the paused ones (pause/a-definition-keeps-its-first-reason)
   */
  listPausedDefinitions(): Promise<readonly PausedDefinition[]>;
}
