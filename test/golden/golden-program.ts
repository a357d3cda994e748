import type { OrchestrationContext } from '../../src/orchestration/orchestration-context.ts';
import {
  orchestration,
  type OrchestrationDefinition,
} from '../../src/orchestration/orchestration.ts';
import { TurnDriver } from '../replay/turn-driver.ts';

type Code = (context: OrchestrationContext, input: never) => unknown;

/** A program whose history is kept: today's engine must still agree with it, and notice when the code is changed. */
export interface GoldenProgram {
  readonly name: string;
  readonly definition: OrchestrationDefinition;
  readonly executionId: number;
  /** Plays the world, from the start message on. */
  readonly play: (run: TurnDriver) => Promise<unknown>;
  /** Changes of the code that must be found, each with the event at which it must be found. */
  readonly mutants: readonly {
    readonly definition: OrchestrationDefinition;
    readonly eventId: number;
  }[];
}

/** Describes a golden program; its orchestration has the same name. */
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

/** Runs a golden program from its start with the engine of today. */
export async function playGolden(program: GoldenProgram): Promise<TurnDriver> {
  const { name: instanceId, executionId, definition } = program;
  const run = new TurnDriver(definition, { instanceId, incarnation: 'golden', executionId });
  run.nowMs = Date.UTC(2030, 0, 1);
  await program.play(run);
  return run;
}
