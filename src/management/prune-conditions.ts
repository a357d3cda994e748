import { readCount, readMoment } from './option-values.ts';

/** Which finished executions go: all conditions must hold. The current execution never goes. */
export interface PruneConditions {
  /** Spare the last so many, the current one among them; with 0 or 1 only the current one is spared. */
  readonly keepLast?: number | undefined;
  /** Only those that ended before this moment. */
  readonly completedBefore?: Date | number | undefined;
}

/** Conditions that were checked. */
export interface CheckedPrune {
  readonly keepLast?: number;
  readonly endedBefore?: number;
}

/** Checks conditions; bad values are `INVALID_OPTION`. */
export function readPruneConditions(given: {
  readonly keepLast?: unknown;
  readonly completedBefore?: unknown;
}): CheckedPrune {
  const { keepLast, completedBefore } = given;
  return {
    ...(keepLast !== undefined && { keepLast: readCount('keepLast', keepLast) }),
    ...(completedBefore !== undefined && {
      endedBefore: readMoment('completedBefore', completedBefore),
    }),
  };
}

/** What is recorded of conditions. */
export function pruneShape({ keepLast, endedBefore }: CheckedPrune): object {
  return {
    ...(keepLast !== undefined && { keepLast }),
    ...(endedBefore !== undefined && { executionsCompletedBefore: endedBefore }),
  };
}
