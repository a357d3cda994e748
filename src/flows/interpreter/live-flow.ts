import {
  isPerdureError,
  NondeterminismError,
  PerdureError,
  type CallOptions,
  type OrchestrationContext,
  type StandardSchema,
} from '../../index.ts';
import { quote, StepFailedError } from '../definition/flow-errors.ts';
import {
  dependenciesOf,
  hasItems,
  isStreamed,
  sourceOf,
  thawCall,
  wholeOutputs,
  type FlowGraph,
  type RunInput,
  type StepNode,
} from '../definition/graph.ts';
import { keyAt } from '../definition/step-lane.ts';
import type { FlowStatus, StepResult } from '../definition/run-format.ts';
import { ItemError, OutputStream } from './items.ts';
import { Signals } from './signals.ts';
import { cancelReasons, isSkipped, type FlowValues } from './step-rules.ts';
import { runStep } from './step-runs.ts';

/** The code that a worker has for a flow. */
export interface FlowCode {
  /** The names of the activities with a handler. */
  readonly activities: ReadonlySet<string>;
  /** The schemas of signals, by name. */
  readonly signals: ReadonlyMap<string, StandardSchema>;
}

/** Thrown when a handler called `completeEarly`, to unwind the other steps. */
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
 * A running flow. Each step waits for its dependencies independently. The first step that fails or completes the flow
 * early cancels all others. The cost of a turn depends only on the steps and items that it concerns.
 */
export class LiveFlow implements FlowValues {
  readonly ctx: OrchestrationContext<RunInput>;
  readonly graph: FlowGraph;
  readonly input: unknown;
  /** The priority of calls without one. */
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

  /** Runs all steps. Rejects with `EarlyEnd`, `StepFailedError`, or `CanceledError` if the run is canceled. */
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
    // A native race: ctx.race() would record the losers as canceled, which a worker without the handler must not do.
    await Promise.race([scope, this.#missing.promise]);
  }

  step(name: string): LiveStep {
    const step = this.#steps.get(name);
    if (step === undefined) throw new Error(`No step ${quote(name)}.`);
    return step;
  }

  /** Returns the outputs of completed steps, without those of maps and generators. */
  outputs(): Readonly<Record<string, unknown>> {
    const done = [...this.#steps.values()].filter(
      ({ isCompleted, stream }) => isCompleted && stream === undefined,
    );
    return Object.fromEntries(done.map(({ name, output }) => [name, output]));
  }

  outputOf(step: string): unknown {
    return this.step(step).output;
  }

  /** Resolves with the payload of a step's signal, once the run has received it. */
  async signalOf({ node }: LiveStep): Promise<{ readonly signal?: unknown }> {
    if (node.signal === undefined) return {};
    return { signal: await this.#signals?.payloadOf(node.signal) };
  }

  /** Returns the reader index of a reduce at its source. */
  readerOf({ name }: LiveStep): number {
    return this.#readers.get(name) ?? 0;
  }

  /** Calls an activity of a step. Resolves with its output, or rejects with `EarlyEnd`. */
  async call(
    activity: string,
    input: unknown,
    { call: options, key }: Pick<StepNode, 'call' | 'key'>,
  ): Promise<unknown> {
    const missing = this.missingHandler(activity);
    if (missing !== undefined) {
      this.#missing.reject(missing);
      return new Promise(() => undefined);
    }
    const result = (await this.ctx.call(
      activity,
      input,
      this.#withKey(thawCall(options, this.priority), key),
    )) as StepResult;
    if ('early' in result) throw new EarlyEnd(result.output, result.reason);
    return result.output;
  }

  #withKey(options: CallOptions, path: StepNode['key']): CallOptions {
    if (path === undefined) return options;
    const { weight: _, ...rest } = options;
    const key = keyAt(path, this);
    return key === undefined ? rest : { ...options, key };
  }

  /**
   * Returns the error to throw if this worker has no handler for an activity. The turn is then not committed, the run is
   * blocked, and a worker with the handler continues it. Calls in the history need no handler.
   */
  missingHandler(activity: string): NondeterminismError | undefined {
    if (this.#code.activities.has(activity) || this.ctx.isReplaying) return undefined;
    return new NondeterminismError(
      `Run ${quote(this.ctx.instanceId)} of flow ${quote(this.graph.name)} calls ${quote(activity)}, for which this worker has no handler. Deploy a worker that has it, or cancel the run.`,
      0,
      undefined,
      { cause: new PerdureError('UNREGISTERED', `No handler for ${quote(activity)}.`) },
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
   * Returns the `CanceledError` if the run was canceled before a step failed with another error. This happens with
   * `cancellation: 'wait'`, and when a step fails before it is signaled.
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

  /** Ends the flow by its first failure or early completion. Returns a cancel of the run unchanged. */
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

/** Returns the output of the first candidate that completed. Throws `NO_OUTPUT` if all were skipped. */
export function selectOutput(flow: LiveFlow): unknown {
  for (const name of flow.graph.output) {
    const step = flow.step(name);
    if (step.isCompleted) return step.output;
  }
  throw new PerdureError(
    'NO_OUTPUT',
    `Flow ${quote(flow.graph.name)} has no output: its candidates ${flow.graph.output.join(', ')} were all skipped. Add a candidate that always runs.`,
  );
}

/** A step of a running flow. */
export class LiveStep {
  readonly node: StepNode;
  /** The outputs of the items of a map or generator. */
  readonly stream: OutputStream | undefined;
  /** Resolves when the step has completed or was skipped. Never rejects: a failure ends the flow. */
  readonly settled: Promise<void>;
  /** The dependency outputs and signal payload that its handler receives, once it has started. */
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

  /** `undefined` if the step was skipped. */
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
