import { toCancelDetails, type CancelDetails } from './cancel.ts';
import {
  finishedAnswers,
  isCommand,
  isIncoming,
  type ActivityScheduled,
  type AwakeableCreated,
  type ChildScheduled,
  type DetachedStarted,
  type ExecutionStarted,
  type HistoryEvent,
  type InheritedEvents,
  type OperationWithdrawn,
  type TimerCreated,
} from './event.ts';
import type { Message } from './message.ts';
import type { Payload } from './values/payload.ts';
import { defaultChildId } from './values/child-id.ts';
import { StateValues, type StateValue } from './values/state.ts';
import { applyTags, type Tags } from './values/tags.ts';

/** An operation whose answer is not among the kept events. */
type OpenOperation =
  | ActivityScheduled
  | TimerCreated
  | ChildScheduled
  | DetachedStarted
  | AwakeableCreated;

/** The state of an execution after its first `events` events, computed without its code. */
export interface KeptHistory {
  readonly started: ExecutionStarted;
  /** The number of kept events. */
  readonly events: number;
  /** Operations that wait for an answer, in call order. */
  readonly open: readonly OpenOperation[];
  /** Operations of type `wait` that were canceled and wait for their answer. */
  readonly withdrawn: ReadonlyMap<number, OperationWithdrawn>;
  /** The ids of the events that issued the open operations. */
  readonly issuedAt: ReadonlyMap<number, number>;
  readonly cancel: CancelDetails | undefined;
  /** Received external events that the code has not consumed. */
  readonly bufferedEvents: number;
  readonly customStatus: Payload | null;
  readonly tags: Tags;
  readonly state: readonly StateValue[];
}

/** What a run from the point of failure keeps, and what it delivers again. */
export interface FailurePoint {
  /** The number of events to keep. 0: run again from the start. */
  readonly keep: number;
  /** The events after those, without the end. */
  readonly takenBack: readonly HistoryEvent[];
}

/**
 * Finds the point before the failure of an ended execution: before its cancel request, if there was one; else before its
 * last incoming event. A terminated execution has no such event and keeps all.
 */
export function findFailurePoint(events: readonly HistoryEvent[]): FailurePoint {
  const [started] = events;
  const end = events.length - 1;
  if (started?.kind !== 'executionStarted' || started.cancel !== undefined) {
    return { keep: 0, takenBack: [] };
  }
  const canceledAt = events.findIndex(({ kind }) => kind === 'cancelRequested');
  const isTerminated = events[end]?.kind === 'executionTerminated';
  const keep =
    canceledAt >= 0
      ? canceledAt
      : isTerminated
        ? end
        : moveCut(events, Math.max(0, events.findLastIndex(isInput)));
  return { keep, takenBack: keep === 0 ? [] : events.slice(keep, end) };
}

/**
 * Returns the number of events to keep for a cut after `count` events: `count`, or the events before the turn that the cut
 * would split. An answer that arrives in the same turn as a withdrawal of its operation replaces the withdrawal. A copy
 * without that answer would withdraw the operation. `events` must contain the incoming event after the cut.
 */
export function moveCut(events: readonly HistoryEvent[], count: number): number {
  const at = events[count - 1]?.at;
  const next = events.findIndex((event, index) => index >= count && isIncoming(event));
  const answer = events[next];
  if (answer === undefined || answer.at !== at) return count;
  if (!('operation' in answer) || !finishedAnswers.has(answer.kind)) {
    return count;
  }
  // No event records when a step was issued, so its turn cannot be distinguished from earlier ones of the same time.
  if (answer.kind === 'stepCompleted' || answer.kind === 'stepFailed') return count;
  // Two turns can have the same time. No turn answers an operation that it issued itself.
  let first = next;
  for (let index = next - 1; index > 0; index--) {
    const event = events[index] as HistoryEvent;
    const isIssue =
      isCommand(event) && 'operation' in event && event.operation === answer.operation;
    if (event.at !== at || isIssue) break;
    if (isIncoming(event)) first = index;
  }
  // The events before may belong to a turn that this splits.
  return first < count ? moveCut(events, first) : count;
}

