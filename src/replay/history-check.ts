import { NondeterminismError } from '../model/errors.ts';
import type {
  CommandEvent,
  ExecutionStarted,
  HistoryEvent,
  IncomingEvent,
  TerminalEvent,
} from '../model/event.ts';
import { describeEvent, isSameCommand } from './command-matching.ts';
import { isSameOutcome } from './outcome.ts';

/** Where the code stands: the id of the next recorded event, and how the code has ended, if it has. */
interface Standing {
  readonly eventId: number;
  readonly outcome: TerminalEvent | undefined;
}

/** Holds what the code does during replay against what history records, and says where the two part. */
export class HistoryCheck {
  readonly #subject: { readonly instanceId: string; readonly executionId: number };
  /** Commands that the code issued; those before `#head` are confirmed. */
  #issued: CommandEvent[] = [];
  #head = 0;

  constructor(subject: { readonly instanceId: string; readonly executionId: number }) {
    this.#subject = subject;
  }

  /** The code issued a command, which history has yet to confirm. */
  addIssued(command: CommandEvent): void {
    this.#issued.push(command);
  }

  /** Throws if history goes on after its own end. */
  confirmNotEnded(recorded: HistoryEvent, standing: Standing, hasEnded: boolean): void {
    if (hasEnded) throw this.#disagreement(recorded, standing, ended(standing) ?? 'has ended');
  }

  confirmStart(recorded: ExecutionStarted, standing: Standing): void {
    if (standing.eventId > 1) throw this.#disagreement(recorded, standing, 'runs already');
  }

  confirmCommand(recorded: CommandEvent, standing: Standing): void {
    const issued = this.#issued[this.#head];
    if (issued === undefined || !isSameCommand(recorded, issued)) {
      const did = issued === undefined ? undefined : `issued ${describeEvent(issued)}`;
      throw this.#disagreement(recorded, standing, did ?? ended(standing) ?? 'does not do that');
    }
    this.#head += 1;
    if (this.#head === this.#issued.length) {
      this.#issued = [];
      this.#head = 0;
    }
  }

  /** Throws unless the code is ready to be given the event. */
  confirmIncoming(recorded: IncomingEvent, standing: Standing, isAnswerable: boolean): void {
    this.#confirmNothingIssued(recorded, standing);
    const obstacle =
      ended(standing) ?? (isAnswerable ? undefined : 'has no such operation outstanding');
    if (obstacle !== undefined) throw this.#disagreement(recorded, standing, obstacle);
  }

  confirmOutcome(recorded: TerminalEvent, standing: Standing): void {
    this.#confirmNothingIssued(recorded, standing);
    const { outcome } = standing;
    if (outcome === undefined || !isSameOutcome(recorded, outcome)) {
      throw this.#disagreement(recorded, standing, ended(standing) ?? 'still waits');
    }
  }

  /** Throws if the code did more than history records, now that all of it was shown. */
  confirmNothingLeft(standing: Standing): void {
    this.#confirmNothingIssued(undefined, standing);
    const end = ended(standing);
    if (end !== undefined) throw this.#disagreement(undefined, standing, end);
  }

  #confirmNothingIssued(recorded: HistoryEvent | undefined, standing: Standing): void {
    const extra = this.#issued[this.#head];
    if (extra === undefined) return;
    const place = recorded === undefined ? '' : ' before it';
    throw this.#disagreement(recorded, standing, `issued ${describeEvent(extra)}${place}`);
  }

  #disagreement(
    recorded: HistoryEvent | undefined,
    { eventId }: Standing,
    did: string,
  ): NondeterminismError {
    const { instanceId, executionId } = this.#subject;
    const records =
      recorded === undefined ? 'goes no further' : `records ${describeEvent(recorded)}`;
    return new NondeterminismError(
      `Instance '${instanceId}', execution ${executionId}, event ${eventId}: history ${records}, but the code ${did}. ` +
        'Restore the old code path, or register the changed code as a new version beside the old one.',
      eventId,
    );
  }
}

function ended({ outcome }: Standing): string | undefined {
  return outcome === undefined ? undefined : `has ended: ${describeEvent(outcome)}`;
}
