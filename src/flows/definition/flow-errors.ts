import { FailedError, isPerdureError, PerdureError, type Failure } from '../../index.ts';

/** The failure that an on-fail handler receives. */
export interface FlowFailure<Input = unknown, Steps = Readonly<Record<string, unknown>>> {
  readonly input: Input;
  /** The step that failed first. Absent if no output candidate completed (`NO_OUTPUT`). */
  readonly step?: keyof Steps & string;
  /** The index of the failed item, if the step is a map or generator. */
  readonly index?: number;
  /** The input of the failed handler. */
  readonly given?: unknown;
  /** Absent if the step failed outside its handler: in its condition, its source or its timeout. */
  readonly attempts?: number;
  readonly failure: Failure;
  /** The outputs of completed steps, without maps and generators. Empty if they exceed the payload limit. */
  readonly outputs: { readonly [Step in keyof Steps]?: Steps[Step] };
}

/** Thrown when a step fails and with it its flow. */
export class StepFailedError extends PerdureError {
  readonly step: string;
  readonly index: number | undefined;
  /** The input of the failed handler. */
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
    // The history records this message, and replay compares it: do not change its text.
    super('STEP_FAILED', `Step '${step}'${item} of flow '${flow}' failed: ${failure.message}`, {
      cause: error instanceof FailedError ? error.cause : error,
    });
    this.step = step;
    this.index = index;
    this.given = given;
    this.failure = failure;
    this.attempts = error instanceof FailedError ? (failure.attempts ?? 1) : undefined;
  }

  /** Stored in `details` of the run's failure. */
  get details(): object {
    const { step, index, attempts } = this;
    return {
      step,
      ...(index !== undefined && { index }),
      ...(attempts !== undefined && { attempts }),
    };
  }
}

/** Returns the step that a run's failure names. */
export function failedStep(failure: Failure | undefined): string | undefined {
  return ((failure?.details ?? {}) as { readonly step?: string }).step;
}

/** Converts an error to plain data. */
export function toFailure(error: unknown): Failure {
  if (error instanceof FailedError) return error.failure;
  if (isPerdureError(error)) {
    return { name: error.name, message: error.message, code: error.code, nonRetryable: true };
  }
  return { name: 'Error', message: String(error) };
}

/** Creates the error for a flow definition that is not valid. */
export function invalidFlow(message: string): PerdureError {
  return new PerdureError('INVALID_FLOW', message);
}

/** Quotes a value for an error message. */
export function quote(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
