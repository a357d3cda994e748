/**
 * The replay engine: runs the code of one execution, feeds it recorded or new events, and collects what it decides.
 *
 * Its boundary: no I/O, no clock, no store. Messages and the time come in, events go out. What authors see
 * (the context, definitions, encoding of inputs) is built on `commands` and `scopes` in `src/orchestration`.
 *
 * R1. History order is execution order: an incoming event, then the commands the code issued in reaction, then the next.
 * R2. Events are applied one at a time, and the microtasks are drained after each, before anything else happens.
 * R3. A recorded command matches the next command that the code issued; before an incoming event is applied
 *     every issued command has been matched; the code ends where history ends. All else is NONDETERMINISM.
 * R4. An answer is recorded only if its operation is outstanding in this execution: duplicates, answers to
 *     withdrawn operations and to other executions leave no trace.
 * R5. External events are kept per name, in order, until waited for; a withdrawn wait consumes nothing; what is
 *     left is carried into the next execution, ahead of newer ones.
 * R6. The code may act only inside the window between an event and the end of its drain. A command outside it
 *     throws STRAY_AWAIT and the next turn fails the instance; so does waiting for nothing durable.
 * R7. The first outcome stands: after a return, a throw or a continue-as-new nothing more is recorded but what R17 says.
 * R8. Time inside is the `at` of the last applied event and never goes back; randomness depends only on the
 *     incarnation and the execution id.
 * R9. The cost of a turn depends on its new events, never on the length of the history.
 * R10. A rejection that nobody handles fails its own instance and nothing else; one that only tells of a withdrawal
 *      fails nobody.
 * R11. An operation belongs to the scope it was issued in. The cancel of a scope withdraws what is pending in it, then
 *      in the scopes inside, each in the order of issue. It does not enter a shield: only the deadline of a shield, or
 *      of a shield around it, and a cancel of its own promise do.
 * R12. In a canceled scope, and in one whose code has ended, an operation is refused at once and leaves no trace.
 * R13. A scope settles when its code has ended, everything has come to rest, and nothing in it is outstanding: what was
 *      pending is withdrawn; the scopes inside and what is withdrawn as `wait` have settled.
 * R14. Every withdrawal is recorded, once. The operation rejects at once; as `wait` it stays outstanding and settles
 *      with its answer; as `abandon` it is recorded as abandoned, and its work goes on.
 * R15. What ran to its end and is answered in the same batch is not withdrawn: the answer is recorded there instead. A
 *      request to stop withdraws its activities all the same: their handlers were told with it, and answer after that,
 *      unless the store has the answer before the request.
 * R16. The first request to stop cancels the root scope; later ones leave no trace. From then on a `CanceledError` that
 *      the code throws ends it canceled, and continue-as-new is refused. A request that comes too late is carried
 *      into the next execution, which begins canceled.
 * R17. An end waits for open shields and for operations of type `wait`: everything else is then canceled, and
 *      recorded. Without such it stands at once, and what is outstanding needs no event: whoever commits the end
 *      stops the work and the children of an execution that is over, except those of type `abandon`.
 * R18. When the time for the clean-up is over, a canceling execution ends canceled, whatever its code does.
 */
import type {
  AnswerEvent,
  CommandEvent,
  ExecutionStarted,
  HistoryEvent,
  IncomingEvent,
  TerminalEvent,
} from '../model/event.ts';
import { isCommand, isIncoming } from '../model/event.ts';
import type { Message } from '../model/message.ts';
import { enterMicrotask, yieldToEventLoop } from './turn-window.ts';
import { HistoryCheck } from './checks/history-check.ts';
import { LiveCode, type LiveCodeOptions, type Recorder } from './live-code.ts';
import { MessageBatch } from './message-batch.ts';
import type { Operation } from './operations.ts';
import { isInterruption, toSkipped, toStarted } from './ending.ts';
import { guardUnhandledRejections } from './checks/breakage.ts';

export interface TurnParams {
  readonly messages: readonly Message[];
  /** The store's clock. */
  readonly nowMs: number;
  /** The version that the code belongs to, recorded when the execution starts. */
  readonly version: string;
}

export interface TurnResult {
  readonly firstEventId: number;
  /** A terminal event, if there is one, is last. Empty when the messages led to nothing. */
  readonly events: readonly HistoryEvent[];
  /** How many external events now wait for the code to ask for them, if that has changed. */
  readonly bufferedEvents?: number;
  /** Set if the last event reports code that broke, such as a stray await: a replay need not break there. */
  readonly isBreakage?: true;
  /** The operations that the code never awaited, if it has ended by itself; absent: none. */
  readonly neverAwaited?: readonly string[];
}

