import { PerdureError } from '../../model/failures/errors.ts';
import { createProgram } from '../../orchestration/program.ts';
import type { Registry } from '../../orchestration/registry.ts';
import { Execution } from '../../replay/execution.ts';
import { BrokenCode, type BrokenReport } from './broken-code.ts';
import type { ResolvedOptions } from '../options.ts';

/** What an execution needs to know of the instance it runs. */
export interface ProgramSubject {
  readonly instanceId: string;
  readonly incarnation: string;
  readonly executionId: number;
  readonly name: string;
  readonly version: string;
}

/** The live code of an instance. */
export interface LiveCode {
  readonly execution: Execution;
  readonly broken: BrokenCode;
  /** The worker that it belongs to, for the watchdog. */
  readonly watched: number;
}

const notDeterministic =
  'The same code was replayed right after this turn: it depends on something that is not recorded. Read time, randomness and outside state through the context or in an activity.';

/** Makes executions from the registered code. */
export class ProgramFactory {
  readonly #registry: Registry;
  readonly #options: ResolvedOptions;
  readonly #onBroken: (report: BrokenReport) => void;
  readonly #watched: number;

  constructor(params: {
    readonly registry: Registry;
    readonly options: ResolvedOptions;
    readonly onBroken: (report: BrokenReport) => void;
    readonly watched: number;
  }) {
    this.#registry = params.registry;
    this.#options = params.options;
    this.#onBroken = params.onBroken;
    this.#watched = params.watched;
  }

  /** An execution whose code never runs: for ending an instance without it. */
  createInert({ instanceId, incarnation, executionId }: ProgramSubject): LiveCode {
    const program = (): Promise<unknown> => Promise.resolve();
    const execution = new Execution({ instanceId, incarnation, executionId, program });
    const broken = new BrokenCode(instanceId, this.#onBroken);
    return { execution, broken, watched: this.#watched };
  }

  /** `replay`: for code that replays what the same code has just done. */
  create(subject: ProgramSubject, purpose: 'run' | 'replay' = 'run'): LiveCode {
    const { instanceId, incarnation, executionId, name, version } = subject;
    const definition = this.#registry.find(name, version);
    if (definition === undefined) {
      throw new PerdureError(
        'UNREGISTERED',
        `Orchestration ${JSON.stringify(name)} version ${JSON.stringify(version)} is not registered with this worker.`,
      );
    }
    const broken = new BrokenCode(instanceId, this.#onBroken);
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
      onBroken: (failure) => broken.broke(failure),
    });
    return { execution, broken, watched: this.#watched };
  }
}
