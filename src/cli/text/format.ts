import { escapeUnsafe, unsafeCharacters } from '../../model/values/unsafe-characters.ts';

/** Formats a number with separators: 1,284. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** Formats a count with its noun: `1 instance`, `1,284 instances`. */
export function countOf(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** Formats a duration with its two largest units: `3d 4h`, `12s`, `250ms`. */
export function formatDuration(ms: number): string {
  const whole = Math.max(0, Math.round(ms));
  if (whole < 1_000) return `${whole}ms`;
  const at = units.findIndex(([, unitMs]) => whole >= unitMs);
  const [unit, unitMs] = units[at] ?? ['s', 1_000];
  const first = `${Math.floor(whole / unitMs)}${unit}`;
  const next = units[at + 1];
  const rest = next === undefined ? 0 : Math.floor((whole % unitMs) / next[1]);
  return next === undefined || rest === 0 ? first : `${first} ${rest}${next[0]}`;
}

/** Formats how long ago a time was: `3m ago`; `in 3m` for a future time. */
export function formatAge(at: number, nowMs: number): string {
  const one = (ms: number) => formatDuration(ms).split(' ')[0] ?? '';
  return at > nowMs ? `in ${one(at - nowMs)}` : `${one(nowMs - at)} ago`;
}

/** Formats a time: `2026-11-17 08:00:00Z`. */
export function formatTime(at: number): string {
  return new Date(at)
    .toISOString()
    .replace('T', ' ')
    .replace(/\.\d+Z$/, 'Z');
}

/** Formats bytes: `512 B`, `1.2 MiB`. */
export function formatBytes(bytes: number): string {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const;
  const power = Math.min(names.length - 1, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${names[power]}`;
}

/** Makes stored text safe for a terminal: shows control and bidirectional characters as escapes, in one line. */
export function clean(text: string): string {
  return text.replace(unsafeCharacters, (char) => {
    if (char === '\n') return '⏎';
    if (char === '\t') return ' ';
    return `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;
  });
}

/** An id as a line of its own: safe at a terminal, unchanged in a pipe, where another command reads it. */
export function idFor({ isTTY }: { readonly isTTY: boolean }, id: string): string {
  return isTTY ? clean(id) : id;
}

/** Escapes in JSON what {@link clean} escapes in text. The document stays the same. */
export function cleanJson(json: string): string {
  return escapeUnsafe(json);
}

const wide =
  /[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u;
// Combining marks include the selectors of variations.
const zeroWidth = /\p{Mn}|\p{Me}|[\u200B-\u200D]/u;

/** How many columns a text takes in a terminal. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const char of text) width += zeroWidth.test(char) ? 0 : wide.test(char) ? 2 : 1;
  return width;
}

/** Cuts a text to a width and marks the cut with an ellipsis. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = '';
  let taken = 0;
  for (const char of text) {
    taken += widthOf(char);
    if (taken > width - 1) break;
    kept += char;
  }
  return `${kept}…`;
}
