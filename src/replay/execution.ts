/**
 * The replay engine: runs the code of one execution, feeds it recorded or new events, and collects what it decides.
 *
 * Its boundary: no I/O, no clock, no store. Messages and the time come in, events go out. What authors see
 * (the context, definitions, encoding of inputs) is built on `commands` in `src/orchestration`.
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
 * R7. The first outcome stands: after a return, a throw or a continue-as-new nothing more is recorded.
 * R8. Time inside is the `at` of the last applied event and never goes back; randomness depends only on the
 *     incarnation and the execution id.
 * R9. The cost of a turn depends on its new events, never on the length of the history.
 * R10. A rejection that nobody handles fails its own instance and nothing else.
 */
import type {
  BufferedEvent,
  CommandEvent,
  ExecutionStarted,
  HistoryEvent,
  IncomingEvent,
  TerminalEvent,
} from '../model/event.ts';
import { isCommand, isIncoming } from '../model/event.ts';
import { PerdureError } from '../model/errors.ts';
import { toFailure, type Failure } from '../model/failure.ts';
import type { Message, StartMessage } from '../model/message.ts';
import { defaultPayloadLimitBytes, encodePayload, type Payload } from '../model/payload.ts';
import { Breakage, warnOfLateRejection } from './breakage.ts';
import { Commands, describe, type CommandHost } from './commands.ts';
import { DeterministicRandom } from './deterministic-random.ts';
import { enterMicrotask, yieldToEventLoop } from './event-loop.ts';
import { HistoryCheck } from './history-check.ts';
import { OperationTable } from './operation-table.ts';
import { toStarted } from './outcome.ts';
import { currentScope, runInScope, type Scope, type ScopedExecution } from './scope.ts';
import { strayCall, strayWait } from './stray-await.ts';
import { TurnWindow } from './turn-window.ts';
import { guardUnhandledRejections } from './unhandled-rejections.ts';

export interface ExecutionOptions {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  /** The code, called once with the execution's first event. */
  readonly program: (execution: Execution, started: ExecutionStarted) => Promise<unknown>;
  readonly payloadLimitBytes?: number;
  /** How many external events are kept for later before new ones are refused. Default 2,000. */
  readonly maxBufferedEvents?: number;
  /** The code broke outside a turn, also after `dispose`: hand the failure to a turn in a wake message. */
  readonly onBroken?: (failure: Failure) => void;
}

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
  /** External events that were dropped because too many are waiting. */
  readonly refusedEvents: number;
}

// About 3 ms of replay.
const eventsBetweenYields = 1_000;
// Measured, for an instance that waits for one activity.
const baseSizeBytes = 2_400;

/** One live execution: the function with its state, and where it stands in its history. */
export class Execution implements CommandHost, ScopedExecution {
  readonly instanceId: string;
  readonly executionId: number;
  readonly payloadLimitBytes: number;
  /** What the code can decide; the author's context is built on it. */
  readonly commands: Commands;

  readonly #options: ExecutionOptions;
  readonly #maxBufferedEvents: number;
  readonly #table = new OperationTable();
  readonly #check: HistoryCheck;
  readonly #window = new TurnWindow();
  readonly #breakage: Breakage;
  readonly #root: Scope = { execution: this };
  #random: DeterministicRandom | undefined;
  #length = 0;
  #inputBytes = 0;
  #nowMs = 0;
  #startedAtMs = 0;
  /** What the current turn has recorded; absent while replaying. */
  #recording: HistoryEvent[] | undefined;
  #outcome: TerminalEvent | undefined;
  #ended = false;
  #busy = false;
  #disposed = false;

