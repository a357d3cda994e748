import type { Command, ParsedOptions } from '../command.ts';
import { targetOptions } from '../shared-options.ts';
import { isSecretUrl } from './secret-url.ts';
import { shellLine } from './shell-line.ts';

const suggested = /`perdure (?!init|replay|token|completion|help|version)([^`]*?)( -- [^`]*)?`/g;

/** Adds the store or server of a call to the commands that a message suggests, so that a person can copy them. */
export function withTarget(
  text: string,
  { command, options }: { readonly command: Command; readonly options: ParsedOptions },
): string {
  const words = targetOptions(command).flatMap(({ name }) => {
    const value = options.text(name);
    return value === undefined ? [] : [`--${name}`, value];
  });
  if (words.length === 0 || words.some(isSecretUrl)) return text;
  return text.replaceAll(suggested, (whole, line: string, id: string | undefined) =>
    line.includes('--help') ? whole : `\`perdure ${line} ${shellLine(words)}${id ?? ''}\``,
  );
}
