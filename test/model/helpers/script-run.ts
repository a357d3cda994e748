import type { CancellationType } from '../../../src/model/cancel.ts';
import type { HistoryEvent, IncomingEvent } from '../../../src/model/event.ts';
import { decodePayload } from '../../../src/model/values/payload.ts';
import type { Script, WorkInput } from './script.ts';

/** How an execution ends, and with what output. */
export interface End {
  readonly status: 'completed' | 'failed' | 'canceled' | 'continuedAsNew';
  readonly output?: string;
}

type Answer = 'completed' | 'failed' | 'canceled';

interface Awaited {
  /** `all`: each of them; `any`: the first of them; `scope`: the first, unless that is the deadline. */
  readonly what: 'all' | 'any' | 'scope';
  readonly labels: Set<string>;
}

const answers: Readonly<Partial<Record<IncomingEvent['kind'], Answer>>> = {
  activityCompleted: 'completed',
  activityFailed: 'failed',
  activityCanceled: 'canceled',
  timerFired: 'completed',
  childCompleted: 'completed',
  childFailed: 'failed',
  childCanceled: 'canceled',
};

/**
 * The expected behaviour of one execution of a script, driven by the events of its history: which operations are
 * pending, and how it ends. It does not model stores, turns, leases or promises.
 */
export class ScriptRun {
  readonly executionId: number;
  readonly #script: Script;
  readonly #pending = new Map<string, CancellationType>();
  readonly #activities = new Set<string>();
  readonly #abortedByCancel = new Set<string>();
  readonly #labels = new Map<number, string>();
  /** After a cancel, these must be withdrawn before any other event. */
  readonly #toWithdraw = new Set<string>();
  readonly #pendingAtCancel = new Set<string>();
  #step = -1;
  #awaited: Awaited = { what: 'all', labels: new Set() };
  #phase: 'steps' | 'cleanUp' | 'over' = 'steps';
  #error: 'canceled' | 'other' | undefined;
  #end: End | undefined;
  /** Raised events that were not consumed yet; carried over to the next execution. */
  buffered: number;
  canceled = false;

  constructor(executionId: number, script: Script, buffered: number) {
    this.executionId = executionId;
    this.#script = script;
    this.buffered = buffered;
  }

  /** The expected end; `undefined` while the execution continues. */
  get end(): End | undefined {
    // A pending operation with mode `wait` delays every end.
    return [...this.#pending.values()].includes('wait') ? undefined : this.#end;
  }

  /** The code has continued as new, although a pending operation may delay that. */
  get isContinuing(): boolean {
    return this.#end?.status === 'continuedAsNew';
  }

  /** The code has ended, although a pending operation may delay that. */
  get isOver(): boolean {
    return this.#phase === 'over';
  }

  /** The script of the next execution. */
  get rest(): Script {
    return { ...this.#script, steps: this.#script.steps.slice(this.#step + 1) };
  }

  /** Whether the outcome of an operation can still change the state. */
  isPending(operation: number): boolean {
    const label = this.#labels.get(operation);
    return label !== undefined && this.#pending.has(label);
  }

  /** Whether the cancel aborted the handler. The operation is then withdrawn, whatever its handler returns. */
  isAbortedByCancel(operation: number): boolean {
    return this.#abortedByCancel.has(this.#labels.get(operation) ?? '');
  }

  get #timer(): string {
    return `timer of ${this.#step}`;
  }

  start(): void {
    this.#next();
  }

  /** Cancels the execution: its pending operations must be withdrawn, unless their outcome is in the same turn. */
  cancel(): void {
    if (this.canceled) return;
    this.canceled = true;
    for (const [label, cancellation] of this.#pending) {
      this.#pendingAtCancel.add(label);
      const isAborted = cancellation === 'request' && this.#activities.has(label);
      if (isAborted && label !== 'clean-up') this.#abortedByCancel.add(label);
      if (cancellation !== 'wait' && label !== 'clean-up') this.#toWithdraw.add(label);
    }
  }

  /** Applies one event. Returns what is wrong with it; `undefined` if it is valid. */
  apply(event: HistoryEvent): string | undefined {
    switch (event.kind) {
      case 'activityScheduled': {
        const { label } = decodePayload(event.payload) as WorkInput;
        this.#activities.add(label);
        return this.#issued(event.operation, label);
      }
      case 'childScheduled':
        return this.#issued(event.operation, event.childId.replace(/^.*\./, ''));
      case 'timerCreated':
        return this.#issued(event.operation, this.#timer);
      case 'eventAwaited': {
        const wrong = this.#issued(event.operation, 'event');
        if (wrong === undefined && this.buffered > 0) this.#takeEvent();
        return wrong;
      }
      case 'operationWithdrawn':
        return this.#withdrawn(event.target);
      case 'eventReceived':
        this.buffered += 1;
        if (this.#pending.has('event')) this.#takeEvent();
        return this.#leftover;
      case 'cancelRequested':
        this.cancel();
        return undefined;
      default: {
        const answer = answers[event.kind as IncomingEvent['kind']];
        if (answer === undefined || !('operation' in event)) return undefined;
        const label = this.#labels.get(event.operation) ?? '';
        const wrong = this.#pendingAtCancel.has(label) ? undefined : this.#leftover;
        this.#answer(event.operation, answer);
        return wrong;
      }
    }
  }

  /** An operation that the cancel should have withdrawn before this event. */
  get #leftover(): string | undefined {
    const [label] = this.#toWithdraw;
    return label === undefined ? undefined : `did not withdraw ${label}`;
  }

  #withdrawn(operation: number): string | undefined {
    const label = this.#labels.get(operation) ?? '';
    if (this.#pending.get(label) === 'wait') return undefined;
    if (label === 'clean-up') return 'withdrew its clean-up';
    this.#answer(operation, this.canceled ? 'canceled' : 'completed');
    return undefined;
  }

  #issued(operation: number, label: string): string | undefined {
    this.#labels.set(operation, label);
    return this.#pending.has(label) ? undefined : `issued ${label}, which is not its turn`;
  }

