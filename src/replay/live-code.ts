import {
  NondeterminismError,
  type CanceledError,
  type PerdureError,
} from '../model/failures/errors.ts';
import type {
  AnswerEvent,
  BufferedEvent,
  CommandEvent,
  ExecutionStarted,
  HistoryEvent,
  IncomingEvent,
  TerminalEvent,
} from '../model/event.ts';
import { toFailure, type Failure } from '../model/failures/failure.ts';
import { defaultPayloadLimitBytes, encodePayload, type Payload } from '../model/values/payload.ts';
import { Breakage, warnOfLateRejection, strayCall, strayWait } from './checks/breakage.ts';
import {
  CancelScope,
  isCancellation,
  isWithdrawal,
  toCanceledError,
  Scopes,
  type ScopeOwner,
  type Withdrawal,
  type ScopeHost,
} from './cancellation/cancel-scope.ts';
import { Commands, describe } from './commands.ts';
import { DeterministicRandom } from './deterministic-random.ts';
import { DurablePromise } from './durable-promise.ts';
import { Ending, toThrown } from './ending.ts';
import { yieldToEventLoop, TurnWindow, type IdleWork } from './turn-window.ts';
import { OperationTable, neverAwaited, type Operation } from './operations.ts';
import { currentScope, runInScope } from './cancellation/scope.ts';

export interface LiveCodeOptions {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  /** The code, called once with the execution's first event. */
  readonly program: (code: LiveCode, started: ExecutionStarted) => Promise<unknown>;
  readonly payloadLimitBytes?: number;
  /** Default true. */
  readonly deterministicGlobals?: boolean;
  /** Fail an execution that ends with operations that its code never awaited. Default false. */
  readonly failUnawaited?: boolean;
  /** What to do about a disagreement between code and history. Default: undo or version the change of the code. */
  readonly advice?: string;
  /** The code broke outside a turn, also after `dispose`: hand the failure to a turn in a wake message. */
  readonly onBroken?: (failure: Failure) => void;
}

/** Where what the code decides goes: into history, or beside it for comparison. */
export interface Recorder {
  /** Whether the code is being shown what has already happened. */
  readonly isReplaying: boolean;
  /** Whether a turn or a replay is under way. */
  readonly isBusy: boolean;
  record(command: CommandEvent): void;
  recordArrived(operation: Operation, at: number): AnswerEvent | undefined;
  /** The event that history records where the next command of the code belongs; absent outside a replay. */
  readonly recordedNext: HistoryEvent | undefined;
}

const none: readonly string[] = [];

// Measured, for an instance that waits for one activity.
const baseSizeBytes = 2_400;
// Ten parallel scopes were measured to hold 15 KB.
const scopeSizeBytes = 1_536;

/** The function of one execution while it runs: what it waits for, its scopes, its time and its end. */
export class LiveCode implements ScopeHost, ScopeOwner, IdleWork {
  readonly instanceId: string;
  readonly executionId: number;
  readonly payloadLimitBytes: number;
  /** What the code can decide; the author's context is built on it. */
  readonly commands: Commands;
  readonly scopes: Scopes;
  readonly hasDeterministicGlobals: boolean;
  readonly ending: Ending;
  readonly breakage: Breakage;
  holder: unknown;

  readonly #options: LiveCodeOptions;
  readonly #recorder: Recorder;
  readonly #table = new OperationTable();
  readonly #window = new TurnWindow(this);
  readonly #root = new CancelScope(this);
  /** Scopes whose code has ended and that have not settled. */
  #closed: CancelScope[] = [];
  #random: DeterministicRandom | undefined;
  #steps = 0;
  #inputBytes = 0;
  #nowMs = 0;
  #startedAtMs = 0;
  /** The code itself says that it cannot continue this history. */
  #disagreement: NondeterminismError | undefined;

