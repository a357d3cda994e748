import type { OrchestrationContext } from '../../src/orchestration/orchestration-context.ts';
import {
  orchestration,
  type OrchestrationDefinition,
} from '../../src/orchestration/orchestration.ts';
import { TurnDriver } from '../replay/turn-driver.ts';

type Code = (context: OrchestrationContext, input: never) => unknown;

/** A program with a stored history. The current engine must replay it, and detect each changed version of the code. */
export interface GoldenProgram {
  readonly name: string;
  readonly definition: OrchestrationDefinition;
  readonly executionId: number;
  /** Drives the execution, beginning with the start message. */
  readonly play: (run: TurnDriver) => Promise<unknown>;
  /** Changed versions of the code, each with the event at which the replay must fail. */
  readonly mutants: readonly {
    readonly definition: OrchestrationDefinition;
    readonly eventId: number;
  }[];
}

/** Defines a golden program; its orchestration has the same name. */
export function golden(
  name: string,
  options: {
    readonly code: Code;
    readonly play: (run: TurnDriver) => Promise<unknown>;
    readonly mutants: readonly (readonly [eventId: number, code: Code])[];
    readonly executionId?: number;
  },
): GoldenProgram {
  const define = (code: Code) => orchestration(name, code as never);
  return {
    name,
    definition: define(options.code),
    executionId: options.executionId ?? 1,
    play: options.play,
    mutants: options.mutants.map(([eventId, code]) => ({ eventId, definition: define(code) })),
  };
}

/** Runs a golden program from its start with the current engine. */
export async function playGolden(program: GoldenProgram): Promise<TurnDriver> {
  const { name: instanceId, executionId, definition } = program;
  const run = new TurnDriver(definition, { instanceId, incarnation: 'golden', executionId });
  run.nowMs = Date.UTC(2030, 0, 1);
  await program.play(run);
  return run;
}
