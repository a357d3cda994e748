import { byteLength } from './payload.ts';
import { PerdureError } from '../failures/errors.ts';

/** Maximum length of names of definitions, events and versions, in bytes. */
export const maxNameBytes = 256;
/** Maximum length of an instance id, in bytes. */
export const maxIdBytes = 1_000;

// Control characters, and the line and paragraph separators.
const controlCharacter = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** Returns a valid name: 1 to 256 bytes, no control characters or quotes, well-formed. Throws `INVALID_NAME` otherwise. */
export function checkName(name: unknown, what: string): string {
  return checkText(name, what, maxNameBytes, 'INVALID_NAME');
}

/** Returns a valid instance id: as a name, but up to 1,000 bytes. Throws `INVALID_ID` otherwise. */
export function checkInstanceId(id: unknown): string {
  return checkText(id, 'Instance id', maxIdBytes, 'INVALID_ID');
}

/** Returns a valid dedupe key: the rules of instance ids apply. Throws `INVALID_ID` otherwise. */
export function checkDedupeKey(key: unknown): string {
  return checkText(key, 'Dedupe key', maxIdBytes, 'INVALID_ID');
}

/** Returns a valid key of debounced starts: the rules of instance ids apply. Throws `INVALID_ID` otherwise. */
export function checkDebounceKey(key: unknown): string {
  return checkText(key, 'Debounce key', maxIdBytes, 'INVALID_ID');
}

/** Returns a valid key of an event: the rules of instance ids apply. Throws `INVALID_ID` otherwise. */
export function checkEventKey(key: unknown): string {
  const text = checkText(key, 'Event key', maxIdBytes, 'INVALID_ID');
  if (!text.startsWith('~') || generatedKey.test(text)) return text;
  throw new PerdureError(
    'INVALID_ID',
    `Event key ${JSON.stringify(text.slice(0, 80))} starts with "~", which is reserved for generated keys.`,
  );
}

// As a remote client generates it.
const generatedKey = /^~[0-9a-z]{9,}-[\w-]{16}$/;

/** Returns a valid key of an update: the rules of instance ids apply. Throws `INVALID_ID` otherwise. */
export function checkUpdateKey(key: unknown): string {
  return checkText(key, 'Update key', maxIdBytes, 'INVALID_ID');
}

function checkText(
  text: unknown,
  what: string,
  maxBytes: number,
  code: 'INVALID_NAME' | 'INVALID_ID',
): string {
  const problem = findTextProblem(text, maxBytes);
  if (problem !== undefined) {
    throw new PerdureError(
      code,
      `${what} ${problem}. Use 1 to ${maxBytes} bytes of text without control characters or quotes.`,
    );
  }
  return text as string;
}

/** Returns what is wrong with a name, an id or a key; `undefined` if it is valid. */
export function findTextProblem(text: unknown, maxBytes = Infinity): string | undefined {
  if (typeof text !== 'string')
    return `must be a string, not ${text === null ? 'null' : typeof text}`;
  if (text === '') return 'is empty';
  if (text.length > maxBytes || (text.length * 3 > maxBytes && byteLength(text) > maxBytes)) {
    return `is longer than ${maxBytes} bytes`;
  }
  if (controlCharacter.test(text)) return 'contains a control character';
  // Names and ids appear in logs, URLs and shell commands, where a quote could end an argument.
  if (/['"`]/.test(text)) return 'contains a quote';
  if (!text.isWellFormed()) return 'contains half of a surrogate pair';
  return undefined;
}
