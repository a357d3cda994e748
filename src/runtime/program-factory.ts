import { PerdureError } from '../model/errors.ts';
import type { Failure } from '../model/failure.ts';
import { createProgram } from '../orchestration/program.ts';
import type { Registry } from '../orchestration/registry.ts';
import { Execution } from '../replay/execution.ts';
import type { ResolvedOptions } from './options.ts';

/** What an execution needs to know of the instance it runs. */
export interface ProgramSubject {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
}

/** Told when code misbehaves between its turns. */
export type OnBroken = (broken: {
  readonly instanceId: string;
  readonly executionId: number;
  readonly failure: Failure;
}) => void;

/** Makes executions from the registered code. */
export class ProgramFactory {
  readonly #registry: Registry;
  readonly #options: ResolvedOptions;
  readonly #onBroken: OnBroken;

  constructor(registry: Registry, options: ResolvedOptions, onBroken: OnBroken) {
    this.#registry = registry;
    this.#options = options;
    this.#onBroken = onBroken;
  }

  /** An execution whose code never runs: for ending an instance without it. */
  createInert({ instanceId, incarnation, executionId }: ProgramSubject): Execution {
    const program = (): Promise<unknown> => Promise.resolve();
    return new Execution({ instanceId, incarnation, executionId, program });
  }

  createExecution(subject: ProgramSubject): Execution {
    const { instanceId, incarnation, executionId, name, version } = subject;
    const definition = this.#registry.find(name, version);
    if (definition === undefined) {
      throw new PerdureError(
        'UNREGISTERED',
        `Orchestration ${JSON.stringify(name)} version ${JSON.stringify(version)} is not registered with this worker.`,
      );
    }
    return new Execution({
      instanceId,
      incarnation,
      executionId,
      program: createProgram(definition, { log: this.#options.logger }),
      payloadLimitBytes: this.#options.payloadLimitBytes,
      maxBufferedEvents: this.#options.maxBufferedEvents,
      onBroken: (failure) => this.#onBroken({ instanceId, executionId, failure }),
    });
  }
}
