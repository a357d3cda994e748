import { PerdureError } from '../model/errors.ts';

type Fields<Key extends string> = Readonly<Partial<Record<Key, unknown>>>;

/** Reads an object of options. A misspelt one must not be ignored, so what does not exist is refused. */
export function readFields<Key extends string>(
  value: unknown,
  what: string,
  allowed: readonly Key[],
): Fields<Key> {
  if (value === undefined) return {} as Fields<Key>;
  const expected = `an object with ${allowed.join(', ')}`;
  if (typeof value !== 'object' || value === null) throw invalid(what, value, expected);
  const keys = ownKeys(value);
  if (keys === undefined) throw invalid(what, value, expected);
  const unknown = keys.find((key) => !allowed.includes(key as Key));
  if (unknown !== undefined) throw invalid(what, `{ ${unknown} }`, expected);
  return value as Fields<Key>;
}

// A revoked proxy cannot even be asked for its keys.
function ownKeys(value: object): readonly string[] | undefined {
  try {
    return Object.keys(value);
  } catch {
    return undefined;
  }
}

/** Says what an option is and what it should be. */
export function invalid(what: string, value: unknown, expected: string): PerdureError {
  const shown = typeof value === 'object' && value !== null ? 'an object' : String(value);
  return new PerdureError('INVALID_INPUT', `${what} is ${shown.slice(0, 80)}; use ${expected}.`);
}
