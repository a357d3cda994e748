import type { HistoryEvent, StepRetried } from '../../model/event.ts';
import { EventWaits } from '../reading/event-waits.ts';

/** An accepted update without a reply. */
export interface OpenUpdate {
  readonly key: string;
  readonly name: string;
  /** The next execution handles it. Absent: its handler runs. */
  readonly deferred?: true;
}

/** An operation of an execution without an outcome. */
export interface OpenOperation {
  readonly kind: 'activity' | 'step' | 'timer' | 'child' | 'detached' | 'event' | 'awakeable';
  readonly operation: number;
  /** The name of the activity, child or event. */
  readonly name?: string;
  readonly childId?: string;
  /** The id of the event that started a child. */
  readonly issuedAt?: number;
  readonly fireAt?: number;
  /** Of a step: its last failed attempt. Steps without one are not in the history. */
  readonly retried?: StepRetried;
  /** It was canceled but has not stopped. */
  readonly isStopping?: true;
}

/** Collects the open operations of an execution from its history events. */
export class OpenOperations {
  readonly #open = new Map<number, OpenOperation>();
  readonly #events: EventWaits;
  readonly #updates = new Map<string, OpenUpdate>();
  /** Operations with `cancellation: 'wait'`: open until they have stopped, even if withdrawn. */
  readonly #mustStop = new Set<number>();

  /** `isPartial`: the first event to add is not the first of the history. */
  constructor({ isPartial = false }: { readonly isPartial?: boolean } = {}) {
    this.#events = new EventWaits(isPartial);
  }

  get all(): readonly OpenOperation[] {
    return [...this.#open.values()];
  }

  /** The accepted updates without a reply. */
  get updates(): readonly OpenUpdate[] {
    return [...this.#updates.values()];
  }

  /** Adds an event with its id. */
  add(event: HistoryEvent, id: number): void {
    if ('cancellation' in event && event.cancellation === 'wait')
      this.#mustStop.add(event.operation);
    switch (event.kind) {
      case 'executionStarted':
        for (const { name } of event.carried ?? []) this.#events.arrive(name);
        break;
      case 'activityScheduled':
        this.#set({ kind: 'activity', operation: event.operation, name: event.name });
        break;
      case 'stepRetried':
        this.#set({ kind: 'step', operation: event.operation, name: event.name, retried: event });
        break;
      case 'timerCreated':
        this.#set({ kind: 'timer', operation: event.operation, fireAt: event.fireAt });
        break;
      case 'childScheduled': {
        const { operation, name, childId } = event;
        this.#set({ kind: 'child', operation, name, childId, issuedAt: id });
        break;
      }
      case 'detachedStarted': {
        const { operation, name, childId } = event;
        this.#set({ kind: 'detached', operation, name, childId });
        break;
      }
      case 'awakeableCreated':
        this.#set({ kind: 'awakeable', operation: event.operation });
        break;
      case 'updateAccepted':
        this.#updates.set(event.key, {
          key: event.key,
          name: event.name,
          ...(event.deferred === true && { deferred: true }),
        });
        break;
      case 'updateCompleted':
      case 'updateFailed':
        this.#updates.delete(event.key);
        break;
      case 'eventAwaited': {
        const { operation, name } = event;
        if (this.#events.wait(name, operation)) this.#set({ kind: 'event', operation, name });
        break;
      }
      case 'eventReceived':
        this.#open.delete(this.#events.arrive(event.name) ?? 0);
        break;
      case 'operationWithdrawn': {
        const open = this.#open.get(event.target);
        this.#events.withdraw(event.target);
        if (!this.#mustStop.has(event.target)) this.#open.delete(event.target);
        else if (open !== undefined) this.#set({ ...open, isStopping: true });
        break;
      }
      case 'activityCompleted':
      case 'activityFailed':
      case 'activityCanceled':
      case 'stepCompleted':
      case 'stepFailed':
      case 'timerFired':
      case 'childCompleted':
      case 'childFailed':
      case 'childCanceled':
      case 'detachedConfirmed':
      case 'detachedFailed':
      case 'awakeableResolved':
      case 'awakeableRejected':
        this.#open.delete(event.operation);
        break;
      default:
        break;
    }
  }

  #set(operation: OpenOperation): void {
    this.#open.set(operation.operation, operation);
  }
}
