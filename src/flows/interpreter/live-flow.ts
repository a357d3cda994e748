import {
  isPerdureError,
  NondeterminismError,
  PerdureError,
  type OrchestrationContext,
  type StandardSchema,
} from '../../index.ts';
import { StepFailedError } from '../definition/flow-errors.ts';
import {
  dependenciesOf,
  hasItems,
  isStreamed,
  sourceOf,
  thawCall,
  wholeOutputs,
  type FlowGraph,
  type FrozenCall,
  type RunInput,
  type StepNode,
} from '../definition/graph.ts';
import type { FlowStatus, StepResult } from '../definition/run-format.ts';
import { ItemError, OutputStream } from './items.ts';
import { Signals } from './signals.ts';
import { cancelReasons, isSkipped, type FlowValues } from './step-rules.ts';
import { runStep } from './step-runs.ts';

/** What a worker has of a flow besides the graph of a run. */
export interface FlowCode {
  /** The names of the activities that it has handlers for. */
  readonly activities: ReadonlySet<string>;
  /** The schemas of signals, by name. */
  readonly signals: ReadonlyMap<string, StandardSchema>;
}

/** A handler completed the flow: unwinds everything else. */
export class EarlyEnd extends Error {
  readonly output: unknown;
  readonly reason: string;

  constructor(output: unknown, reason: string) {
    super(reason);
    this.output = output;
    this.reason = reason;
  }
}

/**
 * A flow while it runs: every step waits for its dependencies on its own, the first that fails or completes the flow
 * stops all others. The work of a turn is that of the steps and items that it concerns.
 */
export class LiveFlow implements FlowValues {
  readonly ctx: OrchestrationContext<RunInput>;
  readonly graph: FlowGraph;
  readonly input: unknown;
  /** Of calls that have none of their own. */
  readonly priority: Pick<RunInput, 'priority'>;
  readonly #code: FlowCode;
  readonly #steps = new Map<string, LiveStep>();
  readonly #readers = new Map<string, number>();
  readonly #missing = Promise.withResolvers<never>();
  #signals: Signals | undefined;
  #status: FlowStatus = {};
  #stop: (reason: string) => void = () => undefined;
  #end: Error | undefined;

