import type { ParentRef } from '../../model/event.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { Failure } from '../../model/failures/failure.ts';
import { createProgram } from '../../orchestration/program.ts';
import type { Registry } from '../../orchestration/registry.ts';
import { Execution } from '../../replay/execution.ts';
import type { ResolvedOptions } from '../options.ts';
import type { LoopHold, LoopHolder } from '../watchdog/loop-holder.ts';
import type { SettledActivity } from './completions.ts';
import type { TurnSubject } from './turn-effects.ts';

/** An instance whose function is alive in this process, standing exactly where `lastTurn` left it. */
export class WarmInstance implements TurnSubject, LoopHolder {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly parent: ParentRef | null;
  /** Replaced only by an equal one that was replayed from the store. */
  code: InstanceCode;
  /** Activities that have settled here and wait for a turn of their own. */
  readonly settled: SettledActivity[] = [];
  /** Activities that were left in the queue and have not answered: later ones do not overtake them. */
  readonly queued = new Set<number>();
  /** Timers that this process has set and that have not fired, with when they are due by the store's whole milliseconds. */
  readonly timers = new Map<number, number>();
  /** The last turn that committed; `null` before the first. */
  lastTurn: string | null;
  /** The claim under which its turn runs; absent while it runs in memory. */
  claim: string | undefined;
  /** The claims on the work whose outcomes its turn in memory applies. */
  items: readonly string[] | undefined;
  /** What lists hold that outlast the instance: empty once it is gone, so that they keep nothing alive. */
  readonly handle: { instance: WarmInstance | undefined } = { instance: this };
  #busy = false;
  readonly #waiting: (() => void)[] = [];

  constructor(fields: {
    readonly instanceKey: number;
    readonly subject: TurnSubject;
    readonly incarnation: string;
    readonly code: InstanceCode;
    readonly lastTurn: string | null;
  }) {
    this.instanceKey = fields.instanceKey;
    this.instanceId = fields.subject.instanceId;
    this.incarnation = fields.incarnation;
    this.executionId = fields.subject.executionId;
    this.name = fields.subject.name;
    this.version = fields.subject.version;
    this.parent = fields.subject.parent;
    this.code = fields.code;
    this.lastTurn = fields.lastTurn;
    fields.code.execution.holder = this;
  }

  describeHold(): LoopHold {
    const { instanceKey, instanceId, incarnation, executionId, name, lastTurn, claim, items } =
      this;
    return {
      kind: 'turn',
      watchdogId: this.code.watchdogId,
      what: `a turn of orchestration ${JSON.stringify(name)}`,
      instanceId,
      orchestration: name,
      ...(claim !== undefined && { lockToken: claim }),
      ...(items !== undefined && { items }),
      ...(lastTurn !== null && { fences: { instanceKey, incarnation, executionId, lastTurn } }),
    };
  }

