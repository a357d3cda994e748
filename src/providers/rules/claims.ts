import type { Blocked } from '../contract/orchestration-queue.ts';
import type { WorkItemAbandon, WorkItemRetry } from '../contract/work-queue.ts';

/** How long the registration of a process is valid without a renewal, in milliseconds. */
export const registrationMs = 86_400_000;

/** A flag as a store reads it: SQLite has 0 and 1. */
export type Flag = boolean | 0 | 1;

/** The columns of a claim, on an instance or a work item. */
interface Lock {
  readonly lockToken: string | null;
  readonly lockedUntil: number | null;
}

/** Whether a lock is held and its lease has not expired. */
export function isClaimed(lock: Lock | undefined, now: number): boolean {
  return lock?.lockToken != null && lock.lockedUntil !== null && lock.lockedUntil > now;
}

/** How the fence of a claim checks its lease. */
export interface FenceOptions {
  /**
   * Check only the token, not the lease. A claim that started nothing can be handed back until the next claim, which
   * replaces the token.
   */
  readonly evenIfExpired?: boolean | undefined;
}

/** Whether the claim with this secret holds a lock and its lease has not expired. */
export function isHeldBy<L extends Lock>(
  lock: L | undefined,
  secret: string,
  now: number,
  { evenIfExpired = false }: FenceOptions = {},
): lock is L {
  return lock?.lockToken === secret && (evenIfExpired || isClaimed(lock, now));
}

/** What handing a work item back does to it. */
export type HandBackPlan =
  /** It was asked to stop, so it ends as canceled instead of running again. */
  | { readonly kind: 'cancel' }
  | {
      readonly kind: 'requeue';
      readonly nextAt: number;
      readonly claims: number;
      /** The failure to record and count. */
      readonly failure: string | undefined;
      /** The failure to record without counting it. */
      readonly explanation: string | undefined;
      /** With a failure: the maximum of attempts. */
      readonly maxAttempts: number | null;
      /** A task run that this claim made `running` is `pending` again. */
      readonly unstarted: boolean;
    };

/** Decides what an abandon or a retry does to a held work item. A retry resets the number of claims. */
export function planHandBack(
  item: { readonly claims: number; readonly cancelRequested: Flag },
  request: WorkItemAbandon | WorkItemRetry,
  now: number,
): HandBackPlan {
  if (item.cancelRequested) return { kind: 'cancel' };
  const nextAt = now + Math.ceil(request.delayMs);
  if ('failure' in request) {
    const { failure, maxAttempts = null } = request;
    const counted = { failure, explanation: undefined, maxAttempts };
    return { kind: 'requeue', nextAt, claims: 0, ...counted, unstarted: false };
  }
  const claims = request.giveBackClaim ? Math.max(item.claims - 1, 0) : item.claims;
  const unstarted = request.unstarted === true;
  return {
    kind: 'requeue',
    nextAt,
    claims,
    failure: undefined,
    explanation: request.explanation,
    maxAttempts: null,
    unstarted,
  };
}

/** Decides until when an instance that is released without a turn is held back, and when it can be claimed. */
export function planHoldBack(
  { delayMs, blocked }: { readonly delayMs: number; readonly blocked?: Blocked | undefined },
  now: number,
): { readonly heldUntil: number | null; readonly dueAt: number } {
  // Rounded up, because columns hold whole milliseconds and the instance must not be due before `heldUntil`.
  const delayedUntil = now + Math.ceil(delayMs);
  return {
    heldUntil: delayMs > 0 ? delayedUntil : null,
    // Another build can claim a blocked instance immediately.
    dueAt: blocked === undefined ? delayedUntil : now,
  };
}

interface Due {
  readonly nextAt: number;
  /** Higher first. Absent: 0. */
  readonly priority?: number;
}

// A suspect that has been due for this much longer than the first trusted entry goes first. Otherwise a steady backlog
// of trusted entries would starve it.
export const maxSuspectWaitMs = 300_000;

/** Whether a suspect has been due so long that it goes before entries that are due now. */
export function isLongDue({ nextAt }: { readonly nextAt: number }, now: number): boolean {
  return nextAt + maxSuspectWaitMs < now;
}

/**
 * Chooses what to claim: highest priority first, then longest due, up to `max`. A suspect was claimed twice without an
 * outcome and may crash its process. It is claimed alone: if no trusted entry is due, or if it has been due for 5 minutes
 * longer than the first trusted one.
 */
export function chooseDue<T extends Due>(options: {
  readonly max: number;
  readonly trusted: readonly T[];
  readonly suspects: readonly T[];
  readonly keyOf: (due: T) => number;
}): readonly T[] {
  const { max, keyOf } = options;
  if (max < 1) return [];
  const trusted = inOrder(options.trusted, keyOf);
  const [suspect] = inOrder(options.suspects, keyOf);
  const [first] = trusted;
  if (first === undefined) return suspect === undefined ? [] : [suspect];
  if (suspect !== undefined && suspect.nextAt + maxSuspectWaitMs < first.nextAt) return [suspect];
  return trusted.slice(0, max);
}

function inOrder<T extends Due>(dues: readonly T[], keyOf: (due: T) => number): readonly T[] {
  const unique = [...new Map(dues.map((due) => [keyOf(due), due])).values()];
  return unique.sort(
    (a, b) => (b.priority ?? 0) - (a.priority ?? 0) || a.nextAt - b.nextAt || keyOf(a) - keyOf(b),
  );
}
