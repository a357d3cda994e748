import { isPerdureError, type ErrorCode } from '../model/failures/errors.ts';
import { CliError } from './cli-error.ts';
import type { ExitCode } from './command.ts';

/** How the command line reports an error. */
export interface ReportedError {
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly message: string;
  /** What to run next. */
  readonly next?: string;
}

const usageCode = 2;
const notFoundCode = 3;
const refusedCode = 4;
const unreachableCode = 5;
const timeoutCode = 6;
const endedCode = 7;

/** The exit code of each error code of the library. Others: 1. */
const exitCodes: Readonly<Partial<Record<ErrorCode, ExitCode>>> = {
  INVALID_INPUT: usageCode,
  INVALID_NAME: usageCode,
  INVALID_ID: usageCode,
  INVALID_DURATION: usageCode,
  INVALID_OPTION: usageCode,
  INVALID_REQUEST: usageCode,
  INVALID_SCHEDULE: usageCode,
  NOT_SERIALIZABLE: usageCode,
  PAYLOAD_TOO_LARGE: usageCode,
  INSTANCE_NOT_FOUND: notFoundCode,
  SCHEDULE_NOT_FOUND: notFoundCode,
  SESSION_NOT_FOUND: notFoundCode,
  UNREGISTERED: notFoundCode,
  INSTANCE_ALREADY_EXISTS: refusedCode,
  INSTANCE_OVER: refusedCode,
  INSTANCE_STILL_RUNNING: refusedCode,
  INSTANCE_NOT_RETRYABLE: refusedCode,
  CANNOT_DELETE_SUB_ORCHESTRATION: refusedCode,
  EVENT_BUFFER_FULL: refusedCode,
  UNKNOWN_UPDATE: refusedCode,
  UPDATE_REJECTED: refusedCode,
  UPDATE_KEY_REUSED: refusedCode,
  TOO_MANY_UPDATES: refusedCode,
  UPDATE_FAILED: endedCode,
  UPDATE_INTERRUPTED: endedCode,
  UNKNOWN_SIGNAL: refusedCode,
  SIGNAL_ALREADY_DELIVERED: refusedCode,
  AMBIGUOUS_SESSION: refusedCode,
  SESSION_CLOSED: refusedCode,
  SESSION_DOWNGRADE: refusedCode,
  STREAM_TAKEN: refusedCode,
  CURSOR_UNKNOWN: refusedCode,
  UNAUTHENTICATED: refusedCode,
  FORBIDDEN: refusedCode,
  READ_ONLY: refusedCode,
  STORE_TOO_NEW: refusedCode,
  STORE_TOO_OLD: refusedCode,
  STORE_INCOMPATIBLE: refusedCode,
  PROVIDER: unreachableCode,
  UNAVAILABLE: unreachableCode,
  RATE_LIMITED: unreachableCode,
  WRONG_HOST: unreachableCode,
  NO_SUCH_ROUTE: unreachableCode,
  METHOD_NOT_ALLOWED: unreachableCode,
  TIMEOUT: timeoutCode,
  INSTANCE_FAILED: endedCode,
  INSTANCE_TERMINATED: endedCode,
  POISON: endedCode,
  OPERATION_CANCELED: endedCode,
  TASK_SKIPPED: endedCode,
  TASK_EXPIRED: endedCode,
};

/** The next command after an error. */
const nextSteps: Readonly<Partial<Record<ErrorCode, string>>> = {
  INSTANCE_NOT_FOUND: 'Run `perdure list` to see the instances.',
  SCHEDULE_NOT_FOUND: 'Run `perdure schedules list` to see the schedules.',
  SESSION_NOT_FOUND: 'Run `perdure sessions list` to see the sessions.',
  AMBIGUOUS_SESSION: 'Pass the id of one session. `perdure sessions list` shows the ids.',
  INSTANCE_STILL_RUNNING: 'Run `perdure cancel --wait <id>` or `perdure terminate <id>` first.',
  INSTANCE_ALREADY_EXISTS: 'Pass another --id, or leave it out.',
  INSTANCE_NOT_RETRYABLE: 'Run `perdure show <id>` to see how it ended.',
  INSTANCE_OVER: 'Run `perdure show <id>` to see how it ended.',
  STORE_TOO_OLD: 'Run `perdure migrate --plan` to see the missing migrations.',
  STORE_TOO_NEW: 'Use the newest version: `npx perdure@latest`.',
  UNAUTHENTICATED: 'Set PERDURE_TOKEN to a token of this server, or pass --token-file.',
  FORBIDDEN: 'Use a token with a higher role: `perdure token create`.',
  PROVIDER: 'Run `perdure doctor` to check the connection.',
  TIMEOUT: 'Run `perdure why <id>` to see what it waits for.',
};

/** Returns how to report an error of a command. */
export function reportOf(error: unknown): ReportedError {
  if (error instanceof CliError) {
    const { exitCode, code, message, next } = error;
    return { exitCode, code, message, ...(next !== undefined && { next }) };
  }
  if (isPerdureError(error)) {
    const { code, message } = error;
    const next = nextSteps[code];
    return { exitCode: exitCodes[code] ?? 1, code, message, ...(next !== undefined && { next }) };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { exitCode: 1, code: 'FAILED', message };
}
