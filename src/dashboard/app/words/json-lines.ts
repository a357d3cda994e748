/** A part of a line: a key, a string, a number, punctuation, or a literal. */
type JsonPart = readonly [kind: 'k' | 's' | 'n' | 'p' | 'b', text: string];

export interface JsonLine {
  readonly indent: number;
  readonly parts: readonly JsonPart[];
}

const token = /\s*(?:("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],:]))/gsy;
// A longer text in one line makes the page slow.
const longestString = 20_000;

/**
 * Divides a JSON text into indented lines, up to `maxLines`. Works on the text, not on parsed values, so that numbers keep
 * all their digits. A text that is not JSON is one line.
 */
export function jsonLines(
  text: string,
  maxLines: number,
): { readonly lines: readonly JsonLine[]; readonly isComplete: boolean } {
  const lines: { indent: number; parts: JsonPart[] }[] = [];
  let line: { indent: number; parts: JsonPart[] } | undefined;
  let depth = 0;
  let position = 0;
  const put = (part: JsonPart): void => {
    if (line === undefined) {
      line = { indent: depth, parts: [] };
      lines.push(line);
    }
    line.parts.push(part);
  };
  while (position < text.length) {
    token.lastIndex = position;
    const match = token.exec(text);
    if (match === null) {
      if (text.slice(position).trim() === '') break;
      return { lines: [{ indent: 0, parts: [['b', shorten(text)]] }], isComplete: true };
    }
    position = token.lastIndex;
    const [, string, number, literal, mark] = match;
    if (string !== undefined) {
      const isKey = /^\s*:/.test(text.slice(position, position + 16));
      put([isKey ? 'k' : 's', shorten(string)]);
    } else if (number !== undefined) put(['n', number]);
    else if (literal !== undefined) put(['b', literal]);
    else if (mark === '{' || mark === '[') {
      const close = mark === '{' ? /\s*\}/y : /\s*\]/y;
      close.lastIndex = position;
      if (close.test(text)) {
        put(['p', mark === '{' ? '{}' : '[]']);
        position = close.lastIndex;
        continue;
      }
      put(['p', mark]);
      depth += 1;
      line = undefined;
    } else if (mark === '}' || mark === ']') {
      depth = Math.max(0, depth - 1);
      line = undefined;
      put(['p', mark]);
    } else if (mark === ',') {
      put(['p', ',']);
      line = undefined;
    } else put(['p', ': ']);
    if (lines.length > maxLines) return { lines: lines.slice(0, maxLines), isComplete: false };
  }
  return { lines, isComplete: true };
}

function shorten(text: string): string {
  if (text.length <= longestString) return text;
  return `${text.slice(0, longestString)}… (${text.length - longestString} more characters)`;
}
