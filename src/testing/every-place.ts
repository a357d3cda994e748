import { PerdureError } from '../model/failures/errors.ts';
import type { InstanceStatus } from '../model/status.ts';
import type { FaultMoment } from './simulated-process.ts';

/** A run with a fault at one place. */
export interface PlaceRun {
  /** Number of the place, from 1. */
  readonly place: number;
  /** The instance's id. Each run has its own store. */
  readonly id: string;
  /** How the instance ended. */
  readonly status: InstanceStatus;
  /** The output of a completed instance. */
  readonly output?: unknown;
}

/** How to run a program at every place, and what must hold after each run. */
export interface EveryPlaceOptions<Environment, InstanceHandle> {
  /** Checks the invariant after a run. Throws or returns `false` if it does not hold. */
  readonly expect: (run: PlaceRun) => unknown;
  /** Called before each run, to reset what the activities have changed. */
  readonly before?: (() => unknown) | undefined;
  /** Called after the start, for example to raise events. Its errors are ignored once the fault has happened. */
  readonly drive?: ((env: Environment, handle: InstanceHandle) => Promise<unknown>) | undefined;
  /** Maximum places. Default: 1,000. */
  readonly maxPlaces?: number | undefined;
}

/** A fault at the nth write of the worker. */
export interface Fault {
  readonly write: number;
  readonly moment: FaultMoment;
}

/** The outcome of a run with a fault. `reached`: the fault happened before the instance ended. */
export type FaultyRun = Omit<PlaceRun, 'place'> & { readonly reached: boolean };

const defaultMaxPlaces = 1_000;

/** Runs a program once per fault until a run ends before its fault, and checks the invariant after each. Returns the number of runs. */
export async function runAtEveryPlace(params: {
  /** Name of the method, for errors. */
  readonly method: string;
  /** The fault, for errors: `a cancel`. */
  readonly what: string;
  readonly moments: readonly FaultMoment[];
  readonly options: Pick<EveryPlaceOptions<never, never>, 'expect' | 'before' | 'maxPlaces'>;
  readonly run: (fault: Fault) => Promise<FaultyRun>;
}): Promise<number> {
  const { method, what, moments, options, run } = params;
  const { maxPlaces = defaultMaxPlaces } = options;
  let place = 0;
  for (let write = 1; ; write += 1) {
    for (const moment of moments) {
      await options.before?.();
      const { reached, ...ended } = await run({ write, moment });
      if (!reached) return place;
      place += 1;
      if (place > maxPlaces) throw tooMany(method, maxPlaces);
      const where = `${what} ${moment === 'beforeCommit' ? 'before' : 'after'} commit ${write}`;
      await check(options.expect, { place, ...ended }, `${method}: after ${where}`);
    }
  }
}

async function check(
  expect: (run: PlaceRun) => unknown,
  run: PlaceRun,
  where: string,
): Promise<void> {
  const message = `${where}, the instance ended as ${run.status} and the invariant does not hold`;
  let result: unknown;
  try {
    result = await expect(run);
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${message}: ${detail}`, { cause });
  }
  if (result === false) throw new Error(`${message}.`);
}

function tooMany(method: string, maxPlaces: number): PerdureError {
  return new PerdureError(
    'INVALID_OPTION',
    `${method}: the program has more than ${maxPlaces} places. Use a smaller input, or raise \`maxPlaces\`.`,
  );
}
