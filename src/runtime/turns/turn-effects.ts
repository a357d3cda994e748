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
import type { RecordedTagChanges } from '../../model/values/tags.ts';
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

/** The instance of a turn. */
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
  /** The time of the turn by the store's clock. Absent if it is only an estimate. */
  readonly storeNowMs?: number | undefined;
  /** Number of buffered external events, if it changed. */
  readonly bufferedEvents?: number | undefined;
  /** Returns the lease of a work item that this process claims, or `undefined` to queue it. */
  readonly claimMs: (activity: string) => number | undefined;
  /** Name of the worker that claims the items. */
  readonly worker: string;
  /** Clean-up limit of canceled children, in milliseconds. */
  readonly cleanupMs: number;
}

interface Effects {
  readonly workItems: NewWorkItem[];
  readonly timers: NewTimer[];
  readonly children: NewChild[];
  /** Operations of earlier turns that this turn withdraws. */
  readonly withdrawn: Map<number, OperationWithdrawn>;
  customStatus: string | null | undefined;
  tags: RecordedTagChanges | undefined;
  terminal: TerminalEvent | undefined;
}

/** Derives the effects of a turn from its events, which are their only source. */
export function toTurn(params: TurnEffectsParams): Turn {
  const effects = collect(params);
  const { terminal } = effects;
  // The end of an execution cancels its pending work, so do not insert the work of this turn.
  const over = terminal !== undefined;
  return {
    turnId: randomToken(),
    version: params.subject.version,
    firstEventId: params.firstEventId,
    events: params.events.map(encodeEvent),
    workItems: over ? effects.workItems.filter(isAbandoned) : effects.workItems,
    timers: over ? [] : effects.timers,
    children: over ? effects.children.filter(isAbandoned) : effects.children,
    messages: terminal === undefined ? [] : replyToParent(params.subject, terminal),
    ...toWithdrawals(effects.withdrawn),
    cleanupMs: params.cleanupMs,
    ...(effects.customStatus !== undefined && { customStatus: effects.customStatus }),
    ...(effects.tags !== undefined && { tags: effects.tags }),
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
    tags: undefined,
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
    case 'tagsSet':
      effects.tags = { ...effects.tags, ...event.tags };
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

// An operation that was scheduled and withdrawn in the same turn never reaches the store, unless the code awaits its
// outcome.
function neverNeeded(
  { withdrawn }: Effects,
  {
    operation,
    cancellation,
  }: { readonly operation: number; readonly cancellation?: 'wait' | 'abandon' },
): boolean {
  return cancellation === undefined && withdrawn.delete(operation);
}

// History time never goes back, so it may be ahead of the store's. A delay must not grow by the difference.
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
  const { name, version, childId, payload, operation, tags } = event;
  const tagged = tags !== undefined && { tags };
  const waits = event.kind === 'childScheduled';
  const { executionId } = subject;
  const reply = { executionId, operation };
  const parent: ParentRef = { instanceId: subject.instanceId, ...reply };
  return {
    instanceId: childId,
    incarnation: randomToken(),
    name,
    version,
    inputHash: inputHash(payload),
    start: encodeMessage({
      kind: 'start',
      name,
      version,
      payload,
      ...(waits && { parent }),
      ...tagged,
    }),
    ...tagged,
    parentOperation: waits ? operation : null,
    cancellation: event.kind === 'childScheduled' ? (event.cancellation ?? 'request') : 'abandon',
    shielded: event.kind === 'childScheduled' && event.shielded === true,
    ...(waits
      ? { ifTaken: encodeMessage({ kind: 'childFailed', ...reply, failure: taken(childId) }) }
      : {
          ifStarted: encodeMessage({ kind: 'detachedConfirmed', ...reply }),
          ifTaken: encodeMessage({
            kind: 'detachedFailed',
            ...reply,
            failure: takenByOther(childId),
          }),
        }),
  };
}

function takenByOther(childId: string) {
  return platformFailure(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(childId)} already exists with another orchestration or input. Choose another id for startDetached().`,
  );
}

function taken(childId: string) {
  return platformFailure(
    'INSTANCE_ALREADY_EXISTS',
    `Instance ${JSON.stringify(childId)} already exists. Choose another id for the child, or omit it to generate one.`,
  );
}

/** Returns the message with the child's outcome. None without a waiting parent, or if the child continues as new. */
function replyToParent(subject: TurnSubject, terminal: TerminalEvent): readonly OutgoingMessage[] {
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
  // The store sends the outcome of a cancel itself, once all work of the child has stopped.
  return [];
}

function toParent(parent: ParentRef, reply: Message): OutgoingMessage {
  return { instanceId: parent.instanceId, message: encodeMessage(reply) };
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
      throw new Error('A turn cannot terminate an instance; only the store can.');
    case 'executionContinuedAsNew': {
      const { version, payload, carried, cancel, tags } = terminal;
      const start: Message = {
        kind: 'start',
        name: subject.name,
        version,
        payload,
        ...(subject.parent !== null && { parent: subject.parent }),
        ...(carried !== undefined && { carried }),
        ...(cancel !== undefined && { cancel }),
        ...(tags !== undefined && { tags }),
      };
      return { status: 'continuedAsNew', version, start: encodeMessage(start) };
    }
  }
}
