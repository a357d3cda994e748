import { ProviderError } from '../../model/failures/errors.ts';
import type { StoredMessage } from '../../model/message.ts';
import { isTerminal, type InstanceStatus } from '../../model/status.ts';
import type { NewChild, NewTimer, NewWorkItem, Turn } from '../contract/turn.ts';
import type { TurnAck } from '../contract/work-queue.ts';
import type { Flag } from './claims.ts';

/** Identifies the state of an instance between two turns. */
interface InstanceState {
  readonly incarnation: string;
  readonly executionId: number;
  readonly lastTurn: string | null;
}

/** The rows that `fenceBreach` checks, all read in the transaction that commits the turn. */
export interface FencedRows {
  readonly instance: (InstanceState & { readonly status: InstanceStatus }) | undefined;
  /** Whether the instance or its definition is paused. */
  readonly isPaused: boolean;
  /** Whether a worker holds a claim on the instance. */
  readonly isClaimed: boolean;
  /** Whether any message is visible. Checked for a turn that applied no timers. */
  readonly hasVisible: boolean;
  /** The messages visible until `fenceMessagesUntil`, at most one more than the turn's timers. Checked for a turn with timers. */
  readonly visible: readonly StoredMessage[];
  /**
   * The items that the turn's tokens hold, in the order of the tokens. The store has checked each token and its lease:
   * an item that a token does not hold is `undefined`.
   */
  readonly items: readonly (
    | {
        readonly instanceKey: number;
        readonly executionId: number;
        readonly cancelRequested: Flag;
      }
    | undefined
  )[];
}

/** The part of a turn's basis that has changed since the turn was computed. */
export type FenceBreach = 'instance' | 'paused' | 'claim' | 'messages' | 'items';

/**
 * The optimistic check of the fast path. The turn was computed in memory without a claim on its instance, so it is
 * committed only if nothing that it was computed from has changed. Returns the first change found.
 */
export function fenceBreach(ack: TurnAck, rows: FencedRows): FenceBreach | undefined {
  const { instanceKey, executionId, timers = [] } = ack;
  const { instance } = rows;
  if (instance?.status !== 'running' || !isUnchangedSince(instance, ack)) return 'instance';
  if (rows.isPaused) return 'paused';
  if (rows.isClaimed) return 'claim';
  const hasUnseen = timers.length > 0 ? !areFiredTimers(rows.visible, ack) : rows.hasVisible;
  if (hasUnseen) return 'messages';
  const areOwn = rows.items.every(
    (item) =>
      item?.instanceKey === instanceKey &&
      item.executionId === executionId &&
      !item.cancelRequested,
  );
  return areOwn ? undefined : 'items';
}

/** Whether an instance has taken no turn since the state that a request names. */
export function isUnchangedSince(instance: InstanceState, expected: InstanceState): boolean {
  return (
    instance.incarnation === expected.incarnation &&
    instance.executionId === expected.executionId &&
    instance.lastTurn === expected.lastTurn
  );
}

/** The latest `visibleAt` of messages that the fence of a turn checks. */
export function fenceMessagesUntil(
  { timers = [], asOfMs = Infinity }: TurnAck,
  now: number,
): number {
  return timers.length === 0 ? now : Math.min(asOfMs, now);
}

/** Whether the visible messages of an instance are exactly those of the timers that a turn applied. */
function areFiredTimers(
  messages: readonly StoredMessage[],
  { executionId, timers = [] }: TurnAck,
): boolean {
  const fired = new Set(timers);
  return (
    messages.length === fired.size &&
    messages.every(
      (message) =>
        message.kind === 'timerFired' &&
        message.executionId === executionId &&
        message.operation !== null &&
        fired.has(message.operation),
    )
  );
}

/** Returns the error of a turn that does not continue its instance. Call it before the first write. */
export function turnError(
  { status, historyLength }: { readonly status: InstanceStatus; readonly historyLength: number },
  { events, firstEventId }: Turn,
  operation: string,
): ProviderError | undefined {
  const problem = isTerminal(status)
    ? `the instance is already ${status}`
    : events.length > 0 && firstEventId !== historyLength + 1
      ? `events from ${firstEventId} do not continue a history of ${historyLength}`
      : undefined;
  if (problem === undefined) return undefined;
  const message = `${operation}: ${problem}. Nothing was written. Read the instance again and repeat the turn.`;
  return new ProviderError({ operation, message, retryable: false });
}

/** Whether a turn scheduled work after a cancel request. Such work never starts, unless shielded or abandoned. */
export function isScheduledTooLate(
  { status }: { readonly status: InstanceStatus },
  { shielded, cancellation }: NewWorkItem | NewChild,
): boolean {
  return status === 'canceling' && shielded !== true && cancellation !== 'abandon';
}

/** By how much a turn raises the version of the custom status: once for each time its code set it. */
export function customStatusVersions({ customStatus, events }: Turn): number {
  if (customStatus === undefined) return 0;
  return Math.max(1, events.filter(({ kind }) => kind === 'customStatusSet').length);
}

/** When the message of a new timer becomes visible, for a turn committed at `now` by the store's clock. */
export function timerDueAt({ fireAt, delayMs }: NewTimer, now: number): number {
  return Math.ceil(delayMs === undefined ? fireAt : now + delayMs);
}

/** Whether an instance can have messages after a turn: earlier ones, or new ones from the turn itself. */
export function mayHaveMessages(
  { status, hasLockRow }: { readonly status: InstanceStatus; readonly hasLockRow: boolean },
  turn: Turn,
): boolean {
  return (
    hasLockRow ||
    status === 'canceling' ||
    turn.timers.length > 0 ||
    turn.children.length > 0 ||
    turn.messages.length > 0 ||
    turn.activityCancels.length > 0 ||
    turn.childCancels.length > 0
  );
}

/** The message of a timer that has fired. */
export function timerFired(executionId: number, operation: number): StoredMessage {
  return { kind: 'timerFired', executionId, operation, data: '{}', payload: null };
}
