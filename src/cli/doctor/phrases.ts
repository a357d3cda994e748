import { formatCount } from '../text/format.ts';

/** `1 instance`, `1,284 instances`, `1,000+ instances`. */
export function counted(
  { count, capped }: { readonly count: number; readonly capped?: true },
  one: string,
  many = `${one}s`,
): string {
  return `${formatCount(count)}${capped === true ? '+' : ''} ${count === 1 ? one : many}`;
}

/** Quotes an argument for a POSIX shell, if it needs that. */
export function shellQuote(text: string): string {
  return /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Joins up to three examples: `a, b and 2 more`. */
export function examples(names: readonly string[], total = names.length): string {
  const shown = names.slice(0, 3);
  const more = total - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
