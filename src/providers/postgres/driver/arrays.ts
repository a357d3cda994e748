// The driver's own array encoding quotes every number and inspects the type of every value; these functions are faster.

/** Encodes integers as a PostgreSQL array literal. */
export function numbers(values: readonly (number | null)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join()}}`;
}

/** Encodes texts as a PostgreSQL array literal, each escaped by `toStoredText`. */
export function texts(values: readonly (string | null)[]): string {
  let list = '';
  let last: string | null | undefined;
  let lastQuoted = '';
  for (const value of values) {
    // Many columns have the same value in all rows.
    if (value !== last) {
      last = value;
      lastQuoted = quoted(value);
    }
    list += list === '' ? lastQuoted : `,${lastQuoted}`;
  }
  return `{${list}}`;
}

/** Encodes booleans as a PostgreSQL array literal. */
export function booleans(values: readonly boolean[]): string {
  return `{${values.join()}}`;
}

/** Encodes one text parameter. */
export function text(value: string): string {
  return toStoredText(value);
}

function quoted(value: string | null): string {
  if (value === null) return 'NULL';
  const stored = toStoredText(value);
  const isPlain = !stored.includes('"') && !stored.includes('\\');
  return isPlain ? `"${stored}"` : `"${stored.replaceAll(/["\\]/g, '\\$&')}"`;
}

// PostgreSQL text columns accept every character except NUL. U+0001 escapes NUL and itself, one character at a time, so a
// prefix stays a prefix and different texts stay different.
const escape = '\u0001';
const escapedNul = `${escape}0`;
const escapedEscape = `${escape}1`;

/** Escapes a text for storage in a column. Most texts are returned unchanged. */
export function toStoredText(text: string): string {
  const isPlain = !text.includes('\0') && !text.includes(escape);
  if (isPlain) return text;
  return text.replaceAll(escape, escapedEscape).replaceAll('\0', escapedNul);
}

/** Reverses `toStoredText`. */
export function fromStoredText(stored: string): string {
  if (!stored.includes(escape)) return stored;
  return stored.replaceAll(escapedNul, '\0').replaceAll(escapedEscape, escape);
}
