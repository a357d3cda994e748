import type { Terminal } from './command.ts';
import { clean } from './text/format.ts';

/** Writes the next command for a person. Programs that read the messages do not get it. */
export function hint({ stderr }: Terminal, text: string): void {
  if (stderr.isTTY) stderr.write(`${stderr.style('dim', clean(text))}\n`);
}
