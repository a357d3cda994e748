import { byteLength } from './payload.ts';
import { PerdureError } from '../failures/errors.ts';

/** Names of definitions, events and versions may have up to this many bytes. */
export const maxNameBytes = 256;
/** Instance ids may have up to this many bytes. */
export const maxIdBytes = 1_000;

// Control characters, and the two separators that end a line in many readers.
const controlCharacter = /[\p{Cc}\p{Zl}\p{Zp}]/u;

/** Returns the name if it can be one (1 to 256 bytes, no control characters or quotes, well-formed), throws otherwise. */
export function checkName(name: unknown, what: string): string {
  return checkText(name, what, maxNameBytes, 'INVALID_NAME');
}

/** Returns the id if it can be one (1 to 1,000 bytes, no control characters or quotes, well-formed), throws otherwise. */
export function checkInstanceId(id: unknown): string {
  return checkText(id, 'Instance id', maxIdBytes, 'INVALID_ID');
}

/** Returns the key if it can be one (as an instance id), throws otherwise. */
export function checkDedupeKey(key: unknown): string {
  return checkText(key, 'Dedupe key', maxIdBytes, 'INVALID_ID');
}

function checkText(
  text: unknown,
  what: string,
  maxBytes: number,
  code: 'INVALID_NAME' | 'INVALID_ID',
): string {
  const problem = findProblem(text, maxBytes);
  if (problem !== undefined) {
    throw new PerdureError(
      code,
      `${what} ${problem}. Use 1 to ${maxBytes} bytes of text without control characters or quotes.`,
    );
  }
  return text as string;
}

function findProblem(text: unknown, maxBytes: number): string | undefined {
  if (typeof text !== 'string')
    return `must be a string, not ${text === null ? 'null' : typeof text}`;
  if (text === '') return 'is empty';
  if (text.length > maxBytes || (text.length * 3 > maxBytes && byteLength(text) > maxBytes)) {
    return `is longer than ${maxBytes} bytes`;
  }
  if (controlCharacter.test(text)) return 'contains a control character';
  // Names and ids stand in logs, URLs and shell commands, where a quote ends what it is in.
  if (/['"`]/.test(text)) return 'contains a quote';
  if (!text.isWellFormed()) return 'contains half of a surrogate pair';
  return undefined;
}
