/**
 * Characters that a terminal executes or that reorder text: control characters, bidirectional controls, line separators and
 * lone surrogates.
 */
export const unsafeCharacters =
  /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069\uFEFF]|\p{Cs}/gu;

/** Escapes unsafe characters except line feeds, as in JSON. JSON stays the same document. */
export function escapeUnsafe(text: string): string {
  return text.replace(unsafeCharacters, (char) =>
    char === '\n' ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
