import type { StepNode } from '../definition/graph.ts';
import type { OutputStream } from './output-stream.ts';

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