/** Computes the state of an execution after its first `count` events. */
export function keepHistory(events: readonly HistoryEvent[], count: number): KeptHistory {
  const [started] = events;
  if (started?.kind !== 'executionStarted') throw new Error('A history begins with its start.');
  const open = new Map<number, OpenOperation>();
  const issuedAt = new Map<number, number>();
  const withdrawn = new Map<number, OperationWithdrawn>();
  const inbox = new Inbox();
  let cancel: CancelDetails | undefined = started.cancel;
  let customStatus: Payload | null = null;
  let tags = started.tags ?? {};
  const state = new StateValues(started.state);
  for (const { name } of started.carried ?? []) inbox.receive(name);
  for (let index = 0; index < count; index++) {
    const event = events[index] as HistoryEvent;
    switch (event.kind) {
      case 'activityScheduled':
      case 'timerCreated':
      case 'childScheduled':
      case 'detachedStarted':
      case 'awakeableCreated':
        open.set(event.operation, event);
        issuedAt.set(event.operation, index + 1);
        break;
      case 'eventAwaited':
        inbox.wait(event.name, event.operation);
        break;
      case 'eventReceived':
        inbox.receive(event.name);
        break;
      case 'operationWithdrawn': {
        const target = open.get(event.target);
        if (event.targetKind === 'event') inbox.withdraw(event.target);
        else if (isWaiting(target)) withdrawn.set(event.target, event);
        else open.delete(event.target);
        break;
      }
      case 'cancelRequested':
        cancel ??= toCancelDetails(event);
        break;
      case 'customStatusSet':
        customStatus = event.payload;
        break;
      case 'stateSet':
        state.apply(event.key, event.payload);
        break;
      case 'tagsSet':
        tags = applyTags(tags, event.tags);
        break;
      default:
        if (!('operation' in event)) break;
        open.delete(event.operation);
        withdrawn.delete(event.operation);
    }
  }
  return {
    started,
    events: count,
    open: [...open.values()],
    withdrawn,
    issuedAt,
    cancel,
    bufferedEvents: inbox.buffered,
    customStatus,
    tags,
    state: state.values(),
  };
}

/** The execution whose events are copied. */
export interface HistorySource {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
}

/** Returns the first event of the execution that begins with the kept events, with their writers. */
export function toInheritedStart(
  { started, events }: Pick<KeptHistory, 'started' | 'events'>,
  { instanceId, incarnation, executionId }: HistorySource,
): ExecutionStarted {
  const earlier = inheritedOf(started).filter((_, index, all) => {
    const from = index === 0 ? 0 : (all[index - 1]?.events ?? 0);
    return from < events;
  });
  const last = earlier.at(-1);
  const own = { instanceId, incarnation, executionId, events };
  const inherited: InheritedEvents[] =
    last !== undefined && last.events >= events
      ? [...earlier.slice(0, -1), { ...last, events }]
      : [...earlier, own];
  return { ...started, inherited };
}

/** The number of events that an execution did not record itself. */
export function inheritedCount(started: ExecutionStarted): number {
  return inheritedOf(started).at(-1)?.events ?? 0;
}

/** The start of a child, as recorded. */
export interface RecordedChild {
  readonly operation: number;
  readonly childId: string;
  /** The id of the event that started it. */
  readonly issuedAt: number;
}

/**
 * Returns the ids that the child of an operation can have, the newest first.
 *
 * A retry or a fork starts the child of a copied event again, under an id of its own execution. It does not if it kept
 * or delivers the result of the earlier child. The child is therefore the first of these ids that exists.
 */
export function possibleChildIds(
  { operation, childId, issuedAt }: RecordedChild,
  execution: {
    readonly instanceId: string;
    readonly executionId: number;
    readonly started: ExecutionStarted;
  },
): readonly string[] {
  const writers = [...inheritedOf(execution.started), { ...execution, events: Infinity }];
  const later = writers.slice(writers.findIndex(({ events }) => issuedAt <= events) + 1);
  return [
    ...later
      .toReversed()
      .map(({ instanceId, executionId }) => defaultChildId({ instanceId, executionId, operation })),
    childId,
  ];
}

