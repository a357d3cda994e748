import type { CancellationType } from '../../model/cancel.ts';
import {
  encodeEvent,
  type ActivityScheduled,
  type HistoryEvent,
  type OperationWithdrawn,
  type ParentRef,
  type TerminalEvent,
  type TimerCreated,
} from '../../model/event.ts';
import { platformFailure } from '../../model/failures/failure.ts';
import { inputHash } from '../../model/values/input-hash.ts';
import { encodeMessage, type Message } from '../../model/message.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type {
  ActivityCancel,
  ChildCancel,
  NewChild,
  NewTimer,
  NewWorkItem,
  OutgoingMessage,
  Turn,
  TurnOutcome,
} from '../../providers/contract/turn.ts';

/** Whose turn it was. */
export interface TurnSubject {
  readonly instanceId: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly parent: ParentRef | null;
}

export interface TurnEffectsParams {
  readonly subject: TurnSubject;
  readonly firstEventId: number;
  readonly events: readonly HistoryEvent[];
  /** The time of the turn by the store's clock; absent where it is only an estimate. */
  readonly storeNowMs?: number | undefined;
  /** How many external events wait, if that has changed. */
  readonly bufferedEvents?: number | undefined;
  /** The lease of a work item that this process takes at once, or `undefined` to leave it in the queue. */
  readonly claimMs: (activity: string) => number | undefined;
  /** Who takes it. */
  readonly worker: string;
  /** How long children that are asked to stop may clean up. */
  readonly cleanupMs: number;
}

interface Effects {
  readonly workItems: NewWorkItem[];
  readonly timers: NewTimer[];
  readonly children: NewChild[];
  /** Withdrawn here, scheduled in an earlier turn. */
  readonly withdrawn: Map<number, OperationWithdrawn>;
  customStatus: string | null | undefined;
  terminal: TerminalEvent | undefined;
}

/** Derives what a store must do from the events that a turn recorded: the events are the only source. */
export function toTurn(params: TurnEffectsParams): Turn {
  const effects = collect(params);
  const { terminal } = effects;
  // The end of an execution cancels its outstanding items, so those of this very turn need not be inserted.
  const over = terminal !== undefined;
  return {
    turnId: randomToken(),
    version: params.subject.version,
    firstEventId: params.firstEventId,
    events: params.events.map(encodeEvent),
    workItems: over ? effects.workItems.filter(isAbandoned) : effects.workItems,
    timers: over ? [] : effects.timers,
    children: over ? effects.children.filter(isAbandoned) : effects.children,
    messages: terminal === undefined ? [] : answerToParent(params.subject, terminal),
    ...toWithdrawals(effects.withdrawn),
    cleanupMs: params.cleanupMs,
    ...(effects.customStatus !== undefined && { customStatus: effects.customStatus }),
    ...(params.bufferedEvents !== undefined && { bufferedEvents: params.bufferedEvents }),
    outcome: toOutcome(params.subject, terminal),
  };
}

function isAbandoned(work: { readonly cancellation: CancellationType }): boolean {
  return work.cancellation === 'abandon';
}

function collect(params: TurnEffectsParams): Effects {
  const effects: Effects = {
    workItems: [],
    timers: [],
    children: [],
    withdrawn: new Map(),
    customStatus: undefined,
    terminal: undefined,
  };
  for (const event of params.events) {
    if (event.kind === 'operationWithdrawn') effects.withdrawn.set(event.target, event);
  }
  for (const event of params.events) collectOne(effects, event, params);
  return effects;
}

function collectOne(effects: Effects, event: HistoryEvent, params: TurnEffectsParams): void {
  switch (event.kind) {
    case 'activityScheduled':
      if (neverNeeded(effects, event)) break;
      effects.workItems.push(toWorkItem(event, params.claimMs(event.name), params.worker));
      break;
    case 'timerCreated':
      if (effects.withdrawn.delete(event.operation)) break;
      effects.timers.push(toTimer(event, params.storeNowMs));
      break;
    case 'childScheduled':
      if (neverNeeded(effects, event)) break;
      effects.children.push(toChild(params.subject, event));
      break;
    case 'detachedStarted':
      effects.children.push(toChild(params.subject, event));
      break;
    case 'customStatusSet':
      effects.customStatus = event.payload;
      break;
    case 'executionCompleted':
    case 'executionFailed':
    case 'executionCanceled':
    case 'executionContinuedAsNew':
      effects.terminal = event;
      break;
    default:
      break;
  }
}

// What this very turn scheduled and withdrew again never reaches the store, unless the code waits for its answer.
function neverNeeded(
  { withdrawn }: Effects,
  {
    operation,
    cancellation,
  }: { readonly operation: number; readonly cancellation?: 'wait' | 'abandon' },
): boolean {
  return cancellation === undefined && withdrawn.delete(operation);
}

// Time in a history never goes back, so it may be ahead of the store's: a duration must not grow by that.
function toTimer(event: TimerCreated, storeNowMs: number | undefined): NewTimer {
  const { operation, fireAt, at, absolute } = event;
  const isExact = absolute === true || at === storeNowMs;
  return isExact ? { operation, fireAt } : { operation, fireAt, delayMs: fireAt - at };
}

