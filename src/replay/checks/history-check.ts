import { NondeterminismError } from '../../model/failures/errors.ts';
import type {
  AnswerEvent,
  CommandEvent,
  ExecutionStarted,
  HistoryEvent,
  IncomingEvent,
  TerminalEvent,
} from '../../model/event.ts';
import { describeEvent, isSameCommand, labelEvent } from './command-matching.ts';
import { isFinished } from '../message-batch.ts';
import type { Operation } from '../operations.ts';
import { isSameOutcome } from '../ending.ts';

/** Where the code stands: the id of the next recorded event, and how the code has ended, if it has. */
interface Position {
  readonly eventId: number;
  readonly outcome: TerminalEvent | undefined;
}

/** Whose history is checked, and what to do about a disagreement. */
interface Subject {
  readonly instanceId: string;
  readonly executionId: number;
  readonly advice?: string;
}

const changedCode =
  'Restore the old code path, or register the changed code as a new version beside the old one.';

/** Holds what the code does during replay against what history records, and says where the two part. */
export class HistoryCheck {
  readonly #subject: Subject;
  /** What the code led to, and history has to record next; those before `#head` are confirmed. */
  #issued: (CommandEvent | AnswerEvent)[] = [];
  #head = 0;
  /** What is being replayed, and the place of the event that is being applied. */
  #replayed: readonly HistoryEvent[] = [];
  #index = 0;

  constructor(subject: Subject) {
    this.#subject = subject;
  }

  /** The event that is applied next. */
  follow(replayed: readonly HistoryEvent[], index: number): void {
    this.#replayed = replayed;
    this.#index = index;
  }

  /** The code issued a command, which history has yet to confirm. */
  addIssued(command: CommandEvent): void {
    this.#issued.push(command);
  }

  /** The event that is recorded where the next command of the code belongs. */
  get recordedNext(): HistoryEvent | undefined {
    return this.#replayed[this.#index + 1 + this.#issued.length - this.#head];
  }

  /** The answer to an operation, if history records it, in the same turn, where the code would now withdraw the operation. */
  takeRecordedAnswer(operation: Operation, at: number): AnswerEvent | undefined {
    const next = this.recordedNext;
    if (next?.at !== at || !isFinished(operation, next)) return undefined;
    this.#issued.push(next as AnswerEvent);
    return next as AnswerEvent;
  }

  /** Says whether a recorded answer is one that the code has met already, and confirms it. */
  isTakenAnswer(recorded: IncomingEvent): boolean {
    if (this.#issued[this.#head] !== recorded) return false;
    this.#advance();
    return true;
  }

  /** Throws if history goes on after its own end. */
  confirmNotEnded(recorded: HistoryEvent, standing: Position, hasEnded: boolean): void {
    if (hasEnded) throw this.#disagreement(recorded, standing, ended(standing) ?? 'has ended');
  }

  confirmStart(recorded: ExecutionStarted, standing: Position): void {
    if (standing.eventId > 1) throw this.#disagreement(recorded, standing, 'runs already');
  }

  confirmCommand(recorded: CommandEvent, standing: Position): void {
    const issued = this.#issued[this.#head];
    if (issued === undefined || !isSameCommand(recorded, issued)) {
      const did = issued === undefined ? undefined : `issued ${describeEvent(issued)}`;
      throw this.#disagreement(
        recorded,
        standing,
        did ?? ended(standing) ?? 'does not do that',
        issued,
      );
    }
    this.#advance();
  }

  /** Throws unless the code is ready to be given the event. */
  confirmIncoming(recorded: IncomingEvent, standing: Position, isAnswerable: boolean): void {
    this.#confirmNothingIssued(recorded, standing);
    const obstacle =
      ended(standing) ?? (isAnswerable ? undefined : 'has no such operation outstanding');
    if (obstacle !== undefined) throw this.#disagreement(recorded, standing, obstacle);
  }

  confirmOutcome(recorded: TerminalEvent, standing: Position): void {
    this.#confirmNothingIssued(recorded, standing);
    const { outcome } = standing;
    if (outcome === undefined || !isSameOutcome(recorded, outcome)) {
      throw this.#disagreement(recorded, standing, ended(standing) ?? 'still waits');
    }
  }

  /** Throws unless the code stands still: its execution was ended from outside. */
  confirmInterrupted(recorded: TerminalEvent, standing: Position): void {
    this.#confirmNothingIssued(recorded, standing);
  }

  /** Throws if the code did more than history records, now that all of it was shown. */
  confirmNothingLeft(standing: Position): void {
    this.#confirmNothingIssued(undefined, standing);
    const end = ended(standing);
    if (end !== undefined) throw this.#disagreement(undefined, standing, end);
  }

  #advance(): void {
    this.#head += 1;
    if (this.#head < this.#issued.length) return;
    this.#issued = [];
    this.#head = 0;
  }

  #confirmNothingIssued(recorded: HistoryEvent | undefined, standing: Position): void {
    const extra = this.#issued[this.#head];
    if (extra === undefined) return;
    const place = recorded === undefined ? '' : ' before it';
    throw this.#disagreement(recorded, standing, `issued ${describeEvent(extra)}${place}`, extra);
  }

  #disagreement(
    recorded: HistoryEvent | undefined,
    { eventId, outcome }: Position,
    did: string,
    issued: HistoryEvent | undefined = outcome,
  ): NondeterminismError {
    const { instanceId, executionId, advice = changedCode } = this.#subject;
    const labels = {
      recorded: recorded === undefined ? 'nothing' : labelEvent(recorded),
      issued: issued === undefined ? 'nothing' : labelEvent(issued),
    };
    // Then the two differ in their input, their child id or how they are canceled.
    if (labels.recorded === labels.issued) labels.issued += ' with other arguments';
    const records =
      recorded === undefined ? 'goes no further' : `records ${describeEvent(recorded)}`;
    return new NondeterminismError(
      `Instance '${instanceId}', execution ${executionId}, event ${eventId}: history ${records}, but the code ${did}. ${advice}`,
      eventId,
      labels,
    );
  }
}

function ended({ outcome }: Position): string | undefined {
  return outcome === undefined ? undefined : `has ended: ${describeEvent(outcome)}`;
}
