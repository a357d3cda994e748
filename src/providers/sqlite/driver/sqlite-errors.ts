import Database from 'better-sqlite3';
import { isPerdureError, PerdureError, ProviderError } from '../../../model/failures/errors.ts';

/** The SQLite result code of an error, such as `SQLITE_BUSY`. Empty for other errors. */
function sqliteCode(error: unknown): string {
  return error instanceof Database.SqliteError ? error.code : '';
}

/** Whether another connection holds a lock, so that a retry can succeed. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(sqliteCode(error));
}

/** Whether the error concerns one item only, so that the rest of the group can commit. */
export function isFaultOfItem(error: unknown): boolean {
  const code = sqliteCode(error);
  if (code !== '') return /^SQLITE_(CONSTRAINT|TOOBIG|MISMATCH|RANGE)/.test(code);
  if (isPerdureError(error, 'STORE_REPLACED')) return false;
  return error instanceof Error;
}

/** Converts an error to a `PerdureError`, with a fix in its message. */
export function toProviderError(operation: string, error: unknown): PerdureError {
  if (PerdureError.is(error)) return error;
  const code = sqliteCode(error);
  const detail = error instanceof Error ? error.message : String(error);
  if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) {
    return new ProviderError({
      operation,
      message: `${operation}: the database file is damaged or not a database (${detail}). Restore it from a backup, or open another file.`,
      retryable: false,
      code: 'STORE_DAMAGED',
      cause: error,
    });
  }
  return new ProviderError({
    operation,
    message: `${operation}: ${detail}${code === '' ? '' : ` (${code})`}. ${advice(code)}`,
    retryable: isBusy(error) || /^SQLITE_(FULL|IOERR|NOMEM)/.test(code),
    cause: error,
  });
}

function advice(code: string): string {
  if (/^SQLITE_(BUSY|LOCKED|PROTOCOL)/.test(code)) {
    return 'Another process held the database lock for too long. Retry, or raise `busyTimeoutMs`.';
  }
  if (code.startsWith('SQLITE_FULL')) return 'Free disk space, then retry.';
  if (/^SQLITE_(IOERR|CANTOPEN|READONLY)/.test(code)) {
    return 'Check the disk and the file permissions, then retry.';
  }
  return 'Nothing was written.';
}
