import { platform } from '../platform.ts';
import type { ValueSize } from './find-unserializable.ts';

/** Shorter strings are encoded and parsed about as fast as their texts are found. */
const minCharacters = 4_096;
const maxLength = 1_048_576;
/** Total length of the texts. Their values take about the same again. */
const maxTotalLength = 8_388_608;
/** With fewer characters per node, a copy takes about as long as parsing. */
const minCharactersPerNode = 256;
const maxDepth = 16;
const idleMs = 1_000;
const sampledCharacters = 32;
/** Bounds the comparisons of texts that differ only in other places. */
const maxPerSample = 16;

interface Entry {
  /** As `JSON.stringify` returned it. Empty after the entry was dropped. */
  text: string;
  /** The value of the text, which no other code has. */
  copy: unknown;
}

/**
 * Copies a value with few nodes and many characters; a string is its own copy. Returns `undefined` for other values. `JSON.stringify`
 * of the copy returns the text of the value, also if a getter returns another value each time.
 */
export function copyLargeValue(value: unknown, { nodes, characters }: ValueSize): unknown {
  if (characters < minCharacters || characters < nodes * minCharactersPerNode) return undefined;
  return copyOf(value, 0);
}

/**
 * Large payloads that this process encoded in the last seconds. A value that is passed on unchanged is not encoded again, and
 * a text whose value is known is copied instead of parsed. Only used for values of few nodes, such as documents and files.
 *
 * P1. A text is used for a value only if `JSON.stringify` returned it for an equal one: each read compares the whole value with
 *     a private copy, so changes of the value by its owner are detected. Strings cannot change.
 * P2. Each decoded value is new, as that of `JSON.parse`.
 * P3. The total length of the texts is bounded, and after a second without use nothing is kept.
 */
export class RecentPayloads {
  /** From old to new. */
  readonly #entries = new Set<Entry>();
  readonly #byText = new Samples();
  /** Entries whose value is a string. */
  readonly #byString = new Samples();
  /** Decoded values. They may outlive their entry, which is emptied when it is dropped. */
  readonly #origins = new WeakMap<object, Entry>();
  #totalLength = 0;
  #isUsed = false;
  #hasTimer = false;

  /** Total length of the texts. */
  get totalLength(): number {
    return this.#totalLength;
  }

