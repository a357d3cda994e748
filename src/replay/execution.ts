/**
 * The replay engine. Runs the code of one execution, applies recorded or new events to it, and collects its commands.
 *
 * It has no I/O, no clock and no store: it takes messages and a time, and returns events. The author's API (the context,
 * definitions, encoding of inputs) is built on `commands` and `scopes` in `src/orchestration`.
 *
 * R1. History order is execution order: an incoming event, the commands that the code issues in response, the next event.
 * R2. Events are applied one at a time. After each, the microtask queue is drained before anything else happens.
 * R3. A recorded command matches the next command that the code issued. All issued commands are matched before an incoming
 *     event is applied, and the code ends where history ends. Any other case is NONDETERMINISM.
 * R4. An answer is recorded only if its operation is outstanding in this execution. Duplicates, answers to withdrawn
 *     operations and answers to other executions are dropped.
 * R5. External events are buffered per name, in order, until the code waits for them. A withdrawn wait consumes none. The
 *     next execution gets the remaining events, before newer ones.
 * R6. The code may act only between an event and the end of its drain. A command outside of that time throws STRAY_AWAIT,
 *     and the next turn fails the instance. Code that waits for nothing durable also fails it.
 * R7. The first outcome is final. After a return, a throw or a continue-as-new, only the events of R17, and replies of
 *     update handlers that end in the same turn, are recorded.
 * R8. Time is the `at` of the last applied event and never decreases. Randomness depends only on the incarnation and the
 *     execution id.
 * R9. The cost of a turn depends on its new events, not on the length of the history.
 * R10. An unhandled rejection fails its own instance only. One that only reports a withdrawal fails no instance.
 * R11. An operation belongs to the scope that issued it. Canceling a scope withdraws its pending operations, then those of
 *      its inner scopes, each in the order of issue. It does not enter a shield. A shield is canceled only by its own
 *      deadline, the deadline of an outer shield, or a cancel of its own promise.
 * R12. In a scope that is canceled, or whose code has ended, an operation rejects immediately and is not recorded.
 * R13. A scope settles when its code has ended, the code is idle, and nothing in it is outstanding: pending operations are
 *      withdrawn, and its inner scopes and its withdrawn `wait` operations have settled.
 * R14. Each withdrawal is recorded once. The operation rejects immediately. A `wait` operation stays outstanding and settles
 *      with its answer. An `abandon` operation is recorded as abandoned, and its work continues.
 * R15. An operation that ran to its end, with the answer in the same batch, is not withdrawn; the answer is recorded instead.
 *      Exception: a cancel request withdraws its activities, because the same transaction signaled their handlers. An answer
 *      that the store has before the request still counts.
 * R16. The first cancel request cancels the root scope; later ones are dropped. From then on, a `CanceledError` that the code
 *      throws ends the execution as canceled, and continue-as-new rejects. The next execution gets a request that came
 *      too late, and starts canceled.
 * R17. An end waits for open shields and `wait` operations; all other operations are then canceled, and recorded. Without
 *      such, the end is immediate and records no withdrawals: the commit stops the remaining work and children, except those
 *      of type `abandon`.
 * R18. When the clean-up limit expires, a canceling execution ends as canceled, regardless of its code.
 * R19. An execution that begins with copied events (a retry or a fork) replays them with the ids and the random numbers of
 *      their writer. The copy may end between two commands: the first turn records the commands that are missing.
 * R20. An update is validated before it is recorded; a rejected one leaves no event, and a replay validates none. An update
 *      without a handler is tried again at the end of its turn, then rejected. An accepted one is an event that starts its
 *      handler in the root scope. An end interrupts running handlers. Updates that an execution has not accepted belong
 *      to the next one. While a continue-as-new waits (R17), an update is recorded without validation and starts no
 *      handler: the event keeps it until the next execution gets it.
 * R21. State is computed from the first event and the changes of the code, never from the store. The next execution starts
 *      with it.
 */
import type { CarriedSettings } from '../model/start-settings.ts';
import {
  type AnswerEvent,
  type CommandEvent,
  type ExecutionStarted,
  type HistoryEvent,
  type IncomingEvent,
  type TerminalEvent,
  isCommand,
  isIncoming,
} from '../model/event.ts';
import type { Message, UpdateMessage } from '../model/message.ts';
import { enterMicrotask, yieldToEventLoop } from './turn-window.ts';
import { HistoryCheck } from './checks/history-check.ts';
import { LiveCode, type LiveCodeOptions, type Recorder } from './live-code.ts';
import { MessageBatch } from './message-batch.ts';
import type { Operation } from './operations.ts';
import { isInterruption, toSkipped, toStarted } from './ending.ts';
import { guardUnhandledRejections } from './checks/breakage.ts';
import type { UpdateRejection } from './updates.ts';

