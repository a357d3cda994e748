import { escapeUnsafe } from './values/unsafe-characters.ts';

/** Receives log lines. `console` and pino loggers implement it. */
export interface Logger {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** Drops all log lines. */
export const silentLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Writes warnings and errors to the console (stderr on Node) and drops the rest. The default logger. */
export const consoleLogger: Logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (fields, message) => console.warn(formatLine('warn', fields, message)),
  error: (fields, message) => console.error(formatLine('error', fields, message)),
};

/** Returns a logger that adds fields to each line. Fields of the line itself win. */
export function withFields(logger: Logger, fields: () => object): Logger {
  const write =
    (level: keyof Logger) =>
    (own: object, message: string): void =>
      logger[level]({ ...fields(), ...own }, message);
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

const maxCauses = 8;

/** Formats one line with the fields, followed by the stack frames of the `error` field. */
function formatLine(level: string, fields: object, message: string): string {
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${key}: ${formatValue(value)}`);
  const line = `perdure ${level}: ${message}${shown.length === 0 ? '' : ` { ${shown.join(', ')} }`}`;
  // An error message may have escape sequences of a terminal.
  return escapeUnsafe(line + framesOf((fields as { readonly error?: unknown }).error));
}

function formatValue(value: unknown): string {
  try {
    if (isErrorLike(value)) return formatError(value);
    return JSON.stringify(value) ?? String(value);
  } catch {
    // Logging must not throw because of a getter or a cycle.
    return '(unprintable)';
  }
}

function formatError({ name, message, cause }: ErrorLike, depth = 0): string {
  const own = JSON.stringify(`${name}: ${message}`);
  return isErrorLike(cause) && cause.message !== message && depth < maxCauses
    ? `${own} (caused by ${formatError(cause, depth + 1)})`
    : own;
}

/** The stack frames of the innermost cause; the outer ones belong to Perdure. */
function framesOf(error: unknown): string {
  try {
    const innermost = innermostCause(error);
    if (typeof innermost?.stack !== 'string') return '';
    const frames = innermost.stack.split('\n').filter((line) => /^\s+at /.test(line));
    return frames.length === 0 ? '' : `\n${frames.join('\n')}`;
  } catch {
    return '';
  }
}

function innermostCause(error: unknown): ErrorLike | undefined {
  if (!isErrorLike(error)) return undefined;
  let inner = error;
  for (let depth = 0; depth < maxCauses && isErrorLike(inner.cause); depth += 1)
    inner = inner.cause;
  return inner;
}

interface ErrorLike {
  readonly name: string;
  readonly message: string;
  readonly stack?: unknown;
  readonly cause?: unknown;
}

function isErrorLike(value: unknown): value is ErrorLike {
  if (typeof value !== 'object' || value === null) return false;
  const { name, message } = value as Partial<ErrorLike>;
  return typeof name === 'string' && typeof message === 'string';
}