  constructor(ctx: OrchestrationContext<RunInput>, run: RunInput, code: FlowCode) {
    this.ctx = ctx;
    this.graph = run.flow;
    this.priority = run.priority === undefined ? {} : { priority: run.priority };
    this.input = run.input;
    this.#code = code;
    const whole = wholeOutputs(this.graph);
    for (const node of this.graph.steps) {
      const readers = this.graph.steps.filter(
        (other) => sourceOf(other) === node.name && isStreamed(other, this.graph),
      );
      readers.forEach(({ name }, index) => this.#readers.set(name, index));
      const stream = hasItems(node.kind)
        ? new OutputStream({ keepsAll: whole.has(node.name), readers: readers.length })
        : undefined;
      this.#steps.set(node.name, new LiveStep(node, stream));
    }
  }

  /** Runs all steps. Throws an `EarlyEnd`, a `StepFailedError`, or the `CanceledError` of a run that was canceled. */
  async run(): Promise<void> {
    const scope = this.ctx.scope(async () => {
      this.#signals = new Signals(this.ctx, this.graph, {
        schemas: this.#code.signals,
        onTaken: (signal, token) => {
          this.#show({ signals: { ...this.#status.signals, [signal]: token } });
        },
      });
      await Promise.all([...this.#steps.values()].map((step) => this.#guard(step)));
    });
    this.#stop = (reason) => scope.cancel(reason);
    // Not a race of the context: whoever lacks a handler must not record that the rest was given up.
    await Promise.race([scope, this.#missing.promise]);
  }

  step(name: string): LiveStep {
    const step = this.#steps.get(name);
    if (step === undefined) throw new Error(`There is no step '${name}'.`);
    return step;
  }

  /** The outputs of the steps that have completed and are small enough to be passed on together. */
  outputs(): Readonly<Record<string, unknown>> {
    const done = [...this.#steps.values()].filter(
      ({ isCompleted, stream }) => isCompleted && stream === undefined,
    );
    return Object.fromEntries(done.map(({ name, output }) => [name, output]));
  }

  outputOf(step: string): unknown {
    return this.step(step).output;
  }

  /** What came with the signal of a step. */
  async signalOf({ node }: LiveStep): Promise<{ readonly signal?: unknown }> {
    if (node.signal === undefined) return {};
    return { signal: await this.#signals?.payloadOf(node.signal) };
  }

  /** Which of the readers of its source a reduce is. */
  readerOf({ name }: LiveStep): number {
    return this.#readers.get(name) ?? 0;
  }

  /** Calls an activity of a step and answers its output; one that completes the flow throws an `EarlyEnd`. */
  async call(activity: string, input: unknown, options: FrozenCall | undefined): Promise<unknown> {
    const missing = this.lackOf(activity);
    if (missing !== undefined) {
      this.#missing.reject(missing);
      return new Promise(() => undefined);
    }
    const result = (await this.ctx.call(
      activity,
      input,
      thawCall(options, this.priority),
    )) as StepResult;
    if ('early' in result) throw new EarlyEnd(result.output, result.reason);
    return result.output;
  }

  /**
   * What to throw when this worker has no handler for something that is due: the turn is then not taken, the run shows
   * as blocked, and whoever has the handler goes on. What is in history was called by somebody who had it.
   */
  lackOf(activity: string): NondeterminismError | undefined {
    if (this.#code.activities.has(activity) || this.ctx.isReplaying) return undefined;
    return new NondeterminismError(
      `Run '${this.ctx.instanceId}' was started with a definition of flow '${this.graph.name}' that has '${activity}', for which this worker has no handler. Deploy one that has it, or cancel the run.`,
      0,
    );
  }

  async #guard(step: LiveStep): Promise<void> {
    try {
      await this.#runStep(step);
    } catch (error) {
      throw this.#endBy(step, this.#cancelBefore(error));
    }
  }

  async #runStep(step: LiveStep): Promise<void> {
    const { node } = step;
    const dependencies = dependenciesOf(node, this.graph);
    await Promise.all(dependencies.map((name) => this.step(name).settled));
    if (isSkipped(node, this)) step.skip();
    else step.complete(await runStep(this, step));
  }

  /**
   * A step may still fail with an error of its own after the run was canceled: it was waited for, or it failed before it
   * could be told. The cancel came first then.
   */
  #cancelBefore(error: unknown): unknown {
    const isOurs = this.#end !== undefined || error instanceof EarlyEnd;
    if (isOurs || isPerdureError(error, 'OPERATION_CANCELED')) return error;
    try {
      this.ctx.throwIfCanceled();
      return error;
    } catch (canceled) {
      return canceled;
    }
  }

  /** The first failure, or the first early completion, decides; a cancel from outside is passed on as it is. */
  #endBy(step: LiveStep, thrown: unknown): Error {
    const { name } = step;
    if (this.#end !== undefined) return this.#end;
    const error = thrown instanceof ItemError ? thrown.cause : thrown;
    if (isPerdureError(error, 'OPERATION_CANCELED')) return error;
    if (error instanceof EarlyEnd) {
      this.#end = error;
      this.#show({ completedEarly: { step: name, reason: error.reason } });
      this.#stop(cancelReasons.completedEarly(name));
    } else {
      this.#end = this.#toFailed(step, thrown);
      this.#stop(cancelReasons.siblingFailed(name));
    }
    return this.#end;
  }

  #toFailed({ name, given }: LiveStep, thrown: unknown): StepFailedError {
    const place = { flow: this.graph.name, step: name };
    if (!(thrown instanceof ItemError))
      return new StepFailedError({ ...place, given, error: thrown });
    const { index, item, cause } = thrown;
    return new StepFailedError({ ...place, index, given: item, error: cause });
  }

  #show(change: FlowStatus): void {
    this.#status = { ...this.#status, ...change };
    this.ctx.setCustomStatus(this.#status);
  }
}

/** The output of a flow whose steps have all settled: that of the first candidate that completed. */
export function selectOutput(flow: LiveFlow): unknown {
  for (const name of flow.graph.output) {
    const step = flow.step(name);
    if (step.isCompleted) return step.output;
  }
  throw new PerdureError(
    'NO_OUTPUT',
    `Flow '${flow.graph.name}' has no output candidate: ${flow.graph.output.join(', ')} were all skipped. Add a step to its output that always runs.`,
  );
}

/** One step of a running flow: what it has come to, and a promise for those who depend on it. */
export class LiveStep {
  readonly node: StepNode;
  /** The outputs of its items, for a map or generator. */
  readonly stream: OutputStream | undefined;
  /** Resolves when the step has completed or was skipped; a failure ends the flow and needs no promise. */
  readonly settled: Promise<void>;
  /** What its handler was given of dependencies and signals, once it began. */
  given: Readonly<Record<string, unknown>> | undefined;
  readonly #resolve: () => void;
  #state: 'open' | 'completed' | 'skipped' = 'open';
  #output: unknown;

  constructor(node: StepNode, stream: OutputStream | undefined) {
    this.node = node;
    this.stream = stream;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.settled = promise;
    this.#resolve = resolve;
  }

  get name(): string {
    return this.node.name;
  }

  get isCompleted(): boolean {
    return this.#state === 'completed';
  }

  /** `undefined` for a step that was skipped. */
  get output(): unknown {
    return this.#output;
  }

  complete(output: unknown): void {
    this.#state = 'completed';
    this.#output = output;
    this.#resolve();
  }

  skip(): void {
    this.#state = 'skipped';
    this.#resolve();
  }
}
