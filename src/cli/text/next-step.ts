import type { Command, ParsedOptions } from '../command.ts';
import { idArgument } from './shell-line.ts';
import { withTarget } from './with-target.ts';

/** Completes the commands that a message suggests with the id of an instance, and the store or server of the call. */
export function nextStep(
  text: string | undefined,
  id: string | undefined,
  call: { readonly command: Command; readonly options: ParsedOptions } | undefined,
): string | undefined {
  const named = id === undefined ? text : text?.replaceAll('<id>', () => idArgument(id));
  return named === undefined || call === undefined ? named : withTarget(named, call);
}
