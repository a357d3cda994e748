import type { Failure } from './failure.ts';

/** What a log line shows of a failure. */
export interface LoggedError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/** The part of a failure that belongs in a log: without `details`, which may hold payloads of user code. */
export function toLoggedError({ name, message, code, stack, cause }: Failure): LoggedError {
  // The message of a disagreement quotes inputs; its own log line names the recorded and the issued command.
  if (code === 'NONDETERMINISM') return { name, message: 'code and history disagree', code };
  return {
    name,
    message,
    ...(code !== undefined && { code }),
    ...(stack !== undefined && { stack }),
    ...(cause !== undefined && { cause: toLoggedError(cause) }),
  };
}