// About 3 ms of replay.
const eventsBetweenYields = 1_000;

/** One live execution: the function with its state, and where it stands in its history. */
export class Execution implements Recorder {
  readonly #subject: { readonly instanceId: string; readonly executionId: number };
  readonly #code: LiveCode;
  readonly #check: HistoryCheck;
  #length = 0;
  /** What the current turn has recorded; absent while replaying. */
  #recording: HistoryEvent[] | undefined;
  /** What the current turn was given. */
  #batch: MessageBatch | undefined;
  #isBusy = false;
  #isDisposed = false;

  constructor(options: LiveCodeOptions) {
    guardUnhandledRejections();
    this.#subject = options;
    this.#check = new HistoryCheck(options);
    this.#code = new LiveCode(options, this);
  }

  /** What the worker that runs it knows it by. */
  set holder(holder: unknown) {
    this.#code.holder = holder;
  }

  /** How many events are known so far. */
  get historyLength(): number {
    return this.#length;
  }

  /** A rough estimate of what the live function holds, for a cache bounded by bytes. */
  get sizeBytes(): number {
    return this.#code.sizeBytes;
  }

  /** Whether history has its terminal event. */
  get ended(): boolean {
    return this.#code.ending.isRecorded;
  }

  /** Whether it was asked to stop. */
  get isCanceling(): boolean {
    return this.#code.ending.cancel !== undefined;
  }

  get isReplaying(): boolean {
    return this.#recording === undefined;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /**
   * Feeds recorded events, from where it stands; a piece of history must end where a turn ended. Throws
   * `NondeterminismError` where code and history part.
   */
  async replay(events: readonly HistoryEvent[]): Promise<void> {
    this.#begin();
    try {
      await enterMicrotask();
      for (let index = 0; index < events.length; index++) {
        const event = events[index] as HistoryEvent;
        this.#check.follow(events, index);
        this.#check.confirmNotEnded(event, this.#standing(), this.ended);
        if (isCommand(event)) this.#check.confirmCommand(event, this.#standing());
        else if (!isIncoming(event)) await this.#replayBoundary(event);
        else if (!this.#check.isTakenAnswer(event)) await this.#replayIncoming(event);
        this.#length += 1;
        if (index % eventsBetweenYields === eventsBetweenYields - 1) await yieldToEventLoop();
      }
    } finally {
      this.#check.follow([], 0);
      this.#isBusy = false;
    }
  }

  /** Throws `NondeterminismError` if the code did more than history records, now that all of it was fed. */
  assertReplayed(): void {
    if (!this.ended) this.#check.confirmNothingLeft(this.#standing());
  }

  /** Runs one turn: turns messages into events, applies them one by one, collects what the code decides. */
  async turn(params: TurnParams): Promise<TurnResult> {
    this.#begin();
    try {
      await enterMicrotask();
      this.assertReplayed();
      const firstEventId = this.#length + 1;
      const events: HistoryEvent[] = [];
      this.#recording = events;
      const before = this.#standingEvents();
      const isBreakage = !this.ended && (await this.#runTurn(params));
      const last = events.at(-1);
      const bufferedEvents =
        last?.kind === 'executionContinuedAsNew'
          ? (last.carried?.length ?? 0)
          : this.#code.bufferedEvents;
      return {
        firstEventId,
        events,
        ...(bufferedEvents !== before && { bufferedEvents }),
        ...(isBreakage && { isBreakage }),
        ...this.#neverAwaited(last),
      };
    } finally {
      this.#recording = undefined;
      this.#batch = undefined;
      this.#isBusy = false;
    }
  }

  /** Lets go of a live function that will not be continued. */
  dispose(): void {
    this.#isDisposed = true;
    this.#code.dispose();
  }

  record(command: CommandEvent): void {
    if (this.#recording === undefined) this.#check.addIssued(command);
    else this.#append(command);
  }

  recordArrived(operation: Operation, at: number): AnswerEvent | undefined {
    if (this.#recording === undefined) return this.#check.takeRecordedAnswer(operation, at);
    const event = this.#batch?.answerTo(operation, at);
    if (event !== undefined) this.#append(event);
    return event;
  }

  get recordedNext(): HistoryEvent | undefined {
    return this.#recording === undefined ? this.#check.recordedNext : undefined;
  }

  #replayIncoming(event: IncomingEvent): Promise<void> {
    const isExpected = this.#length > 0 && this.#code.accepts(event);
    this.#check.confirmIncoming(event, this.#standing(), isExpected);
    return this.#code.deliver(event);
  }

  #replayBoundary(event: ExecutionStarted | TerminalEvent): Promise<void> {
    if (event.kind !== 'executionStarted') return this.#confirmOutcome(event);
    this.#check.confirmStart(event, this.#standing());
    return this.#code.start(event);
  }

  #neverAwaited(last: HistoryEvent | undefined): Pick<TurnResult, 'neverAwaited'> {
    if (last === undefined || !this.ended) return {};
    const neverAwaited = this.#code.neverAwaited(last as TerminalEvent);
    return neverAwaited.length === 0 ? {} : { neverAwaited };
  }

  /** Returns whether the code broke. */
  async #runTurn({ messages, nowMs, version }: TurnParams): Promise<boolean> {
    const { instanceId, executionId } = this.#subject;
    const at = Math.max(this.#code.nowMs, nowMs);
    const batch = new MessageBatch(messages, executionId);
    this.#batch = batch;
    if (this.#length === 0) {
      const started = toStarted(batch.findStart(instanceId), version, at);
      this.#append(started);
      await this.#code.start(started);
    }
    await this.#applyAll(batch, at);
    const outcome =
      this.#toExpired(batch, at) ?? (await this.#code.conclude(at, batch.reportedFailure));
    if (outcome === undefined) return false;
    const isBreakage =
      outcome.kind === 'executionFailed' && this.#code.ending.outcome === undefined;
    this.#end(outcome, batch);
    return isBreakage;
  }

  /** Applies messages until the execution is over or the batch is. */
  async #applyAll(batch: MessageBatch, at: number): Promise<void> {
    const { ending, breakage } = this.#code;
    for (let message = batch.next; message !== undefined; message = batch.next) {
      if (ending.outcome !== undefined || this.#toExpired(batch, at) !== undefined) break;
      if (breakage.isBroken && (await breakage.isConfirmed())) break;
      batch.advance();
      const event = batch.toEvent(message, at);
      if (event === undefined || !this.#code.accepts(event)) continue;
      this.#append(event);
      await this.#code.deliver(event);
    }
  }

  /** How a canceling execution ends that is not over when its time for the clean-up is. */
  #toExpired(batch: MessageBatch, at: number): TerminalEvent | undefined {
    const { cancel, outcome } = this.#code.ending;
    const isExpired = batch.next?.kind === 'cleanupExpired' && outcome === undefined;
    return isExpired && cancel !== undefined ? toSkipped(cancel, at) : undefined;
  }

  /** Records the end, with what the next execution takes over. */
  #end(outcome: TerminalEvent, batch: MessageBatch): void {
    const { ending } = this.#code;
    ending.markRecorded(outcome);
    if (outcome.kind !== 'executionContinuedAsNew') {
      this.#append(outcome);
      return;
    }
    const rest = batch.carry(this.#code.leftovers());
    const cancel = ending.cancel ?? rest.cancel;
    if (cancel !== undefined && rest.isExpired) {
      this.#append(toSkipped(cancel, outcome.at));
      return;
    }
    this.#append({
      ...outcome,
      ...(rest.carried.length > 0 && { carried: rest.carried }),
      ...(cancel !== undefined && { cancel }),
    });
  }

