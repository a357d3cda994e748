import { NondeterminismError } from '../../model/failures/errors.ts';
import type {
  AnswerEvent,
  CommandEvent,
  ExecutionStarted,
  HistoryEvent,
  IncomingEvent,
  TerminalEvent,
} from '../../model/event.ts';
import {
  describeEvent,
  isSameCommand,
  isSameOutcome,
  labelEvent,
  summarizeEvent,
} from './command-matching.ts';
import { isFinished } from '../message-batch.ts';
import type { Operation } from '../operations.ts';

/** The position of the code: the id of the next event, and the outcome if the code has ended. */
interface Position {
  readonly eventId: number;
  readonly outcome: TerminalEvent | undefined;
}

type StepStub = Extract<HistoryEvent, { kind: 'stepCompleted' }>;

/** The execution that is checked, and the advice for a disagreement. */
interface Subject {
  readonly instanceId: string;
  readonly executionId: number;
  readonly advice?: string | undefined;
}

const changedCode =
  'Restore the old code path, or register the changed code as a new version next to the old one.';

/** Compares the commands of the code with the recorded history during a replay (R3). */
export class HistoryCheck {
  readonly #subject: Subject;
  /** Finds an issued step without an outcome. Steps are not among the issued commands. */
  readonly #findStep: (operation: number) => Operation | undefined;
  /** Issued commands and taken answers that history must record next. Those before `#head` are confirmed. */
  #issued: (CommandEvent | AnswerEvent)[] = [];
  #head = 0;
  /** The replayed events, and the index of the one that is being applied. */
  #replayed: readonly HistoryEvent[] = [];
  #index = 0;

  constructor(subject: Subject, findStep: (operation: number) => Operation | undefined) {
    this.#subject = subject;
    this.#findStep = findStep;
  }

  /** Sets the event that is applied next. */
  follow(replayed: readonly HistoryEvent[], index: number): void {
    this.#replayed = replayed;
    this.#index = index;
  }

  /** Adds a command that history has not confirmed yet. */
  addIssued(command: CommandEvent): void {
    this.#issued.push(command);
  }

  /** The number of issued commands and taken answers that history has not confirmed yet. */
  get issuedCount(): number {
    return this.#issued.length - this.#head;
  }

  /** Removes and returns the commands that the code issued after the last recorded event. */
  takeIssued(): readonly (CommandEvent | AnswerEvent)[] {
    const issued = this.#issued.slice(this.#head);
    this.#issued = [];
    this.#head = 0;
    return issued;
  }

  /** The event recorded at the position of the next command of the code. */
  get recordedNext(): HistoryEvent | undefined {
    return this.#replayed[this.#index + 1 + this.issuedCount];
  }

  /** Returns the answer that the same turn recorded in place of a withdrawal of the operation, if any (R15). */
  takeRecordedAnswer(operation: Operation, at: number): AnswerEvent | undefined {
    const next = this.recordedNext;
    if (next?.at !== at || !isFinished(operation, next)) return undefined;
    this.#issued.push(next as AnswerEvent);
    return next as AnswerEvent;
  }

  /** Whether the code has already taken this recorded answer. If so, confirms it. */
  isTakenAnswer(recorded: IncomingEvent): boolean {
    if (this.#issued[this.#head] !== recorded) return false;
    this.#advance();
    return true;
  }

  /** Throws if history continues after a terminal event. */
  confirmNotEnded(recorded: HistoryEvent, position: Position, hasEnded: boolean): void {
    if (hasEnded) throw this.#disagreement(recorded, position, ended(position) ?? 'has ended');
  }

  confirmStart(recorded: ExecutionStarted, position: Position): void {
    if (position.eventId > 1) throw this.#disagreement(recorded, position, 'runs already');
  }

  confirmCommand(recorded: CommandEvent, position: Position): void {
    const issued = this.#issued[this.#head] ?? this.#stepAt(recorded);
    if (issued === undefined || !isSameCommand(recorded, issued)) {
      const did = issued === undefined ? undefined : `issued ${describeEvent(issued)}`;
      throw this.#disagreement(
        recorded,
        position,
        did ?? ended(position) ?? 'does not do that',
        issued,
      );
    }
    this.#advance();
  }

  /** Throws unless the code can take the event now. */
  confirmIncoming(recorded: IncomingEvent, position: Position, isAnswerable: boolean): void {
    this.#confirmNothingIssued(recorded, position);
    const end = ended(position);
    if (end === undefined && isAnswerable) return;
    const step = this.#stepAt(recorded);
    const did =
      step === undefined ? 'has no such pending operation' : `issued ${describeEvent(step)}`;
    throw this.#disagreement(recorded, position, end ?? did, step);
  }

  confirmOutcome(recorded: TerminalEvent, position: Position): void {
    this.#confirmNothingIssued(recorded, position);
    const { outcome } = position;
    if (outcome === undefined || !isSameOutcome(recorded, outcome)) {
      throw this.#disagreement(recorded, position, ended(position) ?? 'still waits');
    }
  }

  /** Throws if an execution that was ended from outside has unmatched commands. */
  confirmInterrupted(recorded: TerminalEvent, position: Position): void {
    this.#confirmNothingIssued(recorded, position);
  }

  /** Throws if the code did more than the complete history records. */
  confirmNothingLeft(position: Position): void {
    this.#confirmNothingIssued(undefined, position);
    const end = ended(position);
    if (end !== undefined) throw this.#disagreement(undefined, position, end);
  }

  /** The step that the code issued at the place of a recorded operation, as its outcome would record it. */
  #stepAt(recorded: HistoryEvent): StepStub | undefined {
    const operation = 'operation' in recorded ? recorded.operation : undefined;
    const step = operation === undefined ? undefined : this.#findStep(operation);
    if (operation === undefined || step === undefined) return undefined;
    return { kind: 'stepCompleted', at: recorded.at, operation, name: step.name, payload: null };
  }

  #advance(): void {
    this.#head += 1;
    if (this.#head < this.#issued.length) return;
    this.#issued = [];
    this.#head = 0;
  }

  #confirmNothingIssued(recorded: HistoryEvent | undefined, position: Position): void {
    const extra = this.#issued[this.#head];
    if (extra === undefined) return;
    const place = recorded === undefined ? '' : ' before it';
    throw this.#disagreement(recorded, position, `issued ${describeEvent(extra)}${place}`, extra);
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
    // They differ in input, child id or cancellation type.
    if (labels.recorded === labels.issued) labels.issued += ' with other arguments';
    const events = {
      ...(recorded !== undefined && { recorded: summarizeEvent(recorded, labels.recorded) }),
      ...(issued !== undefined && { issued: summarizeEvent(issued, labels.issued) }),
    };
    const records = recorded === undefined ? 'ends here' : `records ${describeEvent(recorded)}`;
    return new NondeterminismError(
      `Instance ${JSON.stringify(instanceId)}, execution ${executionId}, event ${eventId}: history ${records}, but the code ${did}. ${advice}`,
      eventId,
      { ...labels, events },
    );
  }
}

function ended({ outcome }: Position): string | undefined {
  return outcome === undefined ? undefined : `has ended: ${describeEvent(outcome)}`;
}
