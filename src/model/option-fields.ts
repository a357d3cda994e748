import { PerdureError } from './failures/errors.ts';

type Fields<Key extends string> = Readonly<Partial<Record<Key, unknown>>>;
type Code = 'INVALID_INPUT' | 'INVALID_OPTION';

/** Reads an object of options. A misspelt one must not be ignored, so what does not exist is refused. */
export function readFields<Key extends string>(
  value: unknown,
  what: string,
  allowed: readonly Key[],
  code: Code = 'INVALID_INPUT',
): Fields<Key> {
  if (value === undefined) return {} as Fields<Key>;
  const refuse = (found: unknown): PerdureError =>
    new PerdureError(code, sentence(what, found, `an object with ${allowed.join(', ')}`));
  if (typeof value !== 'object' || value === null) throw refuse(value);
  const keys = ownKeys(value);
  if (keys === undefined) throw refuse(value);
  const unknown = keys.find((key) => !allowed.includes(key as Key));
  if (unknown !== undefined) throw refuse(`{ ${unknown} }`);
  return value as Fields<Key>;
}

// An array, a set or a promise has no keys either: taken for a filter without conditions it would select everything.
// A revoked proxy cannot even be asked.
function ownKeys(value: object): readonly string[] | undefined {
  try {
    const isFields = Object.prototype.toString.call(value) === '[object Object]';
    return isFields ? Object.keys(value) : undefined;
  } catch {
    return undefined;
  }
}

/** Says what a value is and what it should be. */
export function invalid(what: string, value: unknown, expected: string): PerdureError {
  return new PerdureError('INVALID_INPUT', sentence(what, value, expected));
}

/** Says what an option is and what it should be. */
export function invalidOption(what: string, value: unknown, expected: string): PerdureError {
  return new PerdureError('INVALID_OPTION', sentence(what, value, expected));
}

function sentence(what: string, value: unknown, expected: string): string {
  const shown = typeof value === 'object' && value !== null ? 'an object' : String(value);
  return `${what} is ${shown.slice(0, 80)}; use ${expected}.`;
}

const maxPriority = 100;

/** Returns the priority if it is one (a whole number from 0 to 100, higher first), throws otherwise. */
export function checkPriority(priority: unknown): number {
  const number = priority as number;
  // Adding 0 turns -0 into 0.
  if (Number.isSafeInteger(number) && number >= 0 && number <= maxPriority) return number + 0;
  throw invalidOption(
    'priority',
    priority,
    `a whole number from 0 to ${maxPriority}, higher first`,
  );
}