  /** What the store was last told of waiting events; nothing yet of an execution that follows another. */
  #standingEvents(): number | undefined {
    const follows = this.#length === 0 && this.#subject.executionId > 1;
    return follows ? undefined : this.#code.bufferedEvents;
  }

  async #confirmOutcome(recorded: TerminalEvent): Promise<void> {
    const { ending } = this.#code;
    const eventId = this.#length + 1;
    if (isInterruption(recorded, eventId)) {
      this.#check.confirmInterrupted(recorded, this.#standing());
    } else {
      // Rejections that nobody handles are reported when the loop comes round.
      if (ending.outcome === undefined) await yieldToEventLoop();
      const outcome = await this.#code.conclude(recorded.at);
      // A stray await comes back when the world answers: whether and when cannot be replayed.
      const isStray =
        recorded.kind === 'executionFailed' && recorded.failure.code === 'STRAY_AWAIT';
      this.#check.confirmOutcome(recorded, {
        eventId,
        outcome: isStray && ending.outcome === undefined ? recorded : outcome,
      });
    }
    ending.markRecorded(recorded);
  }

  #append(event: HistoryEvent): void {
    this.#recording?.push(event);
    this.#length += 1;
  }

  #begin(): void {
    if (this.#isBusy || this.#isDisposed) {
      throw new Error('An execution runs one turn at a time, and none once it is disposed of.');
    }
    this.#isBusy = true;
  }

  #standing(): { eventId: number; outcome: TerminalEvent | undefined } {
    return { eventId: this.#length + 1, outcome: this.#code.ending.outcome };
  }
}