  /** Turns of one instance run one after the other: resolves once this caller may run one. */
  async acquire(): Promise<void> {
    if (!this.tryAcquire()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Takes the instance if it is free. */
  tryAcquire(): boolean {
    if (this.#busy) return false;
    this.#busy = true;
    return true;
  }

  /** Lets the next one in. */
  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy = false;
    else next();
  }

  /** Evicted: what it knows can no longer be trusted. */
  get isEvicted(): boolean {
    return this.handle.instance === undefined;
  }

  /** Lets go of the function. */
  discard(): void {
    this.handle.instance = undefined;
    this.execution.dispose();
  }

  get execution(): Execution {
    return this.code.execution;
  }

  get isBusy(): boolean {
    return this.#busy;
  }
}

/** What an execution needs to know of the instance it runs. */
export interface ProgramSubject {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
}

/** The live code of an instance. */
export interface InstanceCode {
  readonly execution: Execution;
  readonly broken: FaultReporter;
  /** The worker that it belongs to, for the watchdog. */
  readonly watchdogId: number;
}

const notDeterministic =
  'The same code was replayed right after this turn: it depends on something that is not recorded. Read time, randomness and outside state through the context or in an activity.';

/** Makes executions from the registered code. */
export class ProgramFactory {
  readonly #registry: Registry;
  readonly #options: ResolvedOptions;
  readonly #onBroken: (report: FaultReport) => void;
  readonly #watchdogId: number;

  constructor(params: {
    readonly registry: Registry;
    readonly options: ResolvedOptions;
    readonly onBroken: (report: FaultReport) => void;
    readonly watchdogId: number;
  }) {
    this.#registry = params.registry;
    this.#options = params.options;
    this.#onBroken = params.onBroken;
    this.#watchdogId = params.watchdogId;
  }

  /** An execution whose code never runs: for ending an instance without it. */
  createInert({ instanceId, incarnation, executionId }: ProgramSubject): InstanceCode {
    const program = (): Promise<unknown> => Promise.resolve();
    const execution = new Execution({ instanceId, incarnation, executionId, program });
    const broken = new FaultReporter(instanceId, this.#onBroken);
    return { execution, broken, watchdogId: this.#watchdogId };
  }

  /** `replay`: for code that replays what the same code has just done. */
  create(subject: ProgramSubject, purpose: 'run' | 'replay' = 'run'): InstanceCode {
    const { instanceId, incarnation, executionId, name, version } = subject;
    const definition = this.#registry.find(name, version);
    if (definition === undefined) {
      throw new PerdureError(
        'UNREGISTERED',
        `Orchestration ${JSON.stringify(name)} version ${JSON.stringify(version)} is not registered with this worker.`,
      );
    }
    const broken = new FaultReporter(instanceId, this.#onBroken);
    const execution = new Execution({
      instanceId,
      incarnation,
      executionId,
      program: createProgram(definition, {
        log: this.#options.logger,
        scheduleDefaults: (activity) => this.#registry.scheduleDefaults(activity),
      }),
      payloadLimitBytes: this.#options.payloadLimitBytes,
      deterministicGlobals: this.#options.deterministicGlobals,
      failUnawaited: this.#options.onUnawaited === 'fail',
      ...(purpose === 'replay' && { advice: notDeterministic }),
      onBroken: (failure) => broken.fail(failure),
    });
    return { execution, broken, watchdogId: this.#watchdogId };
  }
}

/** Code broke after a turn that is in the store: the next turn has to say so. */
export interface FaultReport {
  readonly instanceId: string;
  /** The turn after which it broke. */
  readonly turnId: string;
  readonly failure: Failure;
}

/**
 * Hears when the code of one execution breaks between its turns. It passes that on only for a turn that has
 * committed: what never became part of the instance (a start that was refused, a replay that did not agree) cannot harm it.
 */
export class FaultReporter {
  readonly #instanceId: string;
  readonly #report: (report: FaultReport) => void;
  #failure: Failure | undefined;
  #turnId: string | undefined;
  #joined: FaultReporter | undefined;

  constructor(instanceId: string, report: (report: FaultReport) => void) {
    this.#instanceId = instanceId;
    this.#report = report;
  }

  fail(failure: Failure): void {
    if (this.#joined !== undefined) {
      this.#joined.fail(failure);
      return;
    }
    this.#failure = failure;
    this.#reportIfCommitted();
  }

  /** Reports through another from now on: this code continues what that code began. */
  join(other: FaultReporter): void {
    this.#joined = other;
    if (this.#failure !== undefined) other.fail(this.#failure);
  }

  committed(turnId: string): void {
    this.#turnId = turnId;
    this.#reportIfCommitted();
  }

  #reportIfCommitted(): void {
    if (this.#failure === undefined || this.#turnId === undefined) return;
    this.#report({ instanceId: this.#instanceId, turnId: this.#turnId, failure: this.#failure });
  }
}
