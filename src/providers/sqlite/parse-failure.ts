import { ProviderError } from '../../model/errors.ts';
import type { Failure } from '../../model/failure.ts';

/** Reads the failure of an outcome; one that is no JSON is refused before it can be stored. */
export function parseFailure(text: string): Failure {
  try {
    return JSON.parse(text) as Failure;
  } catch (cause) {
    throw new ProviderError({
      operation: 'ackWorkItems',
      message: 'ackWorkItems: the failure is not JSON. Pass the JSON text of a Failure.',
      retryable: false,
      cause,
    });
  }
}
