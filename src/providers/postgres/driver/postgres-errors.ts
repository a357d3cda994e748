import { PerdureError, ProviderError } from '../../../model/failures/errors.ts';

/** The code of an error: an SQLSTATE like `40P01`, a code of the socket like `ECONNRESET`, or nothing. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

// The driver gives these no code.
const lostMessages =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|Query read timeout|timeout exceeded when trying to connect|timeout expired|The server does not support SSL)/;

const lostSocket =
  /^(ECONN(RESET|REFUSED|ABORTED)|EPIPE|ETIMEDOUT|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN|ENOENT|EADDRNOTAVAIL)$/;

/** The connection is gone, or the server will not take another statement on it. */
export function isConnectionLost(error: unknown): boolean {
  const code = errorCode(error);
  // 25P03 and 25P04: the server has ended a transaction that took too long, and the connection with it.
  if (/^(08|57P0|25P0[34])/.test(code) || lostSocket.test(code)) return true;
  return code === '' && error instanceof Error && lostMessages.test(error.message);
}

/**
 * Trying again on another connection can help, and the transaction that met this was rolled back: deadlock,
 * serialization failure, a server that stops, starts, or has become a standby, a plan that a migration has outdated.
 */
export function isTransient(error: unknown): boolean {
  return (
    isConnectionLost(error) ||
    /^(40001|40P01|25006|53300|55P03|26000)$/.test(errorCode(error)) ||
    isStalePlan(error)
  );
}

/** The connection must not be used again, though it stands. */
export function spoilsConnection(error: unknown): boolean {
  if (error instanceof ProviderError && error.outcomeUnknown) return true;
  return isConnectionLost(error) || isStalePlan(error) || /^(25006|26000)$/.test(errorCode(error));
}

/** A table was changed below a prepared statement. */
function isStalePlan(error: unknown): boolean {
  return errorCode(error) === '0A000' && /cached plan/.test(String(error));
}

/** A COMMIT that was refused like this has certainly not happened; after every other error nobody knows. */
export function isRefusedCommit(error: unknown): boolean {
  return /^(23|25|40)/.test(errorCode(error)) && errorCode(error) !== '40003';
}

/** PostgreSQL has refused the data of a statement: a key that is taken, or a value that it cannot take. */
export function refusesData(error: unknown): boolean {
  const code = errorCode(error);
  return /^(22|23)/.test(
    code === 'PROVIDER' && error instanceof Error ? errorCode(error.cause) : code,
  );
}

/** Resolves with `undefined` if PostgreSQL refuses the data of a statement, so that the caller can fall back. */
export async function undefinedIfRefused<T>(statement: Promise<T>): Promise<T | undefined> {
  try {
    return await statement;
  } catch (error) {
    if (refusesData(error)) return undefined;
    throw error;
  }
}

/** The item is at fault and not the store: its neighbours can still commit. */
export function isFaultOfItem(error: unknown): boolean {
  if (error instanceof ProviderError && error.cause !== undefined)
    return isFaultOfItem(error.cause);
  if (PerdureError.is(error)) return error.code !== 'CLOSED';
  const code = errorCode(error);
  if (/^[0-9A-Z]{5}$/.test(code)) return /^(22|23|54)/.test(code);
  return error instanceof Error && !isConnectionLost(error);
}

/** Says what went wrong in the terms of the contract, with advice, and without what the URL keeps secret. */
export function toProviderError(operation: string, error: unknown): PerdureError {
  if (PerdureError.is(error)) return error;
  const code = errorCode(error);
  return new ProviderError({
    operation,
    message: `${operation}: ${describe(error)} (${code === '' ? 'refused' : code}). ${advice(code, error)}`,
    retryable: isTransient(error) || /^(53|57014|58)/.test(code),
    cause: error,
  });
}

/** The connection was lost while the server may have been committing: whether it did is found out by reading. */
export function unknownOutcome(operation: string, cause: unknown): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: the connection was lost during the commit (${describe(cause)}), so it is unknown whether it happened. Read what you wrote before you write it again.`,
    retryable: true,
    outcomeUnknown: true,
    cause,
  });
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A host with several addresses fails with one error for each, and no message of its own.
  const message =
    error.message === '' && error instanceof AggregateError
      ? String(error.errors[0])
      : error.message;
  return message.replace(/\.$/, '');
}

function advice(code: string, error: unknown): string {
  switch (code) {
    case '28P01':
    case '28000':
      return 'Check the user and the password in the URL, and pg_hba.conf on the server.';
    case '3D000':
      return 'Create the database, or correct its name in the URL.';
    case '42501':
      return "Grant the role what the guide 'Scaling out' lists, or let another role run the migrations.";
    case '25006':
      return 'The server is a standby or read-only. Point the URL to the primary.';
    case '53300':
      return 'Lower poolSize, raise max_connections, or put a pooler in between.';
    case '57014':
      return 'The statement took longer than statementTimeoutMs. Look for locks held by other transactions.';
    case '26000':
    case '42P05':
      return 'A pooler shares connections between clients. Open the store with prepare: false.';
    case '3F000':
    case '42P01':
      return 'The schema is missing or not complete. Run the migrations.';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'Check the host in the URL and the name server.';
    case 'ECONNREFUSED':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ENOENT':
      return 'Check the host and the port in the URL, and that the server runs.';
    default:
      if (isTransient(error)) return 'Try again.';
      return 'Nothing of it was kept.';
  }
}
