import { FailedError, isPerdureError, PerdureError, type Failure } from '../../index.ts';

/** Why a flow failed, for its on-fail handler. */
export interface FlowFailure<Input = unknown, Steps = Readonly<Record<string, unknown>>> {
  readonly input: Input;
  /** The step that failed first; absent when all ended well and none gave an output. */
  readonly step?: keyof Steps & string;
  /** The item that failed, when the step is a map or generator. */
  readonly index?: number;
  /** What the handler was given. */
  readonly given?: unknown;
  /** Absent when it failed without a handler: its condition, its source, its timeout. */
  readonly attempts?: number;
  readonly failure: Failure;
  /** What the steps that completed gave; maps and generators, and what is too large to pass on, are left out. */
  readonly outputs: { readonly [Step in keyof Steps]?: Steps[Step] };
}

/** A step failed, and with it its flow. */
export class StepFailedError extends PerdureError {
  readonly step: string;
  readonly index: number | undefined;
  /** What the handler was given. */
  readonly given: unknown;
  readonly attempts: number | undefined;
  readonly failure: Failure;

  constructor(options: {
    readonly flow: string;
    readonly step: string;
    readonly index?: number | undefined;
    readonly given?: unknown;
    readonly error: unknown;
  }) {
    const { flow, step, index, given, error } = options;
    const failure = toFailure(error);
    const item = index === undefined ? '' : `, item ${index},`;
    super('STEP_FAILED', `Step '${step}'${item} of flow '${flow}' failed: ${failure.message}`, {
      cause: error instanceof FailedError ? error.cause : error,
    });
    this.step = step;
    this.index = index;
    this.given = given;
    this.failure = failure;
    this.attempts = error instanceof FailedError ? (failure.attempts ?? 1) : undefined;
  }

  /** Kept with the failure of the run. */
  get details(): object {
    const { step, index, attempts } = this;
    return {
      step,
      ...(index !== undefined && { index }),
      ...(attempts !== undefined && { attempts }),
    };
  }
}

/** An error as plain data. */
export function toFailure(error: unknown): Failure {
  if (error instanceof FailedError) return error.failure;
  if (isPerdureError(error)) {
    return { name: error.name, message: error.message, code: error.code, nonRetryable: true };
  }
  return { name: 'Error', message: String(error) };
}

/** A flow that cannot be built, and what to do about it. */
export function invalidFlow(message: string): PerdureError {
  return new PerdureError('INVALID_FLOW', message);
}