export interface TurnParams {
  readonly messages: readonly Message[];
  /** The store's clock. */
  readonly nowMs: number;
  /** The version of the code, recorded when the execution starts. */
  readonly version: string;
}

export interface TurnResult {
  readonly firstEventId: number;
  /** A terminal event is last. Empty if all messages were dropped. */
  readonly events: readonly HistoryEvent[];
  /** The number of buffered external events, if it changed. */
  readonly bufferedEvents?: number;
  /** The settings of the start, if it had any. */
  readonly carried?: CarriedSettings;
  /** Set if the last event is a failure such as a stray await, which a replay may not reproduce. */
  readonly isBreakage?: true;
  /** Whether a step has no outcome and is not between two attempts. */
  readonly dueSteps?: true;
  /** Operations that the code never awaited, if it returned or continued as new. Absent: none. */
  readonly neverAwaited?: readonly string[];
  /** Replies to updates that were not accepted. Absent: none. */
  readonly rejections?: readonly UpdateRejection[];
  /** Updates for the next execution. Absent: none. */
  readonly carriedUpdates?: readonly UpdateMessage[];
  /** Set if an execution that created awakeables continues as new. */
  readonly closesAwakeables?: true;
}

/** The updates of one turn. */
interface UpdateTurn {
  readonly rejections: UpdateRejection[];
  /** Updates without a handler so far. */
  readonly unhandled: UpdateMessage[];
  readonly carried: UpdateMessage[];
}

function updateResults({
  rejections,
  carried,
}: UpdateTurn): Pick<TurnResult, 'rejections' | 'carriedUpdates'> {
  return {
    ...(rejections.length > 0 && { rejections }),
    ...(carried.length > 0 && { carriedUpdates: carried }),
  };
}

const none: ReadonlyMap<number, Operation> = new Map();

// About 3 ms of replay.
const eventsBetweenYields = 1_000;

/** One execution in memory: its running code and its position in the history. */
export class Execution implements Recorder {
  readonly #subject: { readonly instanceId: string; readonly executionId: number };
  readonly #code: LiveCode;
  readonly #check: HistoryCheck;
  #length = 0;
  /** Events of the current turn; absent during a replay. */
  #recording: HistoryEvent[] | undefined;
  /** Messages of the current turn. */
  #batch: MessageBatch | undefined;
  #updates: UpdateTurn | undefined;
  #startedAt = Number.NaN;
  #isBusy = false;
  #isDisposed = false;

  constructor(options: LiveCodeOptions) {
    guardUnhandledRejections();
    this.#subject = options;
    this.#code = new LiveCode(options, this);
    this.#check = new HistoryCheck(options, (operation) => this.#code.pendingSteps.get(operation));
  }

  /** The worker's record of the execution, for code that runs in its scope. */
  set holder(holder: unknown) {
    this.#code.holder = holder;
  }

  /** When the execution started, in milliseconds since the epoch. `NaN` before its first event. */
  get startedAt(): number {
    return this.#startedAt;
  }

  /** The number of events applied or recorded so far. */
  get historyLength(): number {
    return this.#length;
  }

  /** Estimated memory use, for a cache with a limit in bytes. */
  get sizeBytes(): number {
    return this.#code.sizeBytes;
  }

  /** Whether the terminal event is recorded. */
  get ended(): boolean {
    return this.#code.ending.isRecorded;
  }

  /** Whether a cancel was requested. */
  get isCanceling(): boolean {
    return this.#code.ending.cancel !== undefined;
  }

  /** The steps without an outcome, by operation, in call order. None after the end. */
  get pendingSteps(): ReadonlyMap<number, Operation> {
    return this.ended ? none : this.#code.pendingSteps;
  }

  /** Where the code issued the operations that it never awaited, as far as places are recorded. */
  get neverAwaitedPlaces(): readonly string[] {
    return this.#code.neverAwaitedPlaces;
  }

