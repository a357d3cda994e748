import { checkName } from '../model/values/names.ts';
import { invalidOption } from '../model/option-fields.ts';

/** Says whether a name is meant. */
export type NameMatcher = (name: string) => boolean;

// Every name is compared with each of them, and audit records keep them all.
const maxPatterns = 100;

/** Reads one or several patterns of names, in which `*` stands for any text; absent: any name. */
export function readNamePatterns(option: string, value: unknown): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const patterns: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (patterns.length === 0 || patterns.length > maxPatterns) {
    const found = patterns.length === 0 ? 'empty' : `a list of ${patterns.length}`;
    throw invalidOption(option, found, `1 to ${maxPatterns} names, in which * stands for any text`);
  }
  return patterns.map((pattern) => checkName(pattern, option));
}

/** Makes patterns a question. */
export function matchNames(patterns: readonly string[] | undefined): NameMatcher {
  if (patterns === undefined) return () => true;
  const literal = new Set(patterns.filter((pattern) => !pattern.includes('*')));
  const wild = patterns.filter((pattern) => pattern.includes('*')).map((one) => one.split('*'));
  return (name) => literal.has(name) || wild.some((parts) => matchesParts(name, parts));
}

// Not a regular expression: a pattern of many stars would make one backtrack for ever.
function matchesParts(name: string, parts: readonly string[]): boolean {
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (!name.startsWith(first) || !name.endsWith(last)) return false;
  let from = first.length;
  const end = name.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, from);
    if (found === -1) return false;
    from = found + part.length;
  }
  return from <= end;
}
