import type { Call } from './command.ts';
import { clean } from './text/format.ts';
import { withTarget } from './text/with-target.ts';

/** Writes the next command for a person. Programs that read the messages do not get it. */
export function hint(call: Pick<Call, 'terminal' | 'command' | 'options'>, text: string): void {
  const { stderr } = call.terminal;
  if (stderr.isTTY) stderr.write(`${stderr.style('dim', clean(withTarget(text, call)))}\n`);
}