  /** Returns the text of a value that was decoded here and has not changed, or of a string that was encoded here. */
  find(value: unknown): string | undefined {
    if (this.#totalLength === 0) return undefined;
    if (typeof value === 'string') {
      if (value.length < minCharacters) return undefined;
      return this.#use(this.#byString.find(value, ({ copy }) => copy === value))?.text;
    }
    if (typeof value !== 'object' || value === null) return undefined;
    const entry = this.#origins.get(value);
    if (entry === undefined || entry.text === '' || !isUnchanged(value, entry.copy))
      return undefined;
    return this.#use(entry)?.text;
  }

  /** Keeps the text that `JSON.stringify` returned for a copy of `copyLargeValue`. */
  add(text: string, copy: unknown): void {
    if (text.length > maxLength || this.#use(this.#findText(text)) !== undefined) return;
    const entry: Entry = { text, copy };
    this.#entries.add(entry);
    this.#byText.add(text, entry);
    if (typeof copy === 'string') this.#byString.add(copy, entry);
    this.#totalLength += text.length;
    for (const old of this.#entries) {
      if (this.#totalLength <= maxTotalLength) break;
      this.#drop(old);
    }
    this.#use(entry);
  }

  /** Returns a new value of a text, or `undefined` if the value is not known. */
  decode(text: string): unknown {
    if (this.#totalLength === 0 || text.length < minCharacters) return undefined;
    const entry = this.#use(this.#findText(text));
    if (entry === undefined) return undefined;
    const value = copyOf(entry.copy, 0);
    if (typeof value === 'object' && value !== null) this.#origins.set(value, entry);
    return value;
  }

  #findText(text: string): Entry | undefined {
    return this.#byText.find(text, (entry) => entry.text === text);
  }

  #use(entry: Entry | undefined): Entry | undefined {
    if (entry === undefined) return undefined;
    this.#isUsed = true;
    if (!this.#hasTimer) this.#dropWhenIdle();
    return entry;
  }

  #dropWhenIdle(): void {
    this.#hasTimer = true;
    this.#isUsed = false;
    const timer = platform.setTimeout(() => {
      this.#hasTimer = false;
      if (this.#isUsed) this.#dropWhenIdle();
      else for (const entry of this.#entries) this.#drop(entry);
    }, idleMs);
    // A number in browsers, despite its type.
    if (typeof timer === 'object') timer.unref();
  }

  #drop(entry: Entry): void {
    this.#entries.delete(entry);
    this.#byText.delete(entry.text, entry);
    if (typeof entry.copy === 'string') this.#byString.delete(entry.copy, entry);
    this.#totalLength -= entry.text.length;
    entry.text = '';
    entry.copy = undefined;
  }
}

/** Entries by a sample of the characters of a text, which is much shorter than a hash of all of them. */
class Samples {
  readonly #lists = new Map<number, readonly Entry[]>();

  find(text: string, isEqual: (entry: Entry) => boolean): Entry | undefined {
    return this.#lists.get(sampleOf(text))?.find(isEqual);
  }

  add(text: string, entry: Entry): void {
    const sample = sampleOf(text);
    const others = this.#lists.get(sample) ?? [];
    this.#lists.set(sample, [entry, ...others].slice(0, maxPerSample));
  }

  delete(text: string, entry: Entry): void {
    const sample = sampleOf(text);
    const left = this.#lists.get(sample)?.filter((other) => other !== entry) ?? [];
    if (left.length === 0) this.#lists.delete(sample);
    else this.#lists.set(sample, left);
  }
}

/** Hashes the length and characters at the start, at the end and at equal distances. */
function sampleOf(text: string): number {
  const { length } = text;
  const distance = Math.floor(length / sampledCharacters);
  let sample = length;
  for (let n = 0; n < sampledCharacters; n++) {
    sample = (Math.imul(sample, 31) + text.charCodeAt(n)) | 0;
    sample = (Math.imul(sample, 31) + text.charCodeAt(length - 1 - n)) | 0;
    sample = (Math.imul(sample, 31) + text.charCodeAt(n * distance)) | 0;
  }
  return sample;
}

/** Copies plain data as `JSON.stringify` writes it. Returns `undefined` for other data, and for too many levels. */
function copyOf(value: unknown, depth: number): unknown {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      // JSON has no negative zero.
      return Number.isFinite(value) ? value + 0 : undefined;
    case 'object':
      if (value === null || depth > maxDepth) return value === null ? null : undefined;
      return Array.isArray(value) ? copyItems(value, depth) : copyProperties(value, depth);
    default:
      return undefined;
  }
}

function copyItems(items: readonly unknown[], depth: number): unknown[] | undefined {
  const copies: unknown[] = [];
  for (const item of items) {
    const copy = copyOf(item, depth + 1);
    if (copy === undefined) return undefined;
    copies.push(copy);
  }
  return copies;
}

function copyProperties(value: object, depth: number): object | undefined {
  const copies: Record<string, unknown> = {};
  for (const key of Object.keys(value)) {
    const property = (value as Record<string, unknown>)[key];
    if (property === undefined) continue;
    const copy = copyOf(property, depth + 1);
    if (copy === undefined || key === '__proto__') return undefined;
    copies[key] = copy;
  }
  return copies;
}

/** Whether `JSON.stringify` returns the same text for a value as for plain data. Throws what the value throws. */
function isUnchanged(value: unknown, copy: unknown): boolean {
  if (value === copy) return true;
  if (typeof value !== 'object' || value === null) return false;
  if (typeof copy !== 'object' || copy === null || 'toJSON' in value) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (Array.isArray(copy)) {
    return (
      Array.isArray(value) &&
      prototype === Array.prototype &&
      value.length === copy.length &&
      copy.every((item, index) => isUnchanged(value[index], item))
    );
  }
  if (Array.isArray(value) || prototype !== Object.prototype) return false;
  const keys = Object.keys(value);
  const expected = Object.keys(copy);
  return (
    keys.length === expected.length &&
    keys.every(
      (key, index) =>
        key === expected[index] &&
        isUnchanged(
          (value as Record<string, unknown>)[key],
          (copy as Record<string, unknown>)[key],
        ),
    )
  );
}
