import { toCancelDetails, type CancelDetails } from '../model/cancel.ts';
import { PerdureError } from '../model/failures/errors.ts';
import {
  finishedAnswers,
  type AnswerEvent,
  type BufferedEvent,
  type IncomingEvent,
} from '../model/event.ts';
import type { Failure } from '../model/failures/failure.ts';
import type { Message, StartMessage, UpdateMessage } from '../model/message.ts';
import { isAnswerTo, type Operation } from './operations.ts';

type AnswerMessage = Extract<Message, { readonly operation: number }>;

/** Whether an event is the answer of this operation, and the operation ran to its end. */
export function isFinished(
  operation: Operation,
  answer: { readonly kind: string; readonly operation?: number },
): boolean {
  return (
    finishedAnswers.has(answer.kind) &&
    answer.operation === operation.id &&
    isAnswerTo(operation, answer)
  );
}

/** Messages of a batch that belong to the next execution. */
interface Carried {
  readonly carried: readonly BufferedEvent[];
  /** Updates that this execution has not accepted. */
  readonly updates: readonly UpdateMessage[];
  readonly cancel: CancelDetails | undefined;
  /** Whether the clean-up limit has expired. */
  readonly isExpired: boolean;
}

/** The messages of one turn, with a cursor. */
export class MessageBatch {
  readonly #messages: readonly Message[];
  /** Messages that the store ordered before a cancel request that is applied before them. */
  readonly #overtaken: ReadonlySet<Message>;
  readonly #executionId: number;
  #next = 0;
  #answers: ReadonlyMap<number, AnswerMessage> | undefined;

  constructor(messages: readonly Message[], executionId: number) {
    const { ordered, overtaken } = cancelFirst(messages);
    this.#messages = ordered;
    this.#overtaken = overtaken;
    this.#executionId = executionId;
  }

  /** The next message; `undefined` after the last one. */
  get next(): Message | undefined {
    return this.#messages[this.#next];
  }

  /** Moves the cursor past the next message. */
  advance(): void {
    this.#next += 1;
  }

  /** Returns the answer of an operation that ran to its end, if it is in this batch (R15). */
  answerTo(operation: Operation, at: number): AnswerEvent | undefined {
    this.#answers ??= this.#indexAnswers();
    const message = this.#answers.get(operation.id);
    if (message === undefined || !isFinished(operation, message)) return undefined;
    if (this.#isSignaledByCancel(operation) && !this.#overtaken.has(message)) return undefined;
    const { executionId: _, ...event } = message;
    return { ...event, at };
  }

  /** Converts a message to an event. Returns `undefined` for one that is never recorded in this execution. */
  toEvent(message: Message, at: number): IncomingEvent | undefined {
    switch (message.kind) {
      case 'start':
      case 'wake':
      case 'cleanupExpired':
      case 'update':
        return undefined;
      case 'eventRaised':
        return { kind: 'eventReceived', at, name: message.name, payload: message.payload };
      case 'cancel':
        return { kind: 'cancelRequested', at, ...toCancelDetails(message) };
      default: {
        const { executionId, ...event } = message;
        return executionId === this.#executionId ? { ...event, at } : undefined;
      }
    }
  }

  findStart(instanceId: string): StartMessage {
    const start = this.#messages.find((message) => message.kind === 'start');
    if (start !== undefined) return start;
    throw new PerdureError(
      'UNDECODABLE',
      `Instance ${JSON.stringify(instanceId)} has messages, but no history and no start message. Check the store for damage.`,
    );
  }

  /** The failure of an earlier copy of this code, which broke between its last turn and its disposal. */
  get reportedFailure(): Failure | undefined {
    for (const message of this.#messages) {
      if (message.kind === 'wake' && message.broken !== undefined) return message.broken.failure;
    }
    return undefined;
  }

  /** Returns the unread messages for the next execution, after the `leftovers` of this one. */
  carry(leftovers: readonly BufferedEvent[]): Carried {
    const carried = [...leftovers];
    let cancel: CancelDetails | undefined;
    const updates: UpdateMessage[] = [];
    let isExpired = false;
    for (const message of this.#unread()) {
      if (message.kind === 'update') updates.push(message);
      if (message.kind === 'cleanupExpired') isExpired = true;
      if (message.kind === 'cancel') cancel ??= toCancelDetails(message);
      if (message.kind !== 'eventRaised') continue;
      carried.push({ name: message.name, payload: message.payload });
    }
    return { carried, updates, cancel, isExpired };
  }

  /** Whether the current cancel request has signaled the handler in its own transaction, so that later answers are void. */
  #isSignaledByCancel({ kind, cancellation, scope }: Operation): boolean {
    const isRequest = this.#messages[this.#next - 1]?.kind === 'cancel';
    return isRequest && kind === 'activity' && cancellation === 'request' && !scope.isShielded;
  }

  #unread(): readonly Message[] {
    return this.#messages.slice(this.#next);
  }

  #indexAnswers(): ReadonlyMap<number, AnswerMessage> {
    const answers = new Map<number, AnswerMessage>();
    for (const message of this.#unread()) {
      if (!('operation' in message) || message.executionId !== this.#executionId) continue;
      if (finishedAnswers.has(message.kind) && !answers.has(message.operation)) {
        answers.set(message.operation, message);
      }
    }
    return answers;
  }
}

interface CancelFirst {
  readonly ordered: readonly Message[];
  readonly overtaken: ReadonlySet<Message>;
}

const none: ReadonlySet<Message> = new Set();

/**
 * Moves a cancel request before the first message that it caused, regardless of their order in the store. All other messages
 * keep their order. A message that the request overtakes may be older: another cancel may have had the same reason.
 */
function cancelFirst(messages: readonly Message[]): CancelFirst {
  const index = messages.findIndex(({ kind }) => kind === 'cancel');
  const cancel = messages[index];
  if (cancel?.kind !== 'cancel' || index === 0) return { ordered: messages, overtaken: none };
  const effect = messages.findIndex((message) => isEffectOf(cancel, message));
  if (effect < 0 || effect > index) return { ordered: messages, overtaken: none };
  const ordered = messages.toSpliced(index, 1).toSpliced(effect, 0, cancel);
  return { ordered, overtaken: new Set(messages.slice(effect, index)) };
}

/** Whether the cancel caused the message. A lost race or a timeout has another cause. */
function isEffectOf(cancel: Message & { kind: 'cancel' }, message: Message): boolean {
  if (message.kind === 'cleanupExpired') return true;
  return (
    message.kind === 'activityCanceled' &&
    message.trigger === (cancel.trigger ?? 'cancel') &&
    message.reason === cancel.reason
  );
}