function toWorkItem(
  event: ActivityScheduled,
  claimMs: number | undefined,
  worker: string,
): NewWorkItem {
  return {
    operation: event.operation,
    name: event.name,
    payload: event.payload,
    options: encodeWorkOptions(event),
    cancellation: event.cancellation ?? 'request',
    shielded: event.shielded ?? false,
    ...(event.options?.priority !== undefined && { priority: event.options.priority }),
    ...(claimMs !== undefined && { claimMs, claimedBy: worker }),
  };
}

/** Encodes the call options that a work item carries to its worker. Opaque to the store. */
function encodeWorkOptions({ options, cancellation }: ActivityScheduled): string | null {
  if (options === undefined && cancellation === undefined) return null;
  return JSON.stringify({ ...options, ...(cancellation !== undefined && { cancellation }) });
}

function toWithdrawals(withdrawn: ReadonlyMap<number, OperationWithdrawn>) {
  const activityCancels: ActivityCancel[] = [];
  const childCancels: ChildCancel[] = [];
  const timerWithdrawals: number[] = [];
  for (const { target, targetKind, trigger, reason, childId, abandoned } of withdrawn.values()) {
    if (abandoned === true) continue;
    if (targetKind === 'activity') activityCancels.push({ operation: target, reason, trigger });
    if (targetKind === 'timer') timerWithdrawals.push(target);
    if (targetKind === 'child' && childId !== undefined)
      childCancels.push({ instanceId: childId, reason });
  }
  return { activityCancels, childCancels, timerWithdrawals };
}

function toChild(
  subject: TurnSubject,
  event: Extract<HistoryEvent, { kind: 'childScheduled' | 'detachedStarted' }>,
): NewChild {
  const { name, version, childId, payload, operation } = event;
  const waits = event.kind === 'childScheduled';
  const { executionId } = subject;
  const answered = { executionId, operation };
  const parent: ParentRef = { instanceId: subject.instanceId, ...answered };
  return {
    instanceId: childId,
    incarnation: randomToken(),
    name,
    version,
    inputHash: inputHash(payload),
    start: encodeMessage({ kind: 'start', name, version, payload, ...(waits && { parent }) }),
    parentOperation: waits ? operation : null,
    cancellation: event.kind === 'childScheduled' ? (event.cancellation ?? 'request') : 'abandon',
    shielded: event.kind === 'childScheduled' && event.shielded === true,
    ...(waits
      ? { ifTaken: encodeMessage({ kind: 'childFailed', ...answered, failure: taken(childId) }) }
      : {
          ifStarted: encodeMessage({ kind: 'detachedConfirmed', ...answered }),
          ifTaken: encodeMessage({
            kind: 'detachedFailed',
            ...answered,
            failure: takenByOther(childId),
          }),
        }),
  };
}

function takenByOther(childId: string) {
  return platformFailure(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(childId)} was started before with another orchestration or input. Choose another id for startDetached().`,
  );
}

function taken(childId: string) {
  return platformFailure(
    'INSTANCE_ALREADY_EXISTS',
    `The id ${JSON.stringify(childId)} already belongs to an instance. Give the child another id, or leave it out to have one generated.`,
  );
}

/** The message that tells a waiting parent how its child ended; none when nobody waits or the child goes on. */
function answerToParent(subject: TurnSubject, terminal: TerminalEvent): readonly OutgoingMessage[] {
  const { parent } = subject;
  if (parent === null || terminal.kind === 'executionContinuedAsNew') return [];
  const { executionId, operation } = parent;
  if (terminal.kind === 'executionCompleted') {
    const { payload } = terminal;
    return [toParent(parent, { kind: 'childCompleted', executionId, operation, payload })];
  }
  if (terminal.kind === 'executionFailed') {
    const { failure } = terminal;
    return [toParent(parent, { kind: 'childFailed', executionId, operation, failure })];
  }
  // The store tells the parent of a cancel itself, once nothing of the child runs any more.
  return [];
}

function toParent(parent: ParentRef, answer: Message): OutgoingMessage {
  return { instanceId: parent.instanceId, message: encodeMessage(answer) };
}

function toOutcome(subject: TurnSubject, terminal: TerminalEvent | undefined): TurnOutcome {
  switch (terminal?.kind) {
    case undefined:
      return { status: 'running' };
    case 'executionCompleted':
      return { status: 'completed', payload: terminal.payload };
    case 'executionFailed':
      return { status: 'failed', failure: JSON.stringify(terminal.failure) };
    case 'executionCanceled': {
      const { reason, cleanupSkipped = false } = terminal;
      return { status: 'canceled', reason, cleanupSkipped };
    }
    case 'executionTerminated':
      throw new Error('Only the store terminates an instance.');
    case 'executionContinuedAsNew': {
      const { version, payload, carried, cancel } = terminal;
      const start: Message = {
        kind: 'start',
        name: subject.name,
        version,
        payload,
        ...(subject.parent !== null && { parent: subject.parent }),
        ...(carried !== undefined && { carried }),
        ...(cancel !== undefined && { cancel }),
      };
      return { status: 'continuedAsNew', version, start: encodeMessage(start) };
    }
  }
}
