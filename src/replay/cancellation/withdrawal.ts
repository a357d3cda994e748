import {
  CanceledError,
  isPerdureError,
  PerdureError,
  type CancelTrigger,
} from '../../model/failures/errors.ts';

/** Why something pending is given up. */
export interface Withdrawal {
  readonly trigger: CancelTrigger;
  readonly reason: string;
}

const mark = Symbol('perdure.withdrawal');

/** What the code that awaits something withdrawn gets. */
export function toCanceledError({ trigger, reason }: Withdrawal): CanceledError {
  const error = new CanceledError(reason, trigger);
  Object.defineProperty(error, mark, { value: true });
  return error;
}

/** Says whether an error does no more than tell of a withdrawal: nobody has to handle it. */
export function isWithdrawal(error: unknown): boolean {
  return PerdureError.is(error) && mark in error;
}

/** Says whether code ended because it was canceled: with a `CanceledError`, or with nothing but such in an aggregate. */
export function isCancellation(error: unknown): boolean {
  if (error instanceof AggregateError) {
    return error.errors.length > 0 && error.errors.every(isCancellation);
  }
  return isPerdureError(error, 'OPERATION_CANCELED');
}
