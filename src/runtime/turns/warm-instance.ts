import type { ParentRef } from '../../model/event.ts';
import { PerdureError } from '../../model/failures/errors.ts';
import type { Failure } from '../../model/failures/failure.ts';
import type { TraceContext } from '../../model/trace-context.ts';
import type { ScheduleDefaults } from '../../orchestration/call-options.ts';
import type { OrchestrationDefinition } from '../../orchestration/orchestration.ts';
import { createProgram } from '../../orchestration/program.ts';
import type { Registry } from '../../orchestration/registry.ts';
import { Execution } from '../../replay/execution.ts';
import type { ResolvedOptions } from '../options.ts';
import type { LoopHold, LoopHolder } from '../watchdog/loop-holder.ts';
import type { SettledActivity } from './completions.ts';
import type { TurnSubject } from './turn-effects.ts';

/** An instance whose code is in memory, in the state that `lastTurn` left it in. */
export class WarmInstance implements TurnSubject, LoopHolder {
  readonly instanceKey: number;
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly parent: ParentRef | null;
  readonly trace: TraceContext | undefined;
  /** Replaced only by an equal copy that was replayed from the store. */
  code: InstanceCode;
  /** Outcomes of this process that wait for a turn. */
  readonly settled: SettledActivity[] = [];
  /** Queued activities without an outcome. While there are any, new activities are queued too, to keep the order. */
  readonly queued = new Set<number>();
  /** Pending timers set by this process: operation to due time, in whole milliseconds of the store's clock. */
  readonly timers = new Map<number, number>();
  /** The claim that this worker keeps while it runs steps of the instance. */
  hold: object | undefined;
  /** Whether the store has the timer that an instance has while its steps run. */
  isGuarded = false;
  /** The last committed turn. `null` before the first. */
  lastTurn: string | null;
  /** The claim under which its turn runs. Absent for a turn in memory. */
  claim: string | undefined;
  /** The claims of the work items whose outcomes the turn in memory applies. */
  items: readonly string[] | undefined;
  /** Reference for long-lived lists. Emptied on eviction, so that they do not keep the instance alive. */
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
    this.trace = fields.subject.trace;
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

  /** Resolves once the caller may run a turn. Turns of an instance run one at a time, in order. */
  async acquire(): Promise<void> {
    if (!this.tryAcquire()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Acquires the instance if it is free. Returns whether it did. */
  tryAcquire(): boolean {
    if (this.#busy) return false;
    this.#busy = true;
    return true;
  }

  /** Releases the instance to the next waiting caller. */
  release(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy = false;
    else next();
  }

  /** Whether it was evicted, so that its state must not be used. */
  get isEvicted(): boolean {
    return this.handle.instance === undefined;
  }

  /** Evicts the instance and disposes of its code. */
  discard(): void {
    this.handle.instance = undefined;
    this.execution.dispose();
  }

  get execution(): Execution {
    return this.code.execution;
  }

  /** Whether a turn or a step of it runs. */
  get isBusy(): boolean {
    return this.#busy || this.hold !== undefined;
  }
}

/** The instance that an execution runs. */
export interface ProgramSubject {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
  readonly trace?: TraceContext | undefined;
}

/** The code of an instance in memory. */
export interface InstanceCode {
  readonly execution: Execution;
  readonly faults: FaultReporter;
  /** Id of its worker in the watchdog. */
  readonly watchdogId: number;
}

const notDeterministic =
  'The same code was replayed directly after this turn, so it depends on a value that is not recorded. Read time, randomness and external state through `ctx` or in an activity.';

type Program = ReturnType<typeof createProgram>;

/** Creates executions from the registered code. */
export class ProgramFactory {
  readonly #registry: Registry;
  readonly #options: ResolvedOptions;
  readonly #onFault: (report: FaultReport) => void;
  readonly #watchdogId: number;
  readonly #programs = new WeakMap<OrchestrationDefinition, Program>();
  readonly #scheduleDefaults = (activity: string): ScheduleDefaults | undefined =>
    this.#registry.scheduleDefaults(activity);

  constructor(params: {
    readonly registry: Registry;
    readonly options: ResolvedOptions;
    readonly onFault: (report: FaultReport) => void;
    readonly watchdogId: number;
  }) {
    this.#registry = params.registry;
    this.#options = params.options;
    this.#onFault = params.onFault;
    this.#watchdogId = params.watchdogId;
  }

  /** Creates an execution whose code never runs, to end an instance without it. */
  createInert({ instanceId, incarnation, executionId }: ProgramSubject): InstanceCode {
    const program = (): Promise<unknown> => Promise.resolve();
    const execution = new Execution({ instanceId, incarnation, executionId, program });
    const faults = new FaultReporter(instanceId, this.#onFault);
    return { execution, faults, watchdogId: this.#watchdogId };
  }

  /** Creates an execution. `'replay'`: for a replay directly after the same code ran. `'places'`: to find the lines of calls. Throws `UNREGISTERED`. */
  create(subject: ProgramSubject, purpose: 'run' | 'replay' | 'places' = 'run'): InstanceCode {
    const { instanceId, incarnation, executionId, name, version, trace } = subject;
    const definition = this.#registry.find(name, version);
    if (definition === undefined) {
      throw new PerdureError(
        'UNREGISTERED',
        `Orchestration ${JSON.stringify(name)} version ${JSON.stringify(version)} is not registered with this worker.`,
      );
    }
    const faults = new FaultReporter(instanceId, this.#onFault);
    const execution = new Execution({
      instanceId,
      incarnation,
      executionId,
      program: this.#programOf(definition, trace),
      payloadLimitBytes: this.#options.payloadLimitBytes,
      stateLimits: this.#options.stateLimits,
      deterministicGlobals: this.#options.deterministicGlobals,
      failUnawaited: this.#options.onUnawaited === 'fail',
      advice: purpose === 'replay' ? notDeterministic : undefined,
      recordPlaces: purpose === 'places' ? true : undefined,
      onBroken: (failure) => faults.fail(failure),
    });
    return { execution, faults, watchdogId: this.#watchdogId };
  }

  /** The program of a definition. Without a trace, all its instances share one. */
  #programOf(definition: OrchestrationDefinition, trace: TraceContext | undefined): Program {
    const { logger: log, middleware } = this.#options;
    const scheduleDefaults = this.#scheduleDefaults;
    if (trace !== undefined) {
      return createProgram(definition, { log, trace, scheduleDefaults, middleware });
    }
    let program = this.#programs.get(definition);
    if (program === undefined) {
      program = createProgram(definition, { log, scheduleDefaults, middleware });
      this.#programs.set(definition, program);
    }
    return program;
  }
}

/** A failure of orchestration code after a committed turn. The next turn records it. */
export interface FaultReport {
  readonly instanceId: string;
  /** The turn after which the code failed. */
  readonly turnId: string;
  readonly failure: Failure;
}

/**
 * Reports a failure of orchestration code between two turns, once its last turn has committed.
 * Code whose turn never commits (a rejected start, a replay that disagrees) cannot fail the instance.
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

  /** Reports through `other` from now on: this code replaces the code of `other`. */
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
