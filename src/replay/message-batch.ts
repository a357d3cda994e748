import type { CancelDetails } from '../model/cancel.ts';
import { PerdureError } from '../model/failures/errors.ts';
import type { AnswerEvent, BufferedEvent, IncomingEvent } from '../model/event.ts';
import type { Failure } from '../model/failures/failure.ts';
import type { Message, StartMessage } from '../model/message.ts';
import { isAnswerTo, type Operation } from './operations.ts';

type AnswerMessage = Extract<Message, { readonly operation: number }>;

/** What came of work that ran to its end. */
const finished: ReadonlySet<string> = new Set<AnswerEvent['kind']>([
  'activityCompleted',
  'activityFailed',
  'timerFired',
  'childCompleted',
  'childFailed',
  'detachedConfirmed',
  'detachedFailed',
]);

/** Says whether an event is the answer to an operation that ran to its end, rather than being stopped. */
export function isFinished(
  operation: Operation,
  answer: { readonly kind: string; readonly operation?: number },
): boolean {
  return (
    finished.has(answer.kind) && answer.operation === operation.id && isAnswerTo(operation, answer)
  );
}

/** What a batch leaves to the next execution. */
interface Carried {
  readonly carried: readonly BufferedEvent[];
  readonly cancel: CancelDetails | undefined;
  /** Whether the time for the clean-up is over. */
  readonly isExpired: boolean;
}

/** The messages of one turn, read one after the other. */
export class MessageBatch {
  readonly #messages: readonly Message[];
  /** What the store put before a request to stop that is applied first: no handler of it had been told. */
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

  /** The next message, or `undefined` after the last. */
  get next(): Message | undefined {
    return this.#messages[this.#next];
  }

  /** The next message is being dealt with. */
  advance(): void {
    this.#next += 1;
  }

  /** The answer to an operation that ran to its end, if it is in this batch. */
  answerTo(operation: Operation, at: number): AnswerEvent | undefined {
    this.#answers ??= this.#indexAnswers();
    const message = this.#answers.get(operation.id);
    if (message === undefined || !isFinished(operation, message)) return undefined;
    if (this.#isToldByRequest(operation) && !this.#overtaken.has(message)) return undefined;
    const { executionId: _, ...event } = message;
    return { ...event, at };
  }

  /** The event that a message becomes if the execution can take it; `undefined` if it never becomes one. */
  toEvent(message: Message, at: number): IncomingEvent | undefined {
    switch (message.kind) {
      case 'start':
      case 'wake':
      case 'cleanupExpired':
        return undefined;
      case 'eventRaised':
        return { kind: 'eventReceived', at, name: message.name, payload: message.payload };
      case 'cancel':
        return { kind: 'cancelRequested', at, reason: message.reason, actor: message.actor };
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
      `Instance '${instanceId}' has messages, but neither a history nor a start message. Was its store damaged?`,
    );
  }

  /** What an earlier copy of this live function broke with, after its turn and before it was let go. */
  get reportedFailure(): Failure | undefined {
    for (const message of this.#messages) {
      if (message.kind === 'wake' && message.broken !== undefined) return message.broken.failure;
    }
    return undefined;
  }

  /** What is left for the next execution, after the events that nobody waited for in this one. */
  carry(leftovers: readonly BufferedEvent[]): Carried {
    const carried = [...leftovers];
    let cancel: CancelDetails | undefined;
    let isExpired = false;
    for (const message of this.#rest()) {
      if (message.kind === 'cleanupExpired') isExpired = true;
      if (message.kind === 'cancel') cancel ??= { reason: message.reason, actor: message.actor };
      if (message.kind !== 'eventRaised') continue;
      carried.push({ name: message.name, payload: message.payload });
    }
    return { carried, cancel, isExpired };
  }

  /** The transaction of a request to stop also tells the handlers: what they answer after it is worth nothing, however soon. */
  #isToldByRequest({ kind, cancellation, scope }: Operation): boolean {
    const isRequest = this.#messages[this.#next - 1]?.kind === 'cancel';
    return isRequest && kind === 'activity' && cancellation === 'request' && !scope.isShielded;
  }

  #rest(): readonly Message[] {
    return this.#messages.slice(this.#next);
  }

  #indexAnswers(): ReadonlyMap<number, AnswerMessage> {
    const answers = new Map<number, AnswerMessage>();
    for (const message of this.#rest()) {
      if (!('operation' in message) || message.executionId !== this.#executionId) continue;
      if (finished.has(message.kind) && !answers.has(message.operation)) {
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
 * Work that was stopped tells so for a reason: the cancel that led to it is applied first, wherever a store put it.
 * Everything else keeps its order. Another cancel may have had the same reason, so what was overtaken may be older than
 * the request.
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

/** Work that lost a race or ran out of time was stopped by something else: a cancel does not overtake it. */
function isEffectOf(cancel: Message & { kind: 'cancel' }, message: Message): boolean {
  if (message.kind === 'cleanupExpired') return true;
  return (
    message.kind === 'activityCanceled' &&
    message.trigger === 'cancel' &&
    message.reason === cancel.reason
  );
}