  constructor(options: LiveCodeOptions, recorder: Recorder) {
    this.#options = options;
    this.#recorder = recorder;
    this.instanceId = options.instanceId;
    this.executionId = options.executionId;
    this.payloadLimitBytes = options.payloadLimitBytes ?? defaultPayloadLimitBytes;
    this.hasDeterministicGlobals = options.deterministicGlobals ?? true;
    this.breakage = new Breakage(options.onBroken);
    this.commands = new Commands(this, this.#table);
    this.scopes = new Scopes(this, this.commands);
    this.ending = new Ending(this.#root, this.#table);
  }

  /** A rough estimate of what the live function holds. */
  get sizeBytes(): number {
    const scopesBytes = this.scopes.openCount * scopeSizeBytes;
    return baseSizeBytes + this.#inputBytes + this.#table.sizeBytes + scopesBytes;
  }

  get isReplaying(): boolean {
    return this.#recorder.isReplaying;
  }

  /** What history records where the next command of the code belongs; absent outside a replay. */
  get recordedNext(): HistoryEvent | undefined {
    return this.#recorder.recordedNext;
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  get startedAtMs(): number {
    return this.#startedAtMs;
  }

  get steps(): number {
    return this.#steps;
  }

  random(): number {
    return this.#generator().next();
  }

  uuid(): string {
    return this.#generator().uuid();
  }

  /** Starts the function and lets it run until it waits. */
  start(started: ExecutionStarted): Promise<void> {
    this.#nowMs = started.at;
    this.#startedAtMs = started.at;
    this.#inputBytes = started.payload?.length ?? 0;
    for (const event of started.carried ?? []) this.#table.receive(event.name, event.payload);
    this.#window.open();
    if (started.cancel !== undefined) this.ending.requestCancel(started.cancel);
    void runInScope(this.#root, () => this.#run(started));
    return this.#window.drain();
  }

  /** Gives the function an event and lets it run until it waits. */
  deliver(event: IncomingEvent): Promise<void> {
    this.#nowMs = event.at;
    this.#steps += 1;
    this.#window.open();
    if (event.kind === 'eventReceived') this.#table.receive(event.name, event.payload);
    else if (event.kind === 'cancelRequested') this.ending.requestCancel(event);
    else this.#table.apply(event);
    return this.#window.drain();
  }

  /** Says whether an event means something to the function as it stands. */
  accepts(event: IncomingEvent): boolean {
    if (event.kind === 'eventReceived') return true;
    if (event.kind === 'cancelRequested') return this.ending.cancel === undefined;
    return this.#table.isAnswerable(event);
  }

  /** How many external events wait for the code to ask for them. */
  get bufferedEvents(): number {
    return this.#table.inbox.size;
  }

  /** External events that nobody waited for. */
  leftovers(): BufferedEvent[] {
    return this.#table.inbox.leftovers();
  }

  /**
   * What it has ended with, if it is over: its own outcome, or what broke it. Throws the `NondeterminismError` that the
   * code ended with, so that the turn is not taken.
   */
  async conclude(at: number, reported?: Failure): Promise<TerminalEvent | undefined> {
    if (this.#disagreement !== undefined) throw this.#disagreement;
    const outcome = this.ending.outcomeAt(this.#nowMs);
    if (outcome !== undefined) return this.#checkAwaited(outcome);
    if (reported !== undefined) return { kind: 'executionFailed', at, failure: reported };
    const isStuck = this.#table.size === 0;
    if (!isStuck && !this.breakage.isBroken) return undefined;
    await yieldToEventLoop();
    const failure =
      this.breakage.failure ?? (isStuck ? toFailure(strayWait(this.#where())) : undefined);
    return failure === undefined ? undefined : { kind: 'executionFailed', at, failure };
  }

  /** The operations that the code never awaited, if it has come to a regular end. */
  neverAwaited(outcome: TerminalEvent): readonly string[] {
    const isRegular =
      outcome.kind === 'executionCompleted' || outcome.kind === 'executionContinuedAsNew';
    return isRegular ? this.#table.neverAwaited() : none;
  }

  /** Lets go of a function that will not be continued. */
  dispose(): void {
    this.#window.close();
  }

  /**
   * Ends this execution, the next begins with `payload`; what the code does afterwards is ignored, and what is
   * returned never settles. Refused once the instance was asked to stop.
   */
  continueAsNew(next: {
    readonly version: string;
    readonly payload: Payload | null;
  }): DurablePromise<never> {
    const scope = this.enter('continueAsNew');
    const { cancel } = this.ending;
    if (cancel !== undefined) {
      return DurablePromise.rejected(toCanceledError({ trigger: 'cancel', reason: cancel.reason }));
    }
    this.ending.decide({ kind: 'executionContinuedAsNew', at: this.#nowMs, ...next });
    scope.unshield();
    return DurablePromise.never();
  }

  /** What a new operation of the code that runs now would be refused with, if the scope that it is in was canceled. */
  get canceled(): CanceledError | undefined {
    const { canceled } = this.enter('isCanceled');
    return canceled === undefined ? undefined : toCanceledError(canceled);
  }

  enter(what: string, name = ''): CancelScope {
    const scope = currentScope();
    if (!this.#window.isOpen || scope?.execution !== this) {
      throw this.#addStray(`${describe(what, name)} was called`);
    }
    return scope as CancelScope;
  }

  hasEnded(scope: CancelScope): boolean {
    return this.ending.isDecided && !scope.isShielded;
  }

  isInTurn(what: string): boolean {
    if (!this.#window.isOpen) this.#addStray(what);
    return this.#window.isOpen;
  }

  record(command: CommandEvent): void {
    this.#recorder.record(command);
  }

  recordArrived(operation: Operation): AnswerEvent | undefined {
    return this.#recorder.recordArrived(operation, this.#nowMs);
  }

  withdraw(operation: Operation, withdrawal: Withdrawal): void {
    this.commands.withdraw(operation, withdrawal);
  }

  settleWhenIdle(scope: CancelScope): void {
    this.#closed.push(scope);
  }

  hasIdleWork(): boolean {
    return this.#closed.length > 0 || this.ending.isDecided;
  }

  /** Scopes settle that have nothing outstanding any more; an end that has to wait cancels all that it need not wait for. */
  runIdleWork(): boolean {
    return this.#settleScopes() || this.ending.close();
  }

  shieldExpired(): void {
    this.ending.shieldExpired();
  }

  breakWith(error: PerdureError): void {
    this.breakage.add(error, this.#recorder.isBusy);
  }

  rejectionUnhandled(promise: Promise<unknown>, reason: unknown): void {
    const { cancel, isRecorded } = this.ending;
    if (isWithdrawal(reason) || (cancel !== undefined && isCancellation(reason))) return;
    if (isRecorded) warnOfLateRejection(this.instanceId, reason);
    else this.breakage.addUnhandled(promise, reason, this.#recorder.isBusy);
  }

  rejectionHandled(promise: Promise<unknown>): void {
    this.breakage.removeUnhandled(promise);
  }

  async #run(started: ExecutionStarted): Promise<void> {
    try {
      const output = await this.#options.program(this, started);
      const what = `The result of orchestration '${started.name}'`;
      const payload = encodePayload(output, what, this.payloadLimitBytes);
      this.#finish({ kind: 'executionCompleted', at: this.#nowMs, payload });
    } catch (error) {
      if (error instanceof NondeterminismError) this.#disagreement = error;
      this.#finish(toThrown(error, this.ending.cancel, this.#nowMs));
    }
  }

  #checkAwaited(outcome: TerminalEvent): TerminalEvent {
    if (this.#options.failUnawaited !== true) return outcome;
    const operations = this.neverAwaited(outcome);
    if (operations.length === 0) return outcome;
    const failure = toFailure(neverAwaited(this.instanceId, operations));
    return { kind: 'executionFailed', at: outcome.at, failure };
  }

  #finish(outcome: TerminalEvent): void {
    if (this.ending.isDecided) return;
    if (this.isInTurn('the orchestration ended')) this.ending.decide(outcome);
  }

  // Only those that are quiet now: the code that they wake comes to rest before the scopes around them may settle.
  #settleScopes(): boolean {
    const quiet = this.#closed.filter(({ isEmpty: isQuiet }) => isQuiet);
    if (quiet.length === 0) return false;
    this.#closed = this.#closed.filter(({ isEmpty: isQuiet }) => !isQuiet);
    for (const scope of quiet) scope.settle();
    return true;
  }

  #addStray(what: string): PerdureError {
    const error = strayCall({ ...this.#where(), what });
    // Code of another instance that got hold of this one's context breaks itself, not this one.
    const isForeign = (currentScope()?.execution ?? this) !== this;
    if (!this.ending.isRecorded && !isForeign) this.breakWith(error);
    return error;
  }

  #where(): { instanceId: string; lastOperation: string | undefined } {
    return { instanceId: this.instanceId, lastOperation: this.commands.lastOperation };
  }

  #generator(): DeterministicRandom {
    this.#random ??= new DeterministicRandom(`${this.#options.incarnation}/${this.executionId}`);
    return this.#random;
  }
}