function inheritedOf({ inherited = [] }: ExecutionStarted): readonly InheritedEvents[] {
  return inherited;
}

/**
 * Returns the messages that deliver taken-back events again, and the operations that they answer. External events would
 * be lost otherwise, and completed work must not run twice. A failed, canceled or unfinished operation runs again; a
 * rejected awakeable can be answered again.
 */
export function redeliver(
  takenBack: readonly HistoryEvent[],
  { open }: Pick<KeptHistory, 'open'>,
  executionId: number,
): { readonly messages: readonly Message[]; readonly answered: ReadonlySet<number> } {
  const waiting = new Set(open.map(({ operation }) => operation));
  const answered = new Set<number>();
  const messages: Message[] = [];
  const replied = new Set(
    takenBack.flatMap((event) => (event.kind === 'updateCompleted' ? [event.key] : [])),
  );
  for (const event of takenBack) {
    if (event.kind === 'eventReceived') {
      messages.push({ kind: 'eventRaised', name: event.name, payload: event.payload });
    }
    // Its caller has the reply, so its effects must not be lost. One without a reply was interrupted.
    if (event.kind === 'updateAccepted' && replied.has(event.key)) {
      const { key, name, payload } = event;
      messages.push({ kind: 'update', key, name, payload });
    }
    const isCompleted =
      event.kind === 'activityCompleted' ||
      event.kind === 'stepCompleted' ||
      event.kind === 'childCompleted' ||
      event.kind === 'detachedConfirmed' ||
      event.kind === 'awakeableResolved';
    if (!isCompleted) continue;
    // A step is open without an event. The code drops an answer that it does not wait for.
    if (event.kind !== 'stepCompleted' && !waiting.has(event.operation)) continue;
    answered.add(event.operation);
    const { at: _, ...answer } = event;
    messages.push({ ...answer, executionId });
  }
  return { messages, answered };
}

const inputs: ReadonlySet<HistoryEvent['kind']> = new Set([
  'activityCompleted',
  'activityFailed',
  'activityCanceled',
  'stepCompleted',
  'stepFailed',
  'timerFired',
  'eventReceived',
  'childCompleted',
  'childFailed',
  'childCanceled',
  'detachedConfirmed',
  'detachedFailed',
  'awakeableResolved',
  'awakeableRejected',
  'updateAccepted',
]);

function isInput({ kind }: HistoryEvent): boolean {
  return inputs.has(kind);
}

function isWaiting(operation: OpenOperation | undefined): boolean {
  return (
    operation !== undefined && 'cancellation' in operation && operation.cancellation === 'wait'
  );
}

/** Counts buffered events as the code consumes them: each goes to the oldest wait for its name. */
class Inbox {
  buffered = 0;
  readonly #events = new Map<string, number>();
  readonly #waits = new Map<string, Set<number>>();
  readonly #names = new Map<number, string>();

  receive(name: string): void {
    const waits = this.#waits.get(name);
    const [oldest] = waits ?? [];
    if (oldest === undefined) {
      this.#events.set(name, (this.#events.get(name) ?? 0) + 1);
      this.buffered += 1;
    } else this.withdraw(oldest);
  }

  wait(name: string, operation: number): void {
    const events = this.#events.get(name) ?? 0;
    if (events > 0) {
      this.#events.set(name, events - 1);
      this.buffered -= 1;
      return;
    }
    const waits = this.#waits.get(name) ?? new Set();
    waits.add(operation);
    this.#waits.set(name, waits);
    this.#names.set(operation, name);
  }

  withdraw(operation: number): void {
    const name = this.#names.get(operation);
    if (name === undefined) return;
    this.#names.delete(operation);
    this.#waits.get(name)?.delete(operation);
  }
}
