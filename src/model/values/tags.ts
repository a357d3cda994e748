import { PerdureError } from '../failures/errors.ts';
import { invalidOption, showValue } from '../option-fields.ts';
import { byteLength, parseJson } from './payload.ts';

/** The tags of an instance: text by name. */
export type Tags = Readonly<Record<string, string>>;

/** A change of tags. `null` and `undefined` remove a tag. */
export type TagChanges = Readonly<Record<string, string | null | undefined>>;

/** A change of tags as it is recorded. `null` removes a tag. */
export type RecordedTagChanges = Readonly<Record<string, string | null>>;

/** Maximum tags of an instance. */
const maxTags = 16;
/** Maximum length of the name of a tag, in bytes. */
const maxTagNameBytes = 64;
/** Maximum length of the value of a tag, in bytes. */
const maxTagValueBytes = 256;

/** Checks tags, and sorts them by name. Throws `INVALID_OPTION`. `undefined` if there are none. */
export function checkTags(tags: unknown, what = 'tags'): Tags | undefined {
  if (tags === undefined) return undefined;
  const entries = readEntries(tags, what);
  for (const [name, value] of entries) checkTag(name, value, what);
  return entries.length === 0 ? undefined : toTags(entries as [string, string][]);
}

/** Checks a change of tags. Throws `INVALID_OPTION`. */
export function checkTagChanges(changes: unknown, what: string): RecordedTagChanges {
  const entries = readEntries(changes, what);
  for (const [name, value] of entries) {
    if (value === null || value === undefined) checkTagName(name, what);
    else checkTag(name, value, what);
  }
  return sorted(entries.map(([name, value]) => [name, (value ?? null) as string | null]));
}

/** Applies a change of tags. */
export function applyTags(tags: Tags, changes: RecordedTagChanges): Tags {
  const merged = new Map(Object.entries(tags));
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) merged.delete(name);
    else merged.set(name, value);
  }
  return toTags([...merged]);
}

/** Throws `INVALID_OPTION` for more tags than an instance may have. */
export function checkTagCount(tags: Tags, what: string): void {
  const { length } = Object.keys(tags);
  if (length > maxTags) throw tooMany(length, what);
}

/** Encodes tags for a store: canonical JSON text, or `null` without tags. */
export function encodeTags(tags: Tags | undefined): string | null {
  if (tags === undefined || Object.keys(tags).length === 0) return null;
  return JSON.stringify(sorted(Object.entries(tags)));
}

/** Decodes the tags of a stored row. Damaged ones are read as none. */
export function decodeTags(stored: string | null): Tags {
  if (stored === null) return {};
  try {
    const tags = parseJson(stored);
    return isTags(tags) ? tags : {};
  } catch {
    return {};
  }
}

/** Whether a stored value is an object of strings. */
export function isTags(value: unknown): value is Tags {
  return isObject(value) && Object.values(value).every((one) => typeof one === 'string');
}

/** Whether a stored value is a change of tags. */
export function isTagChanges(value: unknown): value is RecordedTagChanges {
  return (
    isObject(value) && Object.values(value).every((one) => one === null || typeof one === 'string')
  );
}

function toTags(entries: readonly (readonly [string, string])[]): Tags {
  return sorted(entries);
}

// In code unit order, so that equal tags have equal texts.
function sorted<Value>(
  entries: readonly (readonly [string, Value])[],
): Readonly<Record<string, Value>> {
  return Object.fromEntries(entries.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

function readEntries(tags: unknown, what: string): [string, unknown][] {
  const entries = entriesOf(tags);
  if (entries === undefined) throw invalidOption(what, tags, 'an object whose values are strings');
  if (entries.length > maxTags) throw tooMany(entries.length, what);
  return entries;
}

// A revoked proxy throws.
function entriesOf(tags: unknown): [string, unknown][] | undefined {
  try {
    return isObject(tags) ? Object.entries(tags) : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return Object.prototype.toString.call(value) === '[object Object]';
}

function checkTag(name: string, value: unknown, what: string): void {
  checkTagName(name, what);
  if (typeof value === 'string' && isPlain(value, maxTagValueBytes)) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid value ${showValue(value)} of tag ${showValue(name)} in \`${what}\`: use 1 to ${maxTagValueBytes} bytes of text without control characters.`,
  );
}

function checkTagName(name: string, what: string): void {
  // A stored object loses the key `__proto__`.
  const isName = name !== '__proto__' && isPlain(name, maxTagNameBytes) && !/['"`=]/.test(name);
  if (isName) return;
  throw new PerdureError(
    'INVALID_OPTION',
    `Invalid name ${showValue(name)} of a tag in \`${what}\`: use 1 to ${maxTagNameBytes} bytes of text without control characters, quotes or "=".`,
  );
}

const controlCharacter = /[\p{Cc}\p{Zl}\p{Zp}]/u;

function isPlain(text: string, maxBytes: number): boolean {
  return (
    text !== '' &&
    text.length <= maxBytes &&
    byteLength(text) <= maxBytes &&
    text.isWellFormed() &&
    !controlCharacter.test(text)
  );
}

function tooMany(count: number, what: string): PerdureError {
  return new PerdureError(
    'INVALID_OPTION',
    `Too many tags in \`${what}\`: ${count}. An instance can have at most ${maxTags}.`,
  );
}
