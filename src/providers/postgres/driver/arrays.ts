import { toStoredText } from './stored-text.ts';

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
