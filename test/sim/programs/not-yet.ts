import { ProviderError } from '../../../src/model/failures/errors.ts';

/** An error with which a call of `Simulation.act` is repeated. */
export function notYet(operation: string, message: string, cause?: Error): ProviderError {
  return new ProviderError({ operation, message, retryable: true, cause });
}