  #answer(operation: number, answer: Answer): void {
    const label = this.#labels.get(operation);
    if (label === undefined || !this.#pending.delete(label)) return;
    this.#toWithdraw.delete(label);
    if (this.#phase === 'over' || !this.#awaited.labels.delete(label)) return;
    if (this.#phase === 'cleanUp') this.#cleanedUp(answer);
    else if (answer !== 'completed') this.#raise(answer === 'canceled' ? 'canceled' : 'other');
    else if (this.#awaited.what === 'scope' && label === this.#timer) return;
    else if (this.#awaited.what !== 'all' || this.#awaited.labels.size === 0) {
      this.#forgetLosers();
      this.#next();
    }
  }

  /** Race losers are no longer pending, except those with mode `wait`. */
  #forgetLosers(): void {
    for (const label of this.#awaited.labels) {
      if (this.#pending.get(label) === 'wait') continue;
      this.#pending.delete(label);
      this.#toWithdraw.delete(label);
    }
  }

  #next(): void {
    this.#step += 1;
    const step = this.#script.steps[this.#step];
    if (step === undefined) {
      this.#decide({ status: 'completed', output: 'done' });
    } else if (this.canceled) {
      this.#raise('canceled');
    } else if (step.do === 'again') {
      this.#decide({ status: 'continuedAsNew' });
    } else {
      const label = `${this.#step}`;
      switch (step.do) {
        case 'call':
          return this.#await('all', [[label, step.call.cancellation]]);
        case 'both':
          return this.#await('all', [
            [`${label}a`, step.first.cancellation],
            [`${label}b`, step.second.cancellation],
          ]);
        case 'race':
        case 'scope':
          return this.#await(step.do === 'race' ? 'any' : 'scope', [
            [label, step.call.cancellation],
            [this.#timer, 'request'],
          ]);
        case 'sleep':
          return this.#await('all', [[this.#timer, 'request']]);
        case 'child':
          return this.#await('all', [[label, step.cancellation]]);
        case 'wait':
          return this.#await('all', [['event', 'request']]);
      }
    }
  }

  #await(
    what: Awaited['what'],
    operations: readonly (readonly [string, CancellationType])[],
  ): void {
    for (const [label, cancellation] of operations) this.#pending.set(label, cancellation);
    this.#awaited = { what, labels: new Set(operations.map(([label]) => label)) };
  }

  #takeEvent(): void {
    this.buffered -= 1;
    this.#toWithdraw.delete('event');
    this.#pending.delete('event');
    this.#awaited.labels.delete('event');
    this.#next();
  }

  #raise(error: 'canceled' | 'other'): void {
    this.#error = error;
    this.#awaited = { what: 'all', labels: new Set() };
    if (!this.#script.cleanUp) return this.#endWithError();
    this.#phase = 'cleanUp';
    this.#await('all', [['clean-up', 'request']]);
  }

  #cleanedUp(answer: Answer): void {
    if (answer === 'completed') this.#endWithError();
    else this.#decide({ status: 'failed' });
  }

  #endWithError(): void {
    const { onError } = this.#script;
    if (onError === 'return') this.#decide({ status: 'completed', output: 'kept' });
    else if (onError === 'fail' || this.#error === 'other' || !this.canceled) {
      this.#decide({ status: 'failed' });
    } else this.#decide({ status: 'canceled' });
  }

  /** Ends the code: its pending operations are given up. */
  #decide(end: End): void {
    this.#phase = 'over';
    this.#end = end;
    for (const [label, cancellation] of this.#pending) {
      if (cancellation !== 'wait') this.#pending.delete(label);
    }
    this.#toWithdraw.clear();
  }
}
