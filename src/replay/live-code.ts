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
  InheritedEvents,
  TerminalEvent,
} from '../model/event.ts';
import { toFailure, type Failure } from '../model/failures/failure.ts';
import { carriedSettings, type CarriedSettings } from '../model/start-settings.ts';
import {
  defaultStateLimits,
  StateValues,
  type StateLimits,
  type StateValue,
} from '../model/values/state.ts';
import type { Tags } from '../model/values/tags.ts';
import { defaultPayloadLimitBytes, encodePayload, type Payload } from '../model/values/payload.ts';
import {
  Breakage,
  insideStep,
  warnOfLateRejection,
  strayCall,
  strayWait,
} from './checks/breakage.ts';
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
import { Commands, describe, type Identity } from './commands.ts';
import { DeterministicRandom } from './deterministic-random.ts';
import { DurablePromise } from './durable-promise.ts';
import { Ending, toThrown, toWithdrawal } from './ending.ts';
import { yieldToEventLoop, TurnWindow, type IdleWork } from './turn-window.ts';
import { Patches } from './patches.ts';
import { OperationTable, neverAwaited, type Operation } from './operations.ts';
import { currentScope, currentStep, runInScope } from './cancellation/scope.ts';
import {
  assertOutsideHandler,
  assertOutsideValidation,
  isValidationOf,
  Updates,
  type UpdateHost,
} from './updates.ts';

export interface LiveCodeOptions {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  /** The orchestration code. Called once, with the first event. */
  readonly program: (code: LiveCode, started: ExecutionStarted) => Promise<unknown>;
  readonly payloadLimitBytes?: number;
  readonly stateLimits?: StateLimits | undefined;
  /** Default true. */
  readonly deterministicGlobals?: boolean;
  /** Fail an execution whose code never awaited some of its operations. Default false. */
  readonly failUnawaited?: boolean;
  /** Record the lines of code that issue operations, for `neverAwaitedPlaces`. Default: `failUnawaited`. */
  readonly recordPlaces?: boolean | undefined;
  /** Advice in a `NondeterminismError`. Default: restore the code or register a new version. */
  readonly advice?: string | undefined;
  /** Called when the code breaks outside a turn, also after `dispose`: pass the failure to a turn in a wake message. */
  readonly onBroken?: (failure: Failure) => void;
}

/** Records commands: in the history during a turn, for comparison during a replay. */
export interface Recorder {
  /** Whether recorded events are being applied. */
  readonly isReplaying: boolean;
  /** Whether a turn or a replay is in progress. */
  readonly isBusy: boolean;
  record(command: CommandEvent): void;
  recordArrived(operation: Operation, at: number): AnswerEvent | undefined;
  /** The event recorded at the position of the next command; absent outside a replay. */
  readonly recordedNext: HistoryEvent | undefined;
  /** The id of the next event of the code. Valid while the code runs. */
  readonly nextEventId: number;
}

const none: readonly never[] = [];
const noIds: ReadonlySet<string> = new Set();

// Measured by `bench/cases/warm-memory.ts`, with all that the worker and the client hold for the instance.
const baseSizeBytes = 4_500;
const scopeSizeBytes = 2_250;

/** The running code of an execution: its operations, scopes, time and end. */
export class LiveCode implements ScopeHost, ScopeOwner, IdleWork, UpdateHost {
  readonly instanceId: string;
  readonly executionId: number;
  readonly payloadLimitBytes: number;
  readonly stateLimits: StateLimits;
  /** The commands of the code; the author's context is built on them. */
  readonly commands: Commands;
  readonly scopes: Scopes;
  readonly patches: Patches;
  readonly hasDeterministicGlobals: boolean;
  readonly recordsPlaces: boolean;
  readonly ending: Ending;
  readonly breakage: Breakage;
  holder: unknown;
  tags: Tags = {};
  /** The settings of the start, if it had any. */
  carried: CarriedSettings | undefined;
  takenChildIds: ReadonlySet<string> = noIds;

