import type { Failure } from '../failures/failure.ts';

/** A failure as a codec stores it: `message`, `stack`, `details` and `cause` are in `sealed`. */
export interface SealedFailure extends Failure {
  /** The encoded JSON text of the hidden fields. */
  readonly sealed: string;
}

/** Whether a stored failure is still encoded. */
export function isSealedFailure(value: unknown): value is SealedFailure {
  return (
    typeof value === 'object' && value !== null && typeof Reflect.get(value, 'sealed') === 'string'
  );
}
