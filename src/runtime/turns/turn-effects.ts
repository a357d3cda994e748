import type { CancellationType } from '../../model/cancel.ts';
import {
  encodeEvent,
  type HistoryEvent,
  type OperationWithdrawn,
  type ParentRef,
  type TerminalEvent,
  type TimerCreated,
} from '../../model/event.ts';
import type { Failure } from '../../model/failures/failure.ts';
import {
  encodeMessage,
  stepGuardOperation,
  type Message,
  type UpdateMessage,
} from '../../model/message.ts';
import { traceOfExecution, type TraceContext } from '../../model/trace-context.ts';
import { encodeChunkSource } from '../../model/values/chunk-source.ts';
import type { CarriedSettings } from '../../model/start-settings.ts';
import type { Payload } from '../../model/values/payload.ts';
import { randomToken } from '../../model/values/random-id.ts';
import type { RecordedTagChanges } from '../../model/values/tags.ts';
import { toAwakeable, toChild, toWorkItem } from '../../providers/contract/scheduled-work.ts';
import type { NewAwakeable, UpdateReply } from '../../providers/contract/updates.ts';
import type {
  ActivityCancel,
  ChildCancel,
  NewChild,
  NewTimer,
  NewWorkItem,
  OutgoingMessage,
  StateChange,
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
  /** The context of the start, if telemetry is on. */
  readonly trace?: TraceContext | undefined;
}

export interface TurnEffectsParams {
  readonly subject: TurnSubject;
  readonly firstEventId: number;
  readonly events: readonly HistoryEvent[];
  /** The time of the turn by the store's clock. Absent if it is only an estimate. */
  readonly storeNowMs?: number | undefined;
  /** The settings of the run, which its work and its next execution get. */
  readonly carried?: CarriedSettings | undefined;
  /** Number of buffered external events, if it changed. */
  readonly bufferedEvents?: number | undefined;
  /** Whether to add or withdraw the timer that an instance has while its steps run. */
  readonly stepGuard?: 'add' | 'withdraw' | undefined;
  /** Replies to updates that were not accepted. */
  readonly rejections?: readonly { readonly key: string; readonly failure: Failure }[] | undefined;
  /** Updates for the next execution. */
  readonly carriedUpdates?: readonly UpdateMessage[] | undefined;
  /** Whether an execution that created awakeables continues as new. */
  readonly closesAwakeables?: boolean | undefined;
  /** Returns the lease of a work item that this process claims, or `undefined` to queue it. */
  readonly claimMs: (activity: string) => number | undefined;
  /** Name of the worker that claims the items. */
  readonly worker: string;
  /** Clean-up limit of canceled children, in milliseconds. */
  readonly cleanupMs: number;
  /** Maximum bytes of the stream of the instance. */
  readonly streamLimitBytes: number;
}

interface Effects {
  readonly workItems: NewWorkItem[];
  readonly timers: NewTimer[];
  readonly children: NewChild[];
  /** Operations of earlier turns that this turn withdraws. */
  readonly withdrawn: Map<number, OperationWithdrawn>;
  customStatus: string | null | undefined;
  tags: RecordedTagChanges | undefined;
  chunks: string[] | undefined;
  /** Absent until the first one: most turns have none. */
  awakeables: NewAwakeable[] | undefined;
  replies: UpdateReply[] | undefined;
  state: Map<string, Payload | null> | undefined;
  terminal: TerminalEvent | undefined;
}

