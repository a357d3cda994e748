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