  constructor(options: ExecutionOptions) {
    guardUnhandledRejections();
    this.#options = options;
    this.instanceId = options.instanceId;
    this.executionId = options.executionId;
    this.payloadLimitBytes = options.payloadLimitBytes ?? defaultPayloadLimitBytes;
    this.#maxBufferedEvents = options.maxBufferedEvents ?? 2_000;
    this.#check = new HistoryCheck(options);
    this.#breakage = new Breakage(options.onBroken);
    this.commands = new Commands(this, this.#table);
  }

  /** How many events are known so far. */
  get historyLength(): number {
    return this.#length;
  }

  /** A rough estimate of what the live function holds, for a cache bounded by bytes. */
  get sizeBytes(): number {
    return baseSizeBytes + this.#inputBytes + this.#table.sizeBytes;
  }

  /** Whether history has its terminal event. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Whether the code is being shown what has already happened. */
  get isReplaying(): boolean {
    return this.#recording === undefined;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  random(): number {
    return this.#generator().next();
  }

  uuid(): string {
    return this.#generator().uuid();
  }

  /** Feeds recorded events, from where it stands. Throws `NondeterminismError` where code and history part. */
  async replay(events: readonly HistoryEvent[]): Promise<void> {
    this.#begin();
    try {
      await enterMicrotask();
      for (let index = 0; index < events.length; index++) {
        const event = events[index] as HistoryEvent;
        this.#check.confirmNotEnded(event, this.#standing(), this.#ended);
        if (isCommand(event)) {
          this.#check.confirmCommand(event, this.#standing());
        } else if (isIncoming(event)) {
          this.#check.confirmIncoming(event, this.#standing(), this.#isApplicable(event));
          this.#apply(event);
          await this.#window.drain();
        } else if (event.kind === 'executionStarted') {
          this.#check.confirmStart(event, this.#standing());
          this.#start(event);
          await this.#window.drain();
        } else {
          await this.#confirmOutcome(event);
        }
        this.#length += 1;
        if (index % eventsBetweenYields === eventsBetweenYields - 1) await yieldToEventLoop();
      }
    } finally {
      this.#busy = false;
    }
  }

  /** Throws `NondeterminismError` if the code did more than history records, now that all of it was fed. */
  assertReplayed(): void {
    if (!this.#ended) this.#check.confirmNothingLeft(this.#standing());
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
      const refusedEvents = this.#ended ? 0 : await this.#runTurn(params);
      return { firstEventId, events, refusedEvents };
    } finally {
      this.#recording = undefined;
      this.#busy = false;
    }
  }

  /** Lets go of a live function that will not be continued. */
  dispose(): void {
    this.#disposed = true;
    this.#window.close();
  }

  /** Ends this execution at once, the next begins with `payload`; what the code does afterwards is ignored. */
  continueAsNew(next: { readonly version: string; readonly payload: Payload | null }): void {
    if (this.enter('continueAsNew') === undefined) return;
    this.#outcome = { kind: 'executionContinuedAsNew', at: this.#nowMs, ...next };
  }

  enter(what: string, name = ''): Scope | undefined {
    const scope = currentScope();
    if (!this.#window.isOpen || scope?.execution !== this) {
      throw this.#addStray(`${describe(what, name)} was called`);
    }
    return this.#outcome === undefined ? scope : undefined;
  }

  record(command: CommandEvent): void {
    if (this.#recording === undefined) this.#check.addIssued(command);
    else this.#append(command);
  }

  rejectionUnhandled(promise: Promise<unknown>, reason: unknown): void {
    if (this.#ended) warnOfLateRejection(this.instanceId, reason);
    else this.#breakage.addUnhandled(promise, reason, this.#busy);
  }

  rejectionHandled(promise: Promise<unknown>): void {
    this.#breakage.removeUnhandled(promise);
  }

  async #runTurn({ messages, nowMs, version }: TurnParams): Promise<number> {
    const at = Math.max(this.#nowMs, nowMs);
    let refused = 0;
    let next = 0;
    if (this.#length === 0) {
      const started = toStarted(this.#findStart(messages), version, at);
      this.#append(started);
      this.#start(started);
      await this.#window.drain();
    }
    for (; next < messages.length; next++) {
      if (this.#outcome !== undefined) break;
      if (this.#breakage.isBroken && (await this.#breakage.isConfirmed())) break;
      const event = this.#table.toEvent(messages[next] as Message, this.executionId, at);
      if (event === undefined) continue;
      if (event.kind === 'eventReceived' && this.#isFull(event.name)) {
        refused += 1;
        continue;
      }
      this.#append(event);
      this.#apply(event);
      await this.#window.drain();
    }
    const outcome = await this.#conclude(at, this.#reportedFailure(messages));
    if (outcome === undefined) return refused;
    if (outcome.kind === 'executionContinuedAsNew') {
      const { carried, excess } = this.#carry(messages.slice(next));
      this.#append(carried.length === 0 ? outcome : { ...outcome, carried });
      refused += excess;
    } else {
      this.#append(outcome);
    }
    this.#ended = true;
    return refused;
  }

  /** What the turn ended with, if the execution is over: its own outcome, or what broke it. */
  async #conclude(at: number, reported?: Failure): Promise<TerminalEvent | undefined> {
    if (this.#outcome !== undefined) return this.#outcome;
    if (reported !== undefined) return { kind: 'executionFailed', at, failure: reported };
    const isStuck = this.#table.size === 0;
    if (!isStuck && !this.#breakage.isBroken) return undefined;
    await yieldToEventLoop();
    const failure =
      this.#breakage.failure ?? (isStuck ? toFailure(strayWait(this.#where())) : undefined);
    return failure === undefined ? undefined : { kind: 'executionFailed', at, failure };
  }

  /** What an earlier copy of this live function broke with, after its turn and before it was let go. */
  #reportedFailure(messages: readonly Message[]): Failure | undefined {
    for (const message of messages) {
      if (message.kind === 'wake' && message.broken !== undefined) return message.broken.failure;
    }
    return undefined;
  }

  /** External events that the next execution takes over: those nobody waited for, then the rest of the batch. */
  #carry(rest: readonly Message[]): { carried: BufferedEvent[]; excess: number } {
    const carried = this.#table.inbox.leftovers();
    let excess = 0;
    for (const message of rest) {
      if (message.kind !== 'eventRaised') continue;
      if (carried.length >= this.#maxBufferedEvents) excess += 1;
      else carried.push({ name: message.name, payload: message.payload });
    }
    return { carried, excess };
  }

  #start(started: ExecutionStarted): void {
    this.#nowMs = started.at;
    this.#startedAtMs = started.at;
    this.#inputBytes = started.payload?.length ?? 0;
    for (const event of started.carried ?? []) this.#table.receive(event.name, event.payload);
    this.#window.open();
    void runInScope(this.#root, () => this.#run(started));
  }

  async #run(started: ExecutionStarted): Promise<void> {
    try {
      const output = await this.#options.program(this, started);
      const what = `The result of orchestration '${started.name}'`;
      const payload = encodePayload(output, what, this.payloadLimitBytes);
      this.#finish({ kind: 'executionCompleted', at: this.#nowMs, payload });
    } catch (error) {
      this.#finish({ kind: 'executionFailed', at: this.#nowMs, failure: toFailure(error) });
    }
  }

  #finish(outcome: TerminalEvent): void {
    if (this.#outcome !== undefined) return;
    if (this.#window.isOpen) this.#outcome = outcome;
    else this.#addStray('the orchestration ended');
  }

  #apply(event: IncomingEvent): void {
    this.#nowMs = event.at;
    this.#window.open();
    this.#table.apply(event);
  }

  #isApplicable(event: IncomingEvent): boolean {
    return this.#length > 0 && (event.kind === 'eventReceived' || this.#table.isAnswerable(event));
  }

  async #confirmOutcome(recorded: TerminalEvent): Promise<void> {
    const outcome = await this.#conclude(recorded.at);
    // A stray await comes back when the world answers: whether and when cannot be replayed.
    const isStray = recorded.kind === 'executionFailed' && recorded.failure.code === 'STRAY_AWAIT';
    this.#check.confirmOutcome(recorded, {
      eventId: this.#length + 1,
      outcome: isStray && this.#outcome === undefined ? recorded : outcome,
    });
    this.#outcome = recorded;
    this.#ended = true;
  }

  #findStart(messages: readonly Message[]): StartMessage {
    const start = messages.find((message) => message.kind === 'start');
    if (start !== undefined) return start;
    throw new PerdureError(
      'UNDECODABLE',
      `Instance '${this.instanceId}' has messages, but neither a history nor a start message. Was its store damaged?`,
    );
  }