/** Derives the effects of a turn from its events, which are their only source. */
export function toTurn(params: TurnEffectsParams): Turn {
  const effects = collect(params);
  const { terminal } = effects;
  // The end of an execution cancels its pending work, so do not insert the work of this turn.
  const over = terminal !== undefined;
  const { activityCancels, childCancels, timerWithdrawals, withdrawnAwakeables } = toWithdrawals(
    effects.withdrawn,
  );
  if (params.stepGuard === 'add') effects.timers.push(stepGuard);
  if (params.stepGuard === 'withdraw') timerWithdrawals.push(stepGuardOperation);
  // Assigned below: spreading optional fields here takes longer than the rest.
  const turn: { -readonly [Field in keyof Turn]: Turn[Field] } = {
    turnId: randomToken(),
    version: params.subject.version,
    firstEventId: params.firstEventId,
    events: params.events.map(encodeEvent),
    workItems: over ? effects.workItems.filter(isAbandoned) : effects.workItems,
    timers: over ? [] : effects.timers,
    children: over ? effects.children.filter(isAbandoned) : effects.children,
    messages: terminal === undefined ? [] : replyToParent(params.subject, terminal),
    activityCancels,
    childCancels,
    timerWithdrawals,
    cleanupMs: params.cleanupMs,
    outcome: toOutcome(params, terminal),
  };
  if (effects.customStatus !== undefined) turn.customStatus = effects.customStatus;
  if (effects.tags !== undefined) turn.tags = effects.tags;
  if (effects.chunks !== undefined) {
    const { subject, streamLimitBytes: maxBytes } = params;
    const source = encodeChunkSource({ executionId: subject.executionId });
    turn.emitted = { chunks: effects.chunks, source, maxBytes };
  }
  if (effects.state !== undefined) turn.state = toStateChanges(effects.state);
  if (params.bufferedEvents !== undefined) turn.bufferedEvents = params.bufferedEvents;
  if (params.carriedUpdates !== undefined) {
    const { instanceId } = params.subject;
    const carried = params.carriedUpdates.map((update) => ({
      instanceId,
      message: encodeMessage(update),
    }));
    turn.messages = [...turn.messages, ...carried];
  }
  if (effects.replies !== undefined || params.rejections !== undefined) {
    turn.updateReplies = [...(effects.replies ?? []), ...(params.rejections ?? []).map(toRejected)];
  }
  const closes = params.closesAwakeables === true;
  if (effects.awakeables !== undefined || closes || withdrawnAwakeables.length > 0) {
    const created = over ? [] : (effects.awakeables ?? []);
    turn.awakeables = { created, withdrawn: withdrawnAwakeables, closes };
  }
  return turn;
}

// Due immediately, by any clock.
const stepGuard: NewTimer = { operation: stepGuardOperation, fireAt: 0 };

function isAbandoned(work: { readonly cancellation: CancellationType }): boolean {
  return work.cancellation === 'abandon';
}

function collect(params: TurnEffectsParams): Effects {
  const effects: Effects = {
    workItems: [],
    timers: [],
    children: [],
    withdrawn: findWithdrawn(params.events),
    customStatus: undefined,
    tags: undefined,
    chunks: undefined,
    awakeables: undefined,
    replies: undefined,
    state: undefined,
    terminal: undefined,
  };
  for (const event of params.events) collectOne(effects, event, params);
  return effects;
}

// Never filled: entries are only deleted.
const noneWithdrawn = new Map<number, OperationWithdrawn>();

function findWithdrawn(events: readonly HistoryEvent[]): Map<number, OperationWithdrawn> {
  let withdrawn: Map<number, OperationWithdrawn> | undefined;
  for (const event of events) {
    if (event.kind === 'operationWithdrawn') (withdrawn ??= new Map()).set(event.target, event);
  }
  return withdrawn ?? noneWithdrawn;
}