  readonly #options: LiveCodeOptions;
  readonly #recorder: Recorder;
  readonly #table = new OperationTable();
  readonly #window = new TurnWindow(this);
  readonly #root = new CancelScope(this);
  /** Scopes whose code has ended but that have not settled. */
  #closed: CancelScope[] = [];
  #random: { readonly identity: Identity; readonly numbers: DeterministicRandom } | undefined;
  #inherited: readonly InheritedEvents[] = none;
  #steps = 0;
  #inputBytes = 0;
  #nowMs = 0;
  #startedAtMs = 0;
  /** Created when they are used. */
  #state: StateValues | undefined;
  #updates: Updates | undefined;
  /** A `NondeterminismError` that the code itself threw. */
  #disagreement: NondeterminismError | undefined;

  constructor(options: LiveCodeOptions, recorder: Recorder) {
    this.#options = options;
    this.#recorder = recorder;
    this.instanceId = options.instanceId;
    this.executionId = options.executionId;
    this.payloadLimitBytes = options.payloadLimitBytes ?? defaultPayloadLimitBytes;
    this.stateLimits = options.stateLimits ?? defaultStateLimits;
    this.hasDeterministicGlobals = options.deterministicGlobals ?? true;
    this.recordsPlaces = options.recordPlaces ?? options.failUnawaited ?? false;
    this.breakage = new Breakage(options.onBroken);
    this.commands = new Commands(this, this.#table);
    this.scopes = new Scopes(this, this.commands);
    this.patches = new Patches(this);
    this.ending = new Ending(this.#root, this.#table);
  }

  /** Estimated memory use. */
  get sizeBytes(): number {
    const scopesBytes = this.scopes.openCount * scopeSizeBytes;
    const stateBytes = this.#state?.sizeBytes ?? 0;
    return baseSizeBytes + this.#inputBytes + this.#table.sizeBytes + scopesBytes + stateBytes;
  }

  get isReplaying(): boolean {
    return this.#recorder.isReplaying;
  }

  /** The event recorded at the position of the next command; absent outside a replay. */
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

  get updates(): Updates {
    this.#updates ??= new Updates(this);
    return this.#updates;
  }

  get state(): StateValues {
    this.#state ??= new StateValues();
    return this.#state;
  }

  random(): number {
    assertOutsideValidation(currentScope(), 'a random number');
    return this.#generator().next();
  }

  uuid(): string {
    assertOutsideValidation(currentScope(), 'a random number');
    return this.#generator().uuid();
  }

  /** The number of events that a retry or a fork copied. */
  get inheritedEvents(): number {
    return this.#inherited.length === 0 ? 0 : (this.#inherited.at(-1)?.events ?? 0);
  }

  get isPastInherited(): boolean {
    return this.#inherited.length > 0 && this.#recorder.nextEventId > this.inheritedEvents;
  }

  get isInherited(): boolean {
    return this.#inherited.length > 0 && this.#recorder.nextEventId <= this.inheritedEvents;
  }

  get identity(): Identity {
    if (!this.isInherited) return this.#options;
    const next = this.#recorder.nextEventId;
    return this.#inherited.find(({ events }) => next <= events) ?? this.#options;
  }

  /** Starts the code and runs it until it waits. */
  start(started: ExecutionStarted): Promise<void> {
    this.#inherited = started.inherited ?? none;
    this.#nowMs = started.at;
    this.#startedAtMs = started.at;
    // As text and as a value.
    this.#inputBytes = (started.payload?.length ?? 0) * 2;
    this.tags = started.tags ?? {};
    if (started.headers !== undefined || started.priority !== undefined)
      this.carried = carriedSettings(started);
    if (started.state !== undefined) this.#state = new StateValues(started.state);
    if (started.takenChildIds !== undefined) this.takenChildIds = new Set(started.takenChildIds);
    for (const event of started.carried ?? none) this.#table.receive(event.name, event.payload);
    this.#window.open();
    if (started.cancel !== undefined) this.ending.requestCancel(started.cancel);
    void runInScope(this.#root, () => this.#run(started));
    return this.#window.drain();
  }

  /** Applies an event and runs the code until it waits. */
  deliver(event: IncomingEvent): Promise<void> {
    this.#nowMs = event.at;
    this.#steps += 1;
    this.#window.open();
    if (event.kind === 'eventReceived') this.#table.receive(event.name, event.payload);
    else if (event.kind === 'cancelRequested') this.ending.requestCancel(event);
    else if (event.kind === 'updateAccepted') this.updates.start(event);
    else this.#table.apply(event, this.#isCopied);
    return this.#window.drain();
  }

  /** Whether the event that is applied was copied by a retry or a fork. */
  get #isCopied(): boolean {
    return this.#inherited.length > 0 && this.#recorder.nextEventId - 1 <= this.inheritedEvents;
  }

  /** Whether the event can be applied now (R4). */
  accepts(event: IncomingEvent): boolean {
    if (event.kind === 'eventReceived') return true;
    if (event.kind === 'cancelRequested') return this.ending.cancel === undefined;
    if (event.kind === 'updateAccepted') return this.updates.accepts(event.name);
    return this.#table.isAnswerable(event);
  }

  /** The steps without an outcome, by operation, in call order. */
  get pendingSteps(): ReadonlyMap<number, Operation> {
    return this.#table.steps;
  }

  /** The number of buffered external events. */
  get bufferedEvents(): number {
    return this.#table.inbox.size;
  }

  /** The tags of the instance, for the next execution. */
  carriedTags(): { readonly tags?: Tags } {
    return Object.keys(this.tags).length === 0 ? {} : { tags: this.tags };
  }

  /** The state of the instance, for the next execution. */
  carriedState(): { readonly state?: readonly StateValue[] } {
    const values = this.#state?.values() ?? none;
    return values.length === 0 ? {} : { state: values };
  }

  /** The buffered external events, for the next execution. */
  leftovers(): BufferedEvent[] {
    return this.#table.inbox.leftovers();
  }

  /**
   * Returns the terminal event, if the execution has ended: the outcome of the code, or the failure that broke it. Throws
   * a `NondeterminismError` that the code itself threw, so that the turn is not committed.
   */
  async conclude(at: number, reported?: Failure): Promise<TerminalEvent | undefined> {
    if (this.#disagreement !== undefined) throw this.#disagreement;
    const outcome = this.ending.outcomeAt(this.#nowMs);
    if (outcome !== undefined) return this.#checkAwaited(outcome);
    if (reported !== undefined) return { kind: 'executionFailed', at, failure: reported };
    const isStuck = this.#table.size === 0 && this.#updates?.hasHandlers !== true;
    if (!isStuck && !this.breakage.isBroken) return undefined;
    await yieldToEventLoop();
    const failure =
      this.breakage.failure ?? (isStuck ? toFailure(strayWait(this.#where())) : undefined);
    return failure === undefined ? undefined : { kind: 'executionFailed', at, failure };
  }

  /** Describes the operations that the code never awaited, if it returned or continued as new. */
  neverAwaited(outcome: TerminalEvent): readonly string[] {
    const isRegular =
      outcome.kind === 'executionCompleted' || outcome.kind === 'executionContinuedAsNew';
    return isRegular ? this.#table.neverAwaited() : none;
  }

  /** Where the code issued the operations that it never awaited, as far as places are recorded. */
  get neverAwaitedPlaces(): readonly string[] {
    return this.#table.neverAwaitedPlaces();
  }

  /** Closes the turn window for good: the code can no longer act. */
  dispose(): void {
    this.#window.close();
  }

  /**
   * Ends this execution; the next one starts with `payload`. The returned promise never settles, and later commands are
   * ignored. After a cancel request, it rejects with a `CanceledError` instead.
   */
  continueAsNew(next: {
    readonly version: string;
    readonly payload: Payload | null;
  }): DurablePromise<never> {
    assertOutsideHandler('ctx.continueAsNew()');
    const scope = this.enter('continueAsNew');
    const { cancel } = this.ending;
    if (cancel !== undefined) {
      return DurablePromise.rejected(toCanceledError(toWithdrawal(cancel)));
    }
    this.ending.decide({ kind: 'executionContinuedAsNew', at: this.#nowMs, ...next });
    scope.unshield();
    return DurablePromise.never();
  }

  /** The error with which a new operation of the running code would reject, if its scope is canceled. */
  get canceled(): CanceledError | undefined {
    const { canceled } = this.enterToRead('isCanceled');
    return canceled === undefined ? undefined : toCanceledError(canceled);
  }

  enter(what: string, name = ''): CancelScope {
    const scope = currentScope();
    if (!this.#window.isOpen || scope?.execution !== this) {
      const step = currentStep();
      if (step !== undefined) throw insideStep(describe(what, name), step);
      assertOutsideValidation(scope, describe(what, name));
      throw this.#addStray(`${describe(what, name)} was called`);
    }
    return scope as CancelScope;
  }

  /** As `enter`, for calls that change nothing: the validation of an update may read. */
  enterToRead(what: string, name = ''): CancelScope {
    return isValidationOf(this, currentScope()) ? this.#root : this.enter(what, name);
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

  runInRoot(body: () => void): void {
    runInScope(this.#root, body);
  }

  get isCanceling(): boolean {
    return this.ending.cancel !== undefined;
  }

  get isDecided(): boolean {
    return this.ending.isDecided;
  }

  get isContinuing(): boolean {
    return this.ending.isContinuing;
  }

  keepDisagreement(error: unknown): boolean {
    if (!(error instanceof NondeterminismError)) return false;
    this.#disagreement = error;
    return true;
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

  /** Settles empty scopes. If there are none and the end must wait, cancels the operations it does not wait for. */
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
      const what = `The result of orchestration ${JSON.stringify(started.name)}`;
      const payload = encodePayload(output, what, this.payloadLimitBytes);
      this.#finish({ kind: 'executionCompleted', at: this.#nowMs, payload });
    } catch (error) {
      this.keepDisagreement(error);
      this.#finish(toThrown(error, this.ending.cancel, this.#nowMs));
    }
  }

  #checkAwaited(outcome: TerminalEvent): TerminalEvent {
    if (this.#options.failUnawaited !== true) return outcome;
    const operations = this.neverAwaited(outcome);
    if (operations.length === 0) return outcome;
    const failure = toFailure(neverAwaited(this.instanceId, operations, this.neverAwaitedPlaces));
    return { kind: 'executionFailed', at: outcome.at, failure };
  }

  #finish(outcome: TerminalEvent): void {
    if (this.ending.isDecided) return;
    if (this.isInTurn('the orchestration ended')) this.ending.decide(outcome);
  }

  // Only scopes that are empty now: the code that they resume must be idle before outer scopes may settle.
  #settleScopes(): boolean {
    const empty = this.#closed.filter(({ isEmpty: isQuiet }) => isQuiet);
    if (empty.length === 0) return false;
    this.#closed = this.#closed.filter(({ isEmpty: isQuiet }) => !isQuiet);
    for (const scope of empty) scope.settle();
    return true;
  }

  #addStray(what: string): PerdureError {
    const error = strayCall({ ...this.#where(), what });
    // Code of another instance that uses this context breaks itself, not this instance.
    const isForeign = (currentScope()?.execution ?? this) !== this;
    if (!this.ending.isRecorded && !isForeign) this.breakWith(error);
    return error;
  }

  #where(): { instanceId: string; lastOperation: string | undefined } {
    return { instanceId: this.instanceId, lastOperation: this.commands.lastOperation };
  }

  // Copied events get the numbers of their writer. A fork must not repeat the numbers that its original draws later.
  #generator(): DeterministicRandom {
    const { identity } = this;
    if (this.#random?.identity !== identity) {
      const { incarnation, executionId } = identity;
      const numbers = new DeterministicRandom(`${incarnation}/${executionId}`);
      this.#random = { identity, numbers };
    }
    return this.#random.numbers;
  }
}
