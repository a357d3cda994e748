import { PerdureError, ProviderError } from '../../../model/failures/errors.ts';

/** Returns the SQLSTATE (`40P01`) or socket code (`ECONNRESET`) of an error, or an empty string. */
export function errorCode(error: unknown): string {
  if (typeof error !== 'object' || error === null || !('code' in error)) return '';
  return typeof error.code === 'string' ? error.code : '';
}

// Errors of the driver without a code.
const lostMessages =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|Query read timeout|timeout exceeded when trying to connect|timeout expired|The server does not support SSL)/;

const lostSocket =
  /^(ECONN(RESET|REFUSED|ABORTED)|EPIPE|ETIMEDOUT|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN|ENOTFOUND|EAI_AGAIN|ENOENT|EADDRNOTAVAIL)$/;

/** Whether the connection is lost or the server accepts no more statements on it. */
export function isConnectionLost(error: unknown): boolean {
  const code = errorCode(error);
  // 25P03 and 25P04: the server ended a transaction that took too long, and its connection.
  if (/^(08|57P0|25P0[34])/.test(code) || lostSocket.test(code)) return true;
  return code === '' && error instanceof Error && lostMessages.test(error.message);
}

/**
 * Whether a retry on another connection can succeed. The transaction was rolled back. Causes: deadlock, serialization
 * failure, lock timeout, too many connections, restart or failover of the server, or a plan outdated by a migration.
 */
export function isTransient(error: unknown): boolean {
  return (
    isConnectionLost(error) ||
    /^(40001|40P01|25006|53300|55P03|26000)$/.test(errorCode(error)) ||
    isStalePlan(error)
  );
}

/** Whether the connection must not be used again. */
export function spoilsConnection(error: unknown): boolean {
  if (error instanceof ProviderError && error.outcomeUnknown) return true;
  return isConnectionLost(error) || isStalePlan(error) || /^(25006|26000)$/.test(errorCode(error));
}

/** Whether a migration has changed a table of a prepared statement. */
function isStalePlan(error: unknown): boolean {
  return errorCode(error) === '0A000' && /cached plan/.test(String(error));
}

/** Whether a failed COMMIT was certainly rolled back. After any other error its outcome is unknown. */
export function isRefusedCommit(error: unknown): boolean {
  return /^(23|25|40)/.test(errorCode(error)) && errorCode(error) !== '40003';
}

/** Whether PostgreSQL rejected the data of a statement: a duplicate key or an invalid value. */
function refusesData(error: unknown): boolean {
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

/** Whether an item of the batch caused the error, so that the other items can still commit. */
export function isFaultOfItem(error: unknown): boolean {
  if (error instanceof ProviderError && error.cause !== undefined)
    return isFaultOfItem(error.cause);
  if (PerdureError.is(error)) return error.code !== 'CLOSED';
  const code = errorCode(error);
  if (/^[0-9A-Z]{5}$/.test(code)) return /^(22|23|54)/.test(code);
  return error instanceof Error && !isConnectionLost(error);
}

/** Converts an error to a `ProviderError` with a suggested fix. */
export function toProviderError(operation: string, error: unknown): PerdureError {
  if (PerdureError.is(error)) return error;
  const code = errorCode(error);
  return new ProviderError({
    operation,
    message: `${operation}: ${describe(error)} (${code === '' ? 'no code' : code}). ${advice(code, error)}`,
    retryable: isTransient(error) || /^(53|57014|58)/.test(code),
    cause: error,
  });
}

/** The error of a commit whose outcome is unknown because the connection was lost. */
export function unknownOutcome(operation: string, cause: unknown): ProviderError {
  return new ProviderError({
    operation,
    message: `${operation}: the connection was lost during the commit (${describe(cause)}), so its outcome is unknown. Read the data before you retry the write.`,
    retryable: true,
    outcomeUnknown: true,
    cause,
  });
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // A host with several addresses fails with one error per address and an empty message.
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
      return "Grant the role the privileges listed in the guide 'Scaling out', or run the migrations with another role.";
    case '25006':
      return 'The server is a standby or read-only. Point the URL to the primary.';
    case '53300':
      return 'Lower `poolSize`, raise max_connections, or use a connection pooler.';
    case '57014':
      return 'The statement exceeded `statementTimeoutMs`. Check pg_locks for locks held by other transactions.';
    case '26000':
    case '42P05':
      return 'A pooler shares connections between clients. Open the store with `prepare: false`.';
    case '3F000':
    case '42P01':
      return 'The schema is missing or incomplete. Run the migrations.';
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return 'Check the host in the URL and the DNS server.';
    case 'ECONNREFUSED':
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
    case 'ENOENT':
      return 'Check the host and port in the URL, and that the server is running.';
    default:
      if (isTransient(error)) return 'Retry the operation.';
      return 'The transaction was rolled back.';
  }
}