  get isReplaying(): boolean {
    return this.#recording === undefined;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /**
   * Applies the next recorded events, up to the end of a turn. Throws `NondeterminismError` if the code and the
   * history disagree.
   */
  async replay(events: readonly HistoryEvent[]): Promise<void> {
    this.#begin();
    try {
      await enterMicrotask();
      for (let index = 0; index < events.length; index++) {
        const event = events[index] as HistoryEvent;
        this.#check.follow(events, index);
        this.#check.confirmNotEnded(event, this.#position(), this.ended);
        if (isCommand(event)) this.#check.confirmCommand(event, this.#position());
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

  /** Throws `NondeterminismError` if the code issued more commands than the complete history records. */
  assertReplayed(): void {
    if (!this.ended) this.#check.confirmNothingLeft(this.#position());
  }

  /** Runs one turn: applies messages as events, one by one, and collects the commands of the code. */
  async turn(params: TurnParams): Promise<TurnResult> {
    this.#begin();
    try {
      await enterMicrotask();
      const continued = this.#takeContinued();
      const firstEventId = this.#length + 1;
      const events: HistoryEvent[] = [];
      this.#recording = events;
      if (continued !== undefined) for (const command of continued) this.#append(command);
      const before = this.#storedEventCount();
      const isBreakage = !this.ended && (await this.#runTurn(params));
      const last = events.at(-1);
      const bufferedEvents =
        last?.kind === 'executionContinuedAsNew'
          ? (last.carried?.length ?? 0)
          : this.#code.bufferedEvents;
      // Assigned one by one: spreads of optional fields take longer.
      const result: { -readonly [Field in keyof TurnResult]: TurnResult[Field] } = {
        firstEventId,
        events,
      };
      if (bufferedEvents !== before) result.bufferedEvents = bufferedEvents;
      if (isBreakage) result.isBreakage = true;
      if (this.#code.carried !== undefined) result.carried = this.#code.carried;
      if (this.#hasDueSteps(params.nowMs)) result.dueSteps = true;
      const neverAwaited = this.#neverAwaited(last);
      if (neverAwaited !== undefined) result.neverAwaited = neverAwaited;
      if (this.#updates !== undefined) Object.assign(result, updateResults(this.#updates));
      if (last?.kind === 'executionContinuedAsNew' && this.#code.commands.hasAwakeables)
        result.closesAwakeables = true;
      return result;
    } finally {
      this.#recording = undefined;
      this.#batch = undefined;
      this.#updates = undefined;
      this.#isBusy = false;
    }
  }

  /** Releases the execution. No turn or replay may follow. */
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

  get nextEventId(): number {
    // During a replay the event that is applied is counted after the code has reacted to it.
    const isLive = this.#recording !== undefined;
    return this.#length + (isLive ? 1 : 2 + this.#check.issuedCount);
  }

  get recordedNext(): HistoryEvent | undefined {
    return this.#recording === undefined ? this.#check.recordedNext : undefined;
  }

  /** Returns the commands of the code after its last copied event (R19). Throws if other code has any. */
  #takeContinued(): readonly HistoryEvent[] | undefined {
    const { inheritedEvents } = this.#code;
    if (inheritedEvents > 0 && this.#length === inheritedEvents) return this.#check.takeIssued();
    this.assertReplayed();
    return undefined;
  }

  #replayIncoming(event: IncomingEvent): Promise<void> {
    const isExpected = this.#length > 0 && this.#code.accepts(event);
    this.#check.confirmIncoming(event, this.#position(), isExpected);
    return this.#code.deliver(event);
  }

  #replayBoundary(event: ExecutionStarted | TerminalEvent): Promise<void> {
    if (event.kind !== 'executionStarted') return this.#confirmOutcome(event);
    this.#check.confirmStart(event, this.#position());
    this.#startedAt = event.at;
    return this.#code.start(event);
  }

  #hasDueSteps(nowMs: number): boolean {
    const { pendingSteps } = this;
    if (pendingSteps.size === 0) return false;
    for (const { step } of pendingSteps.values()) {
      if (step?.retryAt === undefined || step.retryAt <= nowMs) return true;
    }
    return false;
  }

  #neverAwaited(last: HistoryEvent | undefined): readonly string[] | undefined {
    if (last === undefined || !this.ended) return undefined;
    const neverAwaited = this.#code.neverAwaited(last as TerminalEvent);
    return neverAwaited.length === 0 ? undefined : neverAwaited;
  }

  /** Returns whether the turn ended with a breakage. */
  async #runTurn({ messages, nowMs, version }: TurnParams): Promise<boolean> {
    const { instanceId, executionId } = this.#subject;
    const at = Math.max(this.#code.nowMs, nowMs);
    const batch = new MessageBatch(messages, executionId);
    this.#batch = batch;
    if (this.#length === 0) {
      const started = toStarted(batch.findStart(instanceId), version, at);
      this.#append(started);
      this.#startedAt = started.at;
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

  /** Applies messages until the execution or the batch ends. */
  async #applyAll(batch: MessageBatch, at: number): Promise<void> {
    const { ending, breakage } = this.#code;
    for (let message = batch.next; message !== undefined; message = batch.next) {
      if (ending.outcome !== undefined || this.#toExpired(batch, at) !== undefined) break;
      if (breakage.isBroken && (await breakage.isConfirmed())) break;
      batch.advance();
      if (message.kind === 'update') {
        await this.#applyUpdate(message, at);
        continue;
      }
      const event = batch.toEvent(message, at);
      if (event === undefined) continue;
      if (!this.#code.accepts(event)) {
        // The back-off of a step has ended. Its outcome is recorded, not the timer.
        if (event.kind === 'timerFired') this.pendingSteps.get(event.operation)?.step?.due();
        continue;
      }
      this.#append(event);
      await this.#code.deliver(event);
    }
    if (this.#updates !== undefined) await this.#applyUnhandled(this.#updates, at);
  }

  /** Accepts or rejects an update, or keeps one without a handler until the end of the turn (R20). */
  async #applyUpdate(message: UpdateMessage, at: number): Promise<'unhandled' | undefined> {
    this.#updates ??= { rejections: [], unhandled: [], carried: [] };
    const { key, name, payload } = message;
    const admission = this.#code.updates.admit(message);
    if (admission === 'unhandled') {
      this.#updates.unhandled.push(message);
      return admission;
    }
    if (admission === 'accepted') {
      const deferred = this.#code.isContinuing && ({ deferred: true } as const);
      const event = { kind: 'updateAccepted', at, key, name, payload, ...deferred } as const;
      this.#append(event);
      await this.#code.deliver(event);
    } else this.#updates.rejections.push({ key, failure: admission });
    return undefined;
  }

  /** Tries the updates without a handler again, unless the execution ends. */
  async #applyUnhandled({ unhandled, rejections }: UpdateTurn, at: number): Promise<void> {
    const { ending, breakage } = this.#code;
    if (this.#batch?.next !== undefined) return;
    for (const message of unhandled.splice(0)) {
      const isBroken = breakage.isBroken && (await breakage.isConfirmed());
      if (ending.outcome !== undefined || isBroken) unhandled.push(message);
      else if ((await this.#applyUpdate(message, at)) === 'unhandled') {
        unhandled.pop();
        const failure = this.#code.updates.toUnknown(message);
        rejections.push({ key: message.key, failure });
      }
    }
  }

  /** Returns the end of a canceling execution whose clean-up limit has expired (R18). */
  #toExpired(batch: MessageBatch, at: number): TerminalEvent | undefined {
    const { cancel, outcome } = this.#code.ending;
    const isExpired = batch.next?.kind === 'cleanupExpired' && outcome === undefined;
    return isExpired && cancel !== undefined ? toSkipped(cancel, at) : undefined;
  }

  /** Records the end, with the events and the cancel that the next execution gets. */
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
    const { updates } = this.#code;
    const interrupted = updates.interrupted();
    const next = [...updates.deferred, ...(this.#updates?.unhandled ?? []), ...rest.updates];
    if (next.length > 0 || interrupted.length > 0) {
      this.#updates ??= { rejections: [], unhandled: [], carried: [] };
      this.#updates.carried.push(...next);
      this.#updates.rejections.push(...interrupted);
    }
    this.#append({
      ...outcome,
      ...(rest.carried.length > 0 && { carried: rest.carried }),
      ...(cancel !== undefined && { cancel }),
      ...this.#code.carriedTags(),
      ...this.#code.carriedState(),
    });
  }

  /** The number of buffered events that the store has recorded; none yet for a new execution after a continue-as-new. */
  #storedEventCount(): number | undefined {
    const follows = this.#length === 0 && this.#subject.executionId > 1;
    return follows ? undefined : this.#code.bufferedEvents;
  }

  async #confirmOutcome(recorded: TerminalEvent): Promise<void> {
    const { ending } = this.#code;
    const eventId = this.#length + 1;
    if (isInterruption(recorded, eventId)) {
      this.#check.confirmInterrupted(recorded, this.#position());
    } else {
      // Node reports unhandled rejections after the microtask queue is drained.
      if (ending.outcome === undefined) await yieldToEventLoop();
      const outcome = await this.#code.conclude(recorded.at);
      // A stray await depends on I/O, so a replay cannot reproduce its failure.
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
      throw new Error('An execution runs one turn at a time, and none after dispose().');
    }
    this.#isBusy = true;
  }

  #position(): { eventId: number; outcome: TerminalEvent | undefined } {
    return { eventId: this.#length + 1, outcome: this.#code.ending.outcome };
  }
}
