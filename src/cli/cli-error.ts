import type { ExitCode } from './command.ts';

/** An error of the command line with its exit code, and the next command. */
export class CliError extends Error {
  readonly exitCode: ExitCode;
  readonly code: string;
  /** The sentence after the message: what to run next. */
  readonly next: string | undefined;

  constructor(exitCode: ExitCode, code: string, message: string, next?: string) {
    super(message);
    this.name = 'CliError';
    this.exitCode = exitCode;
    this.code = code;
    this.next = next;
  }
}

/** A wrong call: exit code 2. */
export function usage(message: string, next?: string): CliError {
  return new CliError(2, 'USAGE', message, next);
}

/** Nothing was changed: exit code 4. */
export function refused(message: string, next?: string): CliError {
  return new CliError(4, 'REFUSED', message, next);
}

/** Ctrl-C: exit code 130. */
export function interrupted(message = 'Interrupted.', next?: string): CliError {
  return new CliError(130, 'INTERRUPTED', message, next);
}