function collectOne(effects: Effects, event: HistoryEvent, params: TurnEffectsParams): void {
  switch (event.kind) {
    case 'activityScheduled':
      if (neverNeeded(effects, event)) break;
      effects.workItems.push(
        toWorkItem(event, {
          claimMs: params.claimMs(event.name),
          worker: params.worker,
          carried: params.carried,
        }),
      );
      break;
    case 'timerCreated':
      if (effects.withdrawn.delete(event.operation)) break;
      effects.timers.push(toTimer(event, params.storeNowMs));
      break;
    case 'stepRetried': {
      const { operation, at, retryAt: fireAt } = event;
      effects.timers.push(toTimer({ operation, at, fireAt }, params.storeNowMs));
      break;
    }
    case 'childScheduled':
      if (neverNeeded(effects, event)) break;
      effects.children.push(toChild(params.subject, event, inherited(params)));
      break;
    case 'detachedStarted':
      effects.children.push(toChild(params.subject, event, inherited(params)));
      break;
    case 'customStatusSet':
      effects.customStatus = event.payload;
      break;
    case 'chunkEmitted':
      (effects.chunks ??= []).push(event.payload ?? 'null');
      break;
    case 'awakeableCreated':
      if (effects.withdrawn.delete(event.operation)) break;
      (effects.awakeables ??= []).push(toAwakeable(event));
      break;
    case 'updateCompleted': {
      const { key, payload } = event;
      (effects.replies ??= []).push({ key, outcome: 'completed', payload, failure: null });
      break;
    }
    case 'updateFailed': {
      const { key } = event;
      const failure = JSON.stringify(event.failure);
      (effects.replies ??= []).push({ key, outcome: 'failed', payload: null, failure });
      break;
    }
    case 'stateSet':
      effects.state ??= new Map();
      // In the order of the last changes.
      effects.state.delete(event.key);
      effects.state.set(event.key, event.payload);
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

function inherited({ subject, carried }: TurnEffectsParams) {
  return { trace: traceOf(subject), carried };
}

function toRejected({
  key,
  failure,
}: {
  readonly key: string;
  readonly failure: Failure;
}): UpdateReply {
  return { key, outcome: 'rejected', payload: null, failure: JSON.stringify(failure) };
}

function toStateChanges(state: ReadonlyMap<string, Payload | null>): readonly StateChange[] {
  return [...state].map(([key, payload]) => ({ key, payload }));
}

function traceOf({ trace, executionId }: TurnSubject): TraceContext | undefined {
  return traceOfExecution(trace, executionId);
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
function toTimer(
  event: Pick<TimerCreated, 'operation' | 'fireAt' | 'at' | 'absolute'>,
  storeNowMs: number | undefined,
): NewTimer {
  const { operation, fireAt, at, absolute } = event;
  const isExact = absolute === true || at === storeNowMs;
  return isExact ? { operation, fireAt } : { operation, fireAt, delayMs: fireAt - at };
}

function toWithdrawals(withdrawn: ReadonlyMap<number, OperationWithdrawn>) {
  const activityCancels: ActivityCancel[] = [];
  const childCancels: ChildCancel[] = [];
  const timerWithdrawals: number[] = [];
  const withdrawnAwakeables: number[] = [];
  for (const { target, targetKind, trigger, reason, childId, abandoned } of withdrawn.values()) {
    if (abandoned === true) continue;
    if (targetKind === 'activity') activityCancels.push({ operation: target, reason, trigger });
    // A step between two attempts has a timer.
    if (targetKind === 'timer' || targetKind === 'step') timerWithdrawals.push(target);
    if (targetKind === 'awakeable') withdrawnAwakeables.push(target);
    if (targetKind === 'child' && childId !== undefined)
      childCancels.push({ instanceId: childId, reason });
  }
  return { activityCancels, childCancels, timerWithdrawals, withdrawnAwakeables };
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

function toOutcome(
  { subject, carried: settings }: TurnEffectsParams,
  terminal: TerminalEvent | undefined,
): TurnOutcome {
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
      const { version, payload, carried, cancel, tags, state } = terminal;
      const start: Message = {
        kind: 'start',
        name: subject.name,
        version,
        payload,
        ...(subject.parent !== null && { parent: subject.parent }),
        ...(carried !== undefined && { carried }),
        ...(cancel !== undefined && { cancel }),
        ...(tags !== undefined && { tags }),
        ...settings,
        ...(state !== undefined && { state }),
      };
      return { status: 'continuedAsNew', version, start: encodeMessage(start) };
    }
  }
}
