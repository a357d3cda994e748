import { PerdureError } from '../../index.ts';

/** A flow that cannot be built, and what to do about it. */
export function invalidFlow(message: string): PerdureError {
  return new PerdureError('INVALID_FLOW', message);
}