  #append(event: HistoryEvent): void {
    this.#recording?.push(event);
    this.#length += 1;
  }

  #begin(): void {
    if (this.#busy || this.#disposed) {
      throw new Error('An execution runs one turn at a time, and none once it is disposed of.');
    }
    this.#busy = true;
  }

  #isFull(eventName: string): boolean {
    const { inbox } = this.#table;
    return inbox.size >= this.#maxBufferedEvents && !inbox.hasWait(eventName);
  }

  #addStray(what: string): PerdureError {
    const error = strayCall({ ...this.#where(), what });
    // Code of another instance that got hold of this one's context breaks itself, not this one.
    const isForeign = (currentScope()?.execution ?? this) !== this;
    if (!this.#ended && !isForeign) this.#breakage.addStray(error, this.#busy);
    return error;
  }

  #where(): { instanceId: string; lastOperation: string | undefined } {
    return { instanceId: this.instanceId, lastOperation: this.commands.lastOperation };
  }

  #generator(): DeterministicRandom {
    this.#random ??= new DeterministicRandom(`${this.#options.incarnation}/${this.executionId}`);
    return this.#random;
  }

  #standing(): { eventId: number; outcome: TerminalEvent | undefined } {
    return { eventId: this.#length + 1, outcome: this.#outcome };
  }
}
