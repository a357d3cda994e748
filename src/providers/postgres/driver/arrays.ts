// Written here and not by the driver, which quotes every number and looks at the type of every value.

/** Whole numbers as an array of PostgreSQL. */
export function numbers(values: readonly (number | null)[]): string {
  return `{${values.map((value) => value ?? 'NULL').join()}}`;
}

/** Texts as an array of PostgreSQL, fit to be stored. */
export function texts(values: readonly (string | null)[]): string {
  let list = '';
  let last: string | null | undefined;
  let lastQuoted = '';
  for (const value of values) {
    // In many columns all rows have the same.
    if (value !== last) {
      last = value;
      lastQuoted = quoted(value);
    }
    list += list === '' ? lastQuoted : `,${lastQuoted}`;
  }
  return `{${list}}`;
}

export function booleans(values: readonly boolean[]): string {
  return `{${values.join()}}`;
}

/** One text, fit to be stored. */
export function text(value: string): string {
  return toStoredText(value);
}

function quoted(value: string | null): string {
  if (value === null) return 'NULL';
  const stored = toStoredText(value);
  const isPlain = !stored.includes('"') && !stored.includes('\\');
  return isPlain ? `"${stored}"` : `"${stored.replaceAll(/["\\]/g, '\\$&')}"`;
}

// PostgreSQL takes every character in text but NUL. U+0001 stands in front of what replaces the two of them, character
// by character, so that a prefix stays a prefix and different texts stay different.
const escape = '\u0001';
const escapedNul = `${escape}0`;
const escapedEscape = `${escape}1`;

/** Makes any text fit for a column; nearly always it is fit as it is. */
export function toStoredText(text: string): string {
  const isPlain = !text.includes('\0') && !text.includes(escape);
  if (isPlain) return text;
  return text.replaceAll(escape, escapedEscape).replaceAll('\0', escapedNul);
}

/** The text that was stored. */
export function fromStoredText(stored: string): string {
  if (!stored.includes(escape)) return stored;
  return stored.replaceAll(escapedNul, '\0').replaceAll(escapedEscape, escape);
}
