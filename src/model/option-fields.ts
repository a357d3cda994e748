import { closestName } from './closest-name.ts';
import { PerdureError } from './failures/errors.ts';

type Fields<Key extends string> = Readonly<Partial<Record<Key, unknown>>>;

/** Checks an object of options. Throws `INVALID_OPTION` for an unknown one, so that a typo is not ignored. */
export function readFields<Key extends string>(
  value: unknown,
  where: string,
  allowed: readonly Key[],
): Fields<Key> {
  if (value === undefined) return {} as Fields<Key>;
  const keys = typeof value === 'object' && value !== null ? ownKeys(value) : undefined;
  if (keys === undefined) {
    throw new PerdureError(
      'INVALID_OPTION',
      `Invalid options in ${where}: ${showValue(value)}. Pass an object with ${allowed.join(', ')}.`,
    );
  }
  const unknown = keys.find((key) => !allowed.includes(key as Key));
  if (unknown !== undefined) throw unknownOption(unknown, where, allowed);
  return value as Fields<Key>;
}

/** An option that does not exist, with the closest one that does. */
export function unknownOption(
  option: string,
  where: string,
  allowed: readonly string[],
): PerdureError {
  const closest = closestName(option, allowed);
  const hint = closest === undefined ? '' : ` Did you mean \`${closest}\`?`;
  const valid = allowed.length === 0 ? 'none' : allowed.join(', ');
  return new PerdureError(
    'INVALID_OPTION',
    `Unknown option \`${option.slice(0, 80)}\` in ${where}.${hint} Valid options: ${valid}.`,
  );
}

// Returns `undefined` for an array, a set or a promise: read as a filter without conditions, it would select everything.
// A revoked proxy throws.
function ownKeys(value: object): readonly string[] | undefined {
  try {
    const isFields = Object.prototype.toString.call(value) === '[object Object]';
    return isFields ? Object.keys(value) : undefined;
  } catch {
    return undefined;
  }
}

/** The `INVALID_INPUT` error of a value: `expected` completes the sentence "use …". */
export function invalid(what: string, value: unknown, expected: string): PerdureError {
  return new PerdureError('INVALID_INPUT', sentence(what, value, expected));
}

/** The `INVALID_OPTION` error of an option: `expected` completes the sentence "use …". */
export function invalidOption(what: string, value: unknown, expected: string): PerdureError {
  return new PerdureError('INVALID_OPTION', sentence(what, value, expected));
}

function sentence(what: string, value: unknown, expected: string): string {
  return `Invalid ${subject(what)} ${showValue(value)}: use ${expected}.`;
}

/** The name of a value in a sentence: code in backticks, words as they are. */
function subject(what: string): string {
  return /^[\w.[\]()]+$/.test(what) ? `\`${what}\`` : what.replace(/^(?:The|A) /, '');
}

/** Formats a value for an error message, in at most 80 characters. */
export function showValue(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.slice(0, 78));
  if (typeof value === 'function') return '(a function)';
  if (typeof value !== 'object' || value === null) return String(value).slice(0, 80);
  return '(an object)'; // Not inspected: a revoked proxy throws.
}

const maxPriority = 100;

/** Returns a valid priority: an integer from 0 to 100, higher first. Throws `INVALID_OPTION` otherwise. */
export function checkPriority(priority: unknown): number {
  const number = priority as number;
  // Adding 0 turns -0 into 0.
  if (Number.isSafeInteger(number) && number >= 0 && number <= maxPriority) return number + 0;
  throw invalidOption('priority', priority, `an integer from 0 to ${maxPriority}`);
}
