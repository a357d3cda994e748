import { PerdureError } from '../../model/failures/errors.ts';

/** A run is settled for the second time. */
export function settledTwice(task: string, id: string, call: string): PerdureError {
  return new PerdureError(
    'BATCH_RUN_SETTLED',
    `run.${call}() of task ${JSON.stringify(task)} was called for run ${JSON.stringify(id)}, which is already settled. Settle each run once.`,
  );
}

/** A run is settled after the handler has returned. */
export function afterReturn(task: string, id: string, call: string): PerdureError {
  return new PerdureError(
    'OUTSIDE_HANDLER',
    `run.${call}() of task ${JSON.stringify(task)} was called for run ${JSON.stringify(id)} after the batch handler had returned. Await it in the handler.`,
  );
}

/** The handler returned without settling a run. */
export function unsettled(task: string, id: string): PerdureError {
  return new PerdureError(
    'BATCH_RUN_UNSETTLED',
    `The batch handler of task ${JSON.stringify(task)} returned without settling run ${JSON.stringify(id)}. Call run.complete() or run.fail() for each run, or return an array of results.`,
  );
}

/** The handler or the closure of its transaction returned a value that is not one result per run. */
export function invalidResult(task: string, result: unknown, count: number): PerdureError {
  const given = Array.isArray(result)
    ? `${result.length} results`
    : `a value of type ${typeof result}`;
  return new PerdureError(
    'BATCH_RUN_UNSETTLED',
    `The batch handler of task ${JSON.stringify(task)} returned ${given} for ${count} runs. Return one result per run, in their order, or nothing.`,
  );
}

/** No run is left for a transaction. */
export function allSettled(task: string): PerdureError {
  return new PerdureError(
    'BATCH_RUN_SETTLED',
    `ctx.transaction() of task ${JSON.stringify(task)} was called after each run of the batch was settled. Call it before run.complete().`,
  );
}
