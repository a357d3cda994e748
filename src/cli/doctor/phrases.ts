import { formatCount } from '../text/format.ts';
import { idArgument } from '../text/shell-line.ts';
import type { Selectors } from './selector.ts';

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

/** The command that acts on an instance: `perdure why job-1 --store app.db`, in backticks. */
export function instanceCommand(verb: string, id: string, { selector }: Selectors): string {
  return id.startsWith('-')
    ? `\`perdure ${verb} ${selector} ${idArgument(id)}\``
    : `\`perdure ${verb} ${idArgument(id)} ${selector}\``;
}

/** The end of a sentence that says to start a worker: where, and the command. A worker needs the store itself. */
export function workerCommand({ storeSelector }: Selectors): string {
  return storeSelector === undefined
    ? ' on a machine that reaches the store: `perdure worker <file> --store <path | url>`'
    : `: \`perdure worker <file> ${storeSelector}\``;
}

/** Joins up to three examples: `a, b and 2 more`. */
export function examples(names: readonly string[], total = names.length): string {
  const shown = names.slice(0, 3);
  const more = total - shown.length;
  return more > 0 ? `${shown.join(', ')} and ${more} more` : shown.join(', ');
}
